package demand

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Only a few names are used, so that the generated objects are likely to refer to each other.
var (
	genName     = rapid.SampledFrom([]string{"a", "b", "c"})
	genResource = rapid.SampledFrom([]string{gpu, shared, "nvidia.com/mig-1g.10gb", "amd.com/gpu", "example.com/fpga", "example.com/gpu"})
	genClass    = rapid.SampledFrom([]string{"gpu.nvidia.com", "by-resource", "nic"})
	genDriver   = rapid.SampledFrom([]string{"gpu.nvidia.com", "gpu.nvidia.com", "nic.example.com"})
)

func genPod(t *rapid.T) *Pod {
	p := &Pod{
		Namespace:   "ns",
		Name:        genName.Draw(t, "pod"),
		UID:         rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "uid"),
		Node:        rapid.SampledFrom([]string{"", "a"}).Draw(t, "node"),
		Phase:       rapid.SampledFrom([]corev1.PodPhase{corev1.PodPending, corev1.PodPending, corev1.PodRunning, corev1.PodUnknown, corev1.PodSucceeded}).Draw(t, "phase"),
		Created:     rapid.Int64Range(0, 100).Draw(t, "created"),
		Terminating: rapid.Bool().Draw(t, "terminating"),
		Gated:       rapid.Bool().Draw(t, "gated"),
	}
	for _, r := range rapid.SliceOfNDistinct(genResource, 0, 3, rapid.ID[string]).Draw(t, "resources") {
		n := rapid.Int64Range(0, 8).Draw(t, "units")
		p.Requests = append(p.Requests, Request{r, n, float64(n)})
	}
	if rapid.Bool().Draw(t, "template") {
		p.TemplateClaims = []TemplateClaim{{Name: "gpus", Template: genName.Draw(t, "which"), Made: rapid.Bool().Draw(t, "made")}}
	}
	return p
}

func genClaimSpec(t *rapid.T) (spec resourcev1.ResourceClaimSpec) {
	for i := range rapid.IntRange(0, 2).Draw(t, "requests") {
		r := resourcev1.DeviceRequest{Name: fmt.Sprint(i)}
		if alternatives := rapid.IntRange(0, 3).Draw(t, "alternatives"); alternatives == 0 {
			r.Exactly = &resourcev1.ExactDeviceRequest{
				DeviceClassName: genClass.Draw(t, "class"), Count: rapid.Int64Range(1, 4).Draw(t, "count"), AdminAccess: new(rapid.Bool().Draw(t, "admin")),
			}
		} else {
			for range alternatives {
				r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
					DeviceClassName: genClass.Draw(t, "class"), Count: rapid.Int64Range(1, 4).Draw(t, "count"),
				})
			}
		}
		spec.Devices.Requests = append(spec.Devices.Requests, r)
	}
	return spec
}

func genClaim(t *rapid.T) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: genName.Draw(t, "claim"), Annotations: map[string]string{}},
		Spec:       genClaimSpec(t),
	}
	c.UID = types.UID("uid-" + c.Name)
	if rapid.Bool().Draw(t, "extended") {
		c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] = "true"
	}
	if rapid.Bool().Draw(t, "terminating") {
		c.DeletionTimestamp = &metav1.Time{}
	}
	if rapid.Bool().Draw(t, "owned") {
		owner := rapid.SampledFrom([]types.UID{"u1", "u2"}).Draw(t, "owner")
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", UID: owner, Controller: new(true)}}
		c.Annotations[resourcev1.PodResourceClaimAnnotation] = "gpus"
	}
	if rapid.Bool().Draw(t, "allocated") {
		c.Status.Allocation = &resourcev1.AllocationResult{}
		devices := &c.Status.Allocation.Devices
		for range rapid.IntRange(1, 3).Draw(t, "results") {
			devices.Results = append(devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: "0", Driver: genDriver.Draw(t, "driver"), Pool: genName.Draw(t, "pool"), Device: genName.Draw(t, "device"),
				AdminAccess: new(rapid.Bool().Draw(t, "admin")),
			})
		}
		for _, n := range rapid.SliceOfNDistinct(genName, 0, 2, rapid.ID[string]).Draw(t, "reserved") {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: n, UID: types.UID("uid-" + n)})
		}
	}
	return c
}

func genSlice(t *rapid.T) *Slice {
	var devices []Device
	for _, n := range rapid.SliceOfNDistinct(genName, 0, 3, rapid.ID[string]).Draw(t, "devices") {
		d := Device{Name: n, Type: rapid.SampledFrom([]string{"gpu", "mig"}).Draw(t, "type"), UUID: "GPU-" + n}
		// Use integers, because the sum of integers does not depend on the order of addition.
		d.Capacity = []Capacity{{"memory", float64(rapid.IntRange(1, 80).Draw(t, "memory"))}}
		d.CounterSets = rapid.SliceOfNDistinct(genName, 0, 2, rapid.ID[string]).Draw(t, "sets")
		devices = append(devices, d)
	}
	s := sliceOf(genName.Draw(t, "slice"), genDriver.Draw(t, "driver"), genName.Draw(t, "pool"),
		rapid.Int64Range(1, 2).Draw(t, "generation"), rapid.Int64Range(1, 2).Draw(t, "count"), devices...)
	s.Spec.NodeName = new("a")
	return s
}

// world is the state of the API server. The value for each object is a function that stores the
// object in a cluster.
type world map[string]func(*Cluster)

// The change method generates a random change, applies it to the cluster, and records it in the
// world.
func (w world) change(t *rapid.T, c *Cluster) {
	deleted := rapid.IntRange(0, 3).Draw(t, "delete") == 0
	var key string
	var set, remove func(*Cluster)
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		o := genPod(t)
		key, set, remove = "pod "+o.Name, func(c *Cluster) { c.SetPod(o) }, func(c *Cluster) { c.DeletePod(o.Namespace, o.Name) }
	case 1:
		o := nodeOf(genName.Draw(t, "node"), rapid.Bool().Draw(t, "ready"), genResource.Draw(t, "resource"), rapid.Int64Range(0, 8).Draw(t, "amount"))
		o.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		key, set, remove = "node "+o.Name, func(c *Cluster) { c.SetNode(o) }, func(c *Cluster) { c.DeleteNode(o.Name) }
	case 2:
		o := genClaim(t)
		key, set, remove = "claim "+o.Name, func(c *Cluster) { c.SetClaim(o) }, func(c *Cluster) { c.DeleteClaim(o.Namespace, o.Name) }
	case 3:
		o := genSlice(t)
		key, set, remove = "slice "+o.Name, func(c *Cluster) { c.SetSlice(o) }, func(c *Cluster) { c.DeleteSlice(o.Name) }
	case 4:
		o := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: genName.Draw(t, "template")}}
		o.Spec.Spec = genClaimSpec(t)
		key, set, remove = "template "+o.Name, func(c *Cluster) { c.SetTemplate(o) }, func(c *Cluster) { c.DeleteTemplate(o.Namespace, o.Name) }
	case 5:
		o := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: genName.Draw(t, "rule")}}
		o.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Device: new(genName.Draw(t, "tainted"))}
		o.Spec.Taint = resourcev1.DeviceTaint{Key: genName.Draw(t, "key"), Effect: resourcev1.DeviceTaintEffectNoSchedule}
		key, set, remove = "rule "+o.Name, func(c *Cluster) { c.SetTaintRule(o) }, func(c *Cluster) { c.DeleteTaintRule(o.Name) }
	default:
		o := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: genClass.Draw(t, "class")}}
		o.Spec.ExtendedResourceName = new(rapid.SampledFrom([]string{"", "amd.com/gpu", "example.com/gpu"}).Draw(t, "resource"))
		key, set, remove = "class "+o.Name, func(c *Cluster) { c.SetClass(o) }, func(c *Cluster) { c.DeleteClass(o.Name) }
	}
	if deleted {
		delete(w, key)
		remove(c)
		return
	}
	w[key] = set
	set(c)
}

func TestIncrementalChangesEqualARebuildInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		changed, w := New(options()), world{}
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			w.change(t, changed)
			if rapid.IntRange(0, 3).Draw(t, "emit") == 0 {
				pointLines(changed, everything) // the results that this call caches must not affect later results
			}
		}
		rebuilt := New(options())
		for _, key := range rapid.Permutation(slices.Sorted(maps.Keys(w))).Draw(t, "order") {
			w[key](rebuilt)
		}
		require.Equal(t, pointLines(rebuilt, everything), pointLines(changed, everything))
	})
}

func TestStatesAddUpToAllPods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(options())
		wantPods, wantUnits := map[string]float64{}, map[string]float64{}
		last := map[string]*Pod{}
		for range rapid.IntRange(0, 10).Draw(t, "pods") {
			p := genPod(t)
			last[p.Name] = p
			c.SetPod(p)
		}
		for _, p := range last {
			if p.Ended() || p.Terminating && p.Node == "" {
				continue
			}
			for _, r := range p.Requests {
				if r.Effective > 0 && options().IsGPU(r.Resource) {
					wantPods[r.Resource]++
					wantUnits[r.Resource] += float64(r.Effective)
				}
			}
		}
		sum := func(m *signal.Metric) map[string]float64 {
			out := map[string]float64{}
			points, _ := c.Points(now, everything, nil)
			for _, p := range points {
				if p.Metric == m && p.Int > 0 {
					out[p.Attributes[0].Value] += float64(p.Int)
				}
			}
			return out
		}
		require.Equal(t, wantPods, sum(signal.K8sGPUPods))
		require.Equal(t, wantUnits, sum(signal.K8sGPURequested))
	})
}
