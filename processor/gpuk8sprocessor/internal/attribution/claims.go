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
// kubelet lists are skipped. The dynamic parameter is true if the kubelet lists a DRA device that
// might be an NVIDIA GPU.
func (b *builder) addClaims(dynamic bool) {
	if b.sources.ClaimsState == kube.Off {
		return
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
			b.addUnmatchedClaim(c, reason, dynamic)
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

// addUnmatchedClaim records that a claim's device cannot be identified. Pods on other nodes, and
// pods that have ended, do not hold the device. If the kubelet lists DRA devices but does not list
// a claim, no pod uses the claim yet, so other devices can count as free.
func (b *builder) addUnmatchedClaim(c *ClaimedDevice, reason Reason, dynamic bool) {
	device := draDevice(&c.Allocation)
	for _, p := range c.ReservedFor {
		pod := b.pods.find(p.Namespace, p.Pod, p.UID)
		switch {
		case pod == nil:
		case !dynamic:
			b.addDisputed(pod, reason, b.join.slices[device].Kind, rawDRA(device))
		case pod.heldUntil() == forever:
			b.unmatched[rawDRA(device)] = reason
		}
	}
}

func rawDRA(d DRADevice) string { return d.Driver + "/" + d.Pool + "/" + d.Device }
