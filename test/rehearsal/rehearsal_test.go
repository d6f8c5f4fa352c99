package rehearsal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestTheRunawayPodIsEvictedOnceAndTheOthersStay(t *testing.T) {
	s := begin(t, false)
	s.assertEvicted()
	crossing := s.grow()
	s.until("a pod is evicted", func() bool { return s.evaluated("evicted") == 1 })

	// The device stays full until the pod has terminated, which takes a while.
	s.more("device_cooldown", 4)
	s.assertEvicted(s.runaway)
	s.assertReportedOnce("GPUMemoryEviction")
	_, reported := s.first("breach_pending")
	eviction, acted := s.first("evicted")
	assert.Equal(t, string(s.runaway.UID), eviction.PodUID)
	assert.Equal(t, 3, eviction.Breaches)
	assert.False(t, reported.Before(crossing.Add(-time.Millisecond)), "the report is from before the floor was crossed")
	t.Logf("evaluating every second, the crossed floor was reported after %s, and the pod evicted after %s",
		reported.Sub(crossing).Round(time.Millisecond), acted.Sub(crossing).Round(time.Millisecond))

	s.release()
	at := int64(0)
	require.NoError(t, s.plane.Admin().CoreV1().Pods(s.tenants).Delete(t.Context(), s.runaway.Name, metav1.DeleteOptions{GracePeriodSeconds: &at}))
	s.more("above_floor", 2)
	s.assertEvicted(s.runaway)
	assert.Zero(t, s.evaluated("telemetry_impossible"), "a terminating pod does not contradict the telemetry")
}

func TestAPodIsEvictedWhenItsDisruptionBudgetAllowsIt(t *testing.T) {
	s := begin(t, false)
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.tenants, Name: "runaway"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: s.runaway.Labels}},
	}
	s.plane.Create(t, budget)
	// The allow function sets the budget's status as the disruption controller would.
	allow := func(disruptions int32) {
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, DisruptionsAllowed: disruptions, CurrentHealthy: 1 + disruptions, DesiredHealthy: 1, ExpectedPods: 1,
		}
		var err error
		budget, err = s.plane.Admin().PolicyV1().PodDisruptionBudgets(s.tenants).UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
		require.NoError(t, err)
	}

	allow(0)
	s.grow()
	s.more("refused", 3)
	s.assertEvicted()
	s.assertReportedOnce("GPUMemoryEvictionRefused")

	allow(1)
	s.more("evicted", 1)
	s.assertEvicted(s.runaway)
}

// After a crash, the watchdog must still know its earlier actions. The test deletes the shared
// record of actions, so that the local storage is the only source.
func TestWhatItDidSurvivesAKill(t *testing.T) {
	s := begin(t, false)
	s.grow()
	s.more("evicted", 1)
	require.NoError(t, s.plane.Admin().CoordinationV1().Leases(s.monitoring).Delete(t.Context(), "otelcol-gpu-watchdog-evictions", metav1.DeleteOptions{}))
	s.crash()
	s.until("the breach is counted again", func() bool { return s.evaluated("device_cooldown") >= 2 })
	assert.Zero(t, s.evaluated("evicted"))
	s.assertEvicted(s.runaway)
	s.assertReportedOnce("GPUMemoryEviction")
}

func TestADryRunReportsTheActionAndDoesNothing(t *testing.T) {
	s := begin(t, true)
	s.grow()
	s.more("device_cooldown", 4)
	assert.InDelta(t, 1, s.evaluated("would_evict"), 0)
	s.assertEvicted()
	s.assertReportedOnce("GPUMemoryEvictionDryRun")
}

func TestWithoutPermissionNothingIsDoneAndTheHeartbeatStops(t *testing.T) {
	s := begin(t, false)
	s.unbind()
	s.grow()
	s.more("no_permission", 1) // the first forbidden request triggers a check of all permissions
	last := s.heartbeat()
	s.more("no_permission", 5)
	assert.InDelta(t, last, s.heartbeat(), 0, "the heartbeat")
	s.assertEvicted()

	// After the permission is restored, the watchdog acts on the same device. The action shows that
	// the missing permission was the only obstacle.
	s.bind()
	s.more("evicted", 1)
	s.assertEvicted(s.runaway)
	assert.Greater(t, s.heartbeat(), last)
}

func TestOnFrozenTelemetryNothingIsDoneAndTheHeartbeatStops(t *testing.T) {
	for name, tc := range map[string]struct {
		freeze func(*arena)
		reason string
	}{
		"the exporter does not answer": {(*arena).faintBelowFloor, "telemetry_stale"},
		"the exporter repeats itself":  {(*arena).stickBelowFloor, "telemetry_frozen"},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, false)
			tc.freeze(s.arena)
			s.grow()
			s.more(tc.reason, 1)
			breach, _ := s.first("breach_pending")
			assert.Equal(t, 1, breach.Breaches, "the one sample below the floor was seen")
			last := s.heartbeat()
			s.more(tc.reason, 5)
			assert.InDelta(t, last, s.heartbeat(), 0, "the heartbeat")
			s.assertEvicted()

			s.recover()
			s.more("evicted", 1)
			s.assertEvicted(s.runaway)
			eviction, _ := s.first("evicted")
			assert.Equal(t, 3, eviction.Breaches, "counting restarts")
			assert.Greater(t, s.heartbeat(), last)
		})
	}
}
