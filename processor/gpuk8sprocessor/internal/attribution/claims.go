package attribution

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// isGPU reports whether an allocated device might be an NVIDIA GPU. A device might be an NVIDIA GPU
// if its driver is one of the configured drivers, or if the driver's name indicates a GPU. If the
// driver's name is inconclusive, the UUID in the device's slice must be the UUID of a GPU.
func (b *builder) isGPU(a *gpudata.Allocation) bool {
	uuid := b.join.slices[draDevice(a)].UUID
	return slices.Contains(b.drivers, a.Driver) || gpushare.NamesGPU(a.Driver) ||
		gpushare.LikelyOf(a.Driver) == gpushare.LikelyGPU && (exporters.IsBoard(uuid) || exporters.IsInstance(uuid))
}

// addClaims adds the holders of devices that are allocated to ResourceClaims. Devices that the
// kubelet lists are skipped. The unmatched result contains the kinds of devices that unmatched
// allocations might refer to.
func (b *builder) addClaims() (unmatched deviceKinds) {
	if b.sources.ClaimsState == kube.Off {
		return deviceKinds{}
	}
	claimed := map[string]bool{} // claimed contains the devices to which addClaims has added claims.
	for i := range b.sources.Claims {
		c := &b.sources.Claims[i]
		if c.Admin || !b.isGPU(&c.Allocation) || len(c.ReservedFor) == 0 && !c.ForOthers {
			continue
		}
		device := draDevice(&c.Allocation)
		id, reason := b.join.draDeviceID(device)
		if reason != Joined {
			if b.isUsedOnNode(c) {
				b.unmatched[rawDRA(device)] = reason
				unmatched.add(reason, b.join.slices[device].Kind)
			}
			continue
		}
		e := b.entry(id)
		if (e.Source != "" || b.listed[id]) && !claimed[id] {
			continue
		}
		claimed[id] = true
		if c.ForOthers {
			e.Source, e.partial = signal.HolderSourceDRA, true
		}
		for _, p := range c.ReservedFor {
			b.addReservedPod(c, id, p)
		}
	}
	return unmatched
}

// addReservedPod adds a pod in the claim's reservedFor list as a holder of the claim's device.
func (b *builder) addReservedPod(c *ClaimedDevice, id string, p gpudata.Holder) {
	h := Holding{Holder: p, until: forever, raw: rawDRA(draDevice(&c.Allocation)), Allocation: c.Allocation}
	hasContainer := false
	pod := b.pods.find(p.Namespace, p.Pod, p.UID)
	if pod == nil && b.sources.PodsState == kube.Synced {
		return // The pod does not run on this node, or has been deleted. A claim can stay reserved for a deleted pod.
	}
	if pod != nil {
		h.from, h.until = pod.from, pod.heldUntil()
		for k := range pod.Claims {
			u := &pod.Claims[k]
			if u.Claim == c.Claim && u.Uses(c.Request) {
				hasContainer = true
				h.Container = u.Container
				b.addHolder(id, signal.HolderSourceDRA, h)
			}
		}
	}
	if !hasContainer {
		b.addHolder(id, signal.HolderSourceDRA, h)
	}
}

// isUsedOnNode reports whether a pod on this node uses the claim. If only pods on other nodes use a
// claim, the claim is irrelevant.
func (b *builder) isUsedOnNode(c *ClaimedDevice) bool {
	return slices.ContainsFunc(c.ReservedFor, func(p gpudata.Holder) bool { return b.pods.find(p.Namespace, p.Pod, p.UID) != nil })
}

func rawDRA(d DRADevice) string { return d.Driver + "/" + d.Pool + "/" + d.Device }
