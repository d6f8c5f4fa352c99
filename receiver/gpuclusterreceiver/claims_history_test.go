package gpuclusterreceiver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/dratest"
)

// After every change, the receiver must report the same numbers of claims and devices as an
// independent count of the same objects. The tests of gpu_k8s use the same random histories.
func TestClaimsAndDevicesAreCountedAfterEveryChange(test *testing.T) {
	rounds := 20 // each round runs 100 random histories, or 20 with -short
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		rapid.Check(test, func(t *rapid.T) {
			now := time.Unix(1e9, 0)
			w := dratest.New(t, now)
			f := newFollower(t)
			for range rapid.IntRange(1, 8).Draw(t, "changes") {
				now = now.Add(15 * time.Second)
				w.Change(t, now)
				f.follow(t, w)
				checkCounts(t, f.cluster, w, now)
			}
		})
	}
}

// follower applies the changes from a history to a cluster.
type follower struct {
	cluster  *demand.Cluster
	families gpushare.Families
	// The following fields contain the objects that currently exist.
	pods   map[name]*corev1.Pod
	claims map[name]*resourcev1.ResourceClaim
	slices map[name]*resourcev1.ResourceSlice
	rules  map[name]*resourcev1.DeviceTaintRule
}

type name struct{ namespace, name string }

func newFollower(t *rapid.T) *follower {
	cfg := createDefaultConfig().(*Config)
	cfg.Metrics = componenthelper.Metrics{
		signal.K8sResourceSlicePoolDevices.Name: {Enabled: new(true)}, signal.K8sResourceClaimDeviceCondition.Name: {Enabled: new(true)},
	}
	families, err := cfg.families()
	require.NoError(t, err)
	return &follower{cluster: demand.New(cfg.demandOptions(families)), families: families}
}

func (f *follower) follow(t *rapid.T, w *dratest.World) {
	c := f.cluster
	f.pods = replace(f.pods, w.Pods(""), func(p *corev1.Pod) { c.SetPod(convertPod(p, f.families)) }, func(n name) { c.DeletePod(n.namespace, n.name) })
	f.claims = replace(f.claims, w.ResourceClaims(), c.SetClaim, func(n name) { c.DeleteClaim(n.namespace, n.name) })
	f.rules = replace(f.rules, w.TaintRules(), c.SetTaintRule, func(n name) { c.DeleteTaintRule(n.name) })
	f.slices = replace(f.slices, w.ResourceSlices(""), func(s *resourcev1.ResourceSlice) {
		slice, dropped := convertSlice(s)
		assert.Empty(t, dropped)
		c.SetSlice(slice)
	}, func(n name) { c.DeleteSlice(n.name) })
}

// The replace function compares the given objects with the objects that existed before the change.
// For each new or changed object, the function calls set. For each object that no longer exists,
// the function calls remove. The returned map contains the given objects, keyed by name.
func replace[T metav1.Object](before map[name]T, objects []T, set func(T), remove func(name)) map[name]T {
	after := map[name]T{}
	for _, o := range objects {
		n := name{o.GetNamespace(), o.GetName()}
		after[n] = o
		if old, ok := before[n]; !ok || !equality.Semantic.DeepEqual(old, o) {
			set(o)
		}
	}
	for n := range before {
		if _, ok := after[n]; !ok {
			remove(n)
		}
	}
	return after
}

func checkCounts(t *rapid.T, c *demand.Cluster, w *dratest.World, now time.Time) {
	points, stats := c.Points(now, demand.Observed{Pods: true, Claims: true, Slices: true, TaintRules: true}, nil)

	claims, devices, memory := map[dratest.ClaimKey]dratest.Count{}, map[dratest.DeviceKey]int64{}, map[dratest.DeviceKey]float64{}
	status := map[dratest.PoolKey]int64{}
	var reserved []dratest.Reserved
	var conditions []dratest.Condition
	var taints []dratest.Taint
	tainted := map[string]int64{} // the number of devices, keyed by the strongest taint effect
	var listed int64
	for i := range points {
		p := &points[i]
		attr := func(key string) string {
			for _, a := range p.Attributes {
				if a.Key == key {
					return a.Value
				}
			}
			return ""
		}
		claimKey := dratest.ClaimKey{Class: attr(signal.DeviceClassName), State: attr(signal.State)}
		deviceKey := dratest.DeviceKey{Driver: attr(signal.DRADriver), Pool: attr(signal.DRAPool), Type: attr(signal.DRADeviceType)}
		switch p.Metric {
		case signal.K8sResourceClaimCount:
			if p.Int > 0 {
				claims[claimKey] = dratest.Count{Claims: p.Int, Devices: claims[claimKey].Devices}
			}
		case signal.K8sResourceClaimRequested:
			if p.Int > 0 {
				claims[claimKey] = dratest.Count{Claims: claims[claimKey].Claims, Devices: p.Int}
			}
		case signal.K8sResourceSliceDevices:
			devices[deviceKey] = p.Int
		case signal.K8sResourceSlicePoolDevices:
			status[dratest.PoolKey{Driver: deviceKey.Driver, Pool: deviceKey.Pool, State: claimKey.State}] = p.Int
		case signal.K8sResourceSliceDevice:
			listed++
			tainted[attr(demand.DeviceTaint)]++
		case signal.K8sResourceSliceCapacity:
			memory[deviceKey] = p.Double
		case signal.K8sResourceSliceDeviceTaint:
			taints = append(taints, dratest.Taint{
				Driver: deviceKey.Driver, Pool: deviceKey.Pool, Device: attr(signal.DRADevice),
				Key: attr(signal.DRATaintKey), Value: attr(signal.DRATaintValue), Effect: attr(signal.DRATaintEffect),
			})
		case signal.K8sResourceClaimDeviceCondition:
			conditions = append(conditions, dratest.Condition{
				Claim: attr(signal.ResourceClaimUID), Driver: attr(signal.DRADriver), Pool: attr(signal.DRAPool), Device: attr(signal.DRADevice),
				Share: attr(signal.DRAShareID), Type: attr(signal.DRAConditionType), Status: attr(signal.DRAConditionStatus), Role: attr(signal.DRAConditionRole),
			})
		case signal.K8sResourceClaimDevice:
			reserved = append(reserved, dratest.Reserved{
				Claim: attr(signal.ResourceClaimUID), Driver: attr(signal.DRADriver), Pool: attr(signal.DRAPool), Device: attr(signal.DRADevice),
				Share: attr(signal.DRAShareID), Pod: p.Place.Pod, UID: p.Place.PodUID,
			})
		}
	}
	wantDevices, wantMemory := w.DeviceCounts()
	var wantListed int64
	for _, n := range wantDevices {
		wantListed += n
	}
	ok := assert.Equal(t, w.ClaimCounts(), claims)
	ok = assert.Equal(t, wantDevices, devices) && ok
	ok = assert.Equal(t, wantListed, listed) && ok
	ok = assert.Equal(t, w.PoolStatus(), status) && ok
	ok = assert.Equal(t, wantMemory, memory) && ok
	wantTaints, wantTainted := w.Taints()
	ok = assert.ElementsMatch(t, wantTaints, taints) && ok
	ok = assert.Equal(t, wantTainted, tainted) && ok
	ok = assert.ElementsMatch(t, w.Conditions(), conditions) && ok
	ok = assert.ElementsMatch(t, w.ReservedDevices(), reserved) && ok
	ok = assert.Equal(t, w.IncompletePools(), stats.IncompletePools) && ok
	ok = assert.Equal(t, w.UnknownDevices(), stats.UnknownDevices) && ok
	require.True(t, ok, "%s", w)
}
