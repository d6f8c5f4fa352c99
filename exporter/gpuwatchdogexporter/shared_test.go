package gpuwatchdogexporter

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
)

func shared(cfg *Config) { cfg.SharedRecord.Enabled = true }

// The fleet function returns an API server and one watchdog for each of the given number of nodes.
// Each node has one pod that is over its budget. The owner function returns the name of the
// Deployment that owns the pod on a node.
func fleet(t *testing.T, nodes int, owner func(node int) string, change ...func(*Config)) (*api, []*guard) {
	t.Helper()
	var pods []*corev1.Pod
	for i := range nodes {
		p := runningPod(fmt.Sprintf("svc-%d", i), time.Now().Add(-time.Hour))
		p.Spec.NodeName, p.OwnerReferences[0].Name = fmt.Sprintf("gpu-%d", i), owner(i)+"-5d4f"
		pods = append(pods, p)
	}
	a := newAPI(pods...)
	var guards []*guard
	for range nodes {
		guards = append(guards, startGuard(t, a, componenttest.NewNopHost(), append([]func(*Config){enforce, shared}, change...)...))
	}
	return a, guards
}

// liveAll advances the fake clock and sends telemetry to all watchdogs. Each watchdog receives the
// telemetry of the pod on its own node. All watchdogs evaluate their devices at the same time.
func liveAll(d time.Duration, c card, guards []*guard) {
	for range int(d / (30 * time.Second)) {
		for i, g := range guards {
			pod := fmt.Sprintf("svc-%d", i)
			own := card{free: c.free, node: fmt.Sprintf("gpu-%d", i), used: map[string]int64{pod: 9000}, budget: map[string]int64{pod: 3000}}
			if err := g.consume(g.t.Context(), own.metrics(g.clock())); err != nil {
				panic(err)
			}
		}
		sleep(30 * time.Second)
	}
}

func stopAll(guards []*guard) {
	for _, g := range guards {
		g.stop()
	}
}

func sum(guards []*guard, reason string) (n int64) {
	for _, g := range guards {
		n += g.counted()[reason]
	}
	return n
}

// After a rollout, every replica exceeds its budget within the same minute.
func TestARolloutOn100NodesLosesOneReplicaPerCooldownAndAtMostTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, guards := fleet(t, 100, func(int) string { return "svc" })
		defer stopAll(guards)
		liveAll(3*time.Minute, pressed, guards)
		sleep(cluster.CallTimeout) // Wait for the retries after write conflicts.
		assert.Len(t, a.evictions(), 1)
		assert.EqualValues(t, 1, sum(guards, "evicted"))
		assert.EqualValues(t, 99, sum(guards, "owner_cooldown"))
		liveAll(29*time.Minute, pressed, guards)
		assert.Len(t, a.evictions(), 1, "the owner has a cool-down on all nodes")
		liveAll(35*time.Minute, pressed, guards)
		assert.Len(t, a.evictions(), 2, "two evictions did not end the shortage")
		assert.Positive(t, sum(guards, "ineffective"))
		assert.Zero(t, sum(guards, "state_unsaved"))
		stopped := guards[0].logs.FilterMessageSnippet("Evictions did not end the shortage.").Len()
		assert.Equal(t, 1, stopped, "logged once")
		events := a.events(t, "svc-0")
		assert.Contains(t, events[len(events)-1], "GPUMemoryEvictionStopped: ")
	})
}

func TestHourlyCapIsPerCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, guards := fleet(t, 100, func(node int) string { return fmt.Sprint("svc-", node) })
		defer stopAll(guards)
		liveAll(30*time.Minute, pressed, guards)
		assert.Len(t, a.evictions(), 2)
		assert.Positive(t, sum(guards, "hourly_cap"))
		assert.Zero(t, sum(guards, "state_unsaved"))
	})
}

// A PodDisruptionBudget prevents an eviction that one of the watchdogs requests. The rejected
// eviction must not delay the other watchdogs.
func TestARejectedEvictionIsRemovedFromTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, guards := fleet(t, 3, func(int) string { return "svc" })
		defer stopAll(guards)
		a.refusal = apierrors.NewTooManyRequests("disruption budget", 0)
		liveAll(4*time.Minute, pressed, guards)
		refused := sum(guards, "refused")
		assert.Positive(t, refused)
		a.set(func() { a.refusal = nil })
		liveAll(2*time.Minute, pressed, guards)
		assert.EqualValues(t, 1, sum(guards, "evicted"))
	})
}

func TestNoEvictionWithoutARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, guards := fleet(t, 1, func(int) string { return "svc" })
		defer stopAll(guards)
		a.set(func() { a.failing["create leases"] = errors.New("no quorum") })
		liveAll(4*time.Minute, pressed, guards)
		assert.Empty(t, a.evictions())
		assert.Positive(t, sum(guards, "state_unsaved"))
		assert.Contains(t, guards[0].host.Last(), "lease monitoring/otelcol-gpu-watchdog-evictions: no quorum")
		a.set(func() { clear(a.failing) })
		liveAll(2*time.Minute, pressed, guards)
		assert.Len(t, a.evictions(), 1)
	})
}

// A new process that has no storage extension, or that runs on another node, reads the earlier
// actions from the record.
func TestRecordIsReadAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, guards := fleet(t, 1, func(int) string { return "svc" })
		liveAll(3*time.Minute, pressed, guards)
		stopAll(guards)
		require.Len(t, a.evictions(), 1)
		again := []*guard{startGuard(t, a, componenttest.NewNopHost(), enforce, shared)}
		defer stopAll(again)
		liveAll(9*time.Minute, pressed, again)
		assert.Len(t, a.evictions(), 1)
		assert.Positive(t, again[0].counted()["device_cooldown"])
	})
}

func TestIdleFleetSendsNoRequestsToTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, guards := fleet(t, 3, func(int) string { return "svc" }, func(cfg *Config) {
			for i := range 19 {
				cfg.Namespaces = append(cfg.Namespaces, fmt.Sprint("team-", i))
			}
		})
		defer stopAll(guards)
		a.set(func() { a.roles = true })
		liveAll(2*time.Minute, relaxed, guards)
		first := len(a.Actions())
		assert.LessOrEqual(t, first, 3*(2+2*20+1), "once per term")
		liveAll(time.Hour, relaxed, guards)
		assert.Len(t, a.Actions(), first)
	})
}

// A tenant's namespace was deleted together with its Role.
func TestNamespaceWithoutPermissionDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := runningPod("x", time.Now().Add(-time.Hour))
		other.Namespace = "web"
		a := newAPI(other, runningPod("a", time.Now().Add(-time.Hour)), runningPod("b", time.Now().Add(-time.Hour)))
		a.roles = true
		g := startGuard(t, a, componenttest.NewNopHost(), enforce, func(cfg *Config) { cfg.Namespaces = []string{"ai", "web"} })
		defer g.stop()
		sendEachInterval(2*time.Minute, relaxed, g)
		forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "x", errors.New("no role"))
		a.set(func() { a.denied["get pods in web"], a.failing["get pods"] = true, forbidden })
		inWeb := pressed
		inWeb.namespace, inWeb.used, inWeb.budget = "web", map[string]int64{"x": 9000}, map[string]int64{"x": 3000}
		before := g.heartbeat()
		sendEachInterval(3*time.Minute, inWeb, g)
		assert.Positive(t, g.counted()["no_permission"])
		assert.Contains(t, g.host.Last(), "permission is missing: get pods in namespace web")
		assert.Equal(t, before.Add(2*time.Minute), g.heartbeat(), "the pod over its budget cannot be evicted")
		assert.Equal(t, 1, g.logs.FilterMessageSnippet("Pods in some namespaces cannot be evicted").Len())

		a.set(func() { clear(a.failing) })
		sendEachInterval(4*time.Minute, pressed, g)
		assert.Equal(t, []string{"a"}, a.evictions())
		assert.Equal(t, time.Now(), g.heartbeat())
	})
}

// The watchdog counts the processes in the process list from the nvml receiver.
func TestThreeCUDAContextsAreNotOvershoot(t *testing.T) {
	for processes, want := range map[int]string{1: "evicted", 3: "below_min_overshoot"} {
		t.Run(fmt.Sprint(processes, " processes"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := startGuard(t, ownPods(), componenttest.NewNopHost(), enforce)
				defer g.stop()
				sendEachInterval(3*time.Minute, card{free: 900, processes: processes, used: map[string]int64{"a": 11350}, budget: map[string]int64{"a": 10000}}, g)
				assert.EqualValues(t, 1, g.counted()[want])
			})
		})
	}
}

// The user raised the budget in the annotation, but gpu_k8s still reports the old value.
func TestBudgetIsReadFromThePodBeforeAnEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "example.com/gpu-memory"
		long := time.Now().Add(-time.Hour)
		pod := runningPod("a", long)
		pod.Annotations = map[string]string{"scheduling.koordinator.sh/x": "", key: "10Gi"}
		a := newAPI(pod)
		g := startGuard(t, a, componenttest.NewNopHost(), enforce, func(cfg *Config) { cfg.Budgets.Annotation = key })
		defer g.stop()
		annotated := card{free: 900, source: "annotation", used: map[string]int64{"a": 9000}, budget: map[string]int64{"a": 3000}}
		sendEachInterval(4*time.Minute, annotated, g)
		assert.Empty(t, a.evictions())
		assert.EqualValues(t, 2, g.counted()["budget_changed"])
		pod.Annotations[key] = "3000Mi"
		_, err := a.CoreV1().Pods("ai").Update(t.Context(), pod, metav1.UpdateOptions{})
		require.NoError(t, err)
		sendEachInterval(time.Minute, annotated, g)
		assert.Len(t, a.evictions(), 1)
	})
}
