package attribution

import (
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// addListing adds the holders in the kubelet's response. The unmatched result contains the kinds of
// devices that unmatched IDs might refer to. Unmatched IDs do not count if the pod has ended, or
// only observes the device. The dynamic result is true if the kubelet lists a DRA device that might
// be an NVIDIA GPU.
func (b *builder) addListing() (unmatched deviceKinds, dynamic bool) {
	l := &b.sources.Listing
	if l.State == kube.Off {
		return deviceKinds{}, false
	}
	claims := map[string]claimants{} // by hw.id
	for i := range l.Containers {
		c := &l.Containers[i]
		if c.Pod == "" || c.Namespace == "" {
			continue
		}
		h := Holding{Holder: gpudata.Holder{Namespace: c.Namespace, Pod: c.Pod, Container: c.Container}, until: forever}
		ended, annotated := false, false
		if a := b.pods.at(c.Namespace, c.Pod, l.Time); a != nil {
			h.UID, h.from, h.until = a.UID, a.from, a.heldUntil()
			ended = a.ended <= l.Time // Before Kubernetes 1.34, the kubelet also lists pods that have ended.
			annotated = a.Annotated
		}
		add := func(id string, h Holding, holds bool) {
			if holds && !ended {
				b.addHolder(id, signal.HolderSourcePodResources, h)
			} else {
				b.listed[id] = true
			}
		}
		if !annotated {
			b.addPluginDevices(c, h, add, &unmatched)
		}
		for j := range c.Claimed {
			d := &c.Claimed[j]
			if !b.isGPU(&d.Allocation) {
				continue
			}
			dynamic = true
			device := draDevice(&d.Allocation)
			holding := h
			holding.raw = rawDRA(device)
			var admin, read bool
			holding.Allocation, admin, read = b.allocation(d, &h.Holder)
			id, reason := b.join.draDeviceID(device)
			if reason != Joined {
				if !admin && !ended {
					b.unmatched[holding.raw] = reason
					unmatched.add(reason, b.join.slices[device].Kind)
				}
				continue
			}
			if !admin && !ended {
				claims[id] = claims[id].add(d, read, b.join.slices[device].Shared)
			}
			add(id, holding, !admin)
		}
	}
	for id, claimants := range claims {
		b.entry(id).ambiguous = claimants.several && claimants.unread
	}
	return unmatched, dynamic
}

// claimants describes the claims to which a device is allocated, according to the kubelet. Claims
// that are known or assumed to have administrative access are not included. If a device cannot be
// shared, the scheduler allocates the device to only one claim without administrative access. If
// the kubelet lists several claims for a device that cannot be shared, all claims except one must
// have administrative access. If a claim cannot be read, or was deleted while in use, it is unknown
// whether the claim has administrative access.
type claimants struct {
	first   podKey // The field named first identifies the claim that was added most recently.
	several bool   // several is true if more than one claim uses the device without a share.
	unread  bool   // unread is true if at least one claim cannot be read.
}

func (c claimants) add(d *ClaimedDevice, read, shared bool) claimants {
	c.unread = c.unread || !read
	if shared || d.ShareID != "" {
		return c
	}
	key := podKey{d.Namespace, d.Claim}
	c.several = c.several || c.first != podKey{} && c.first != key
	c.first = key
	return c
}

// addPluginDevices adds the devices that device plugins allocated to a container.
func (b *builder) addPluginDevices(c *ContainerResources, h Holding, add func(string, Holding, bool), unmatched *deviceKinds) {
	for i := range c.Devices {
		d := &c.Devices[i]
		id, reason := b.join.pluginDeviceID(d)
		if reason == Joined {
			add(id, h.with(d), true)
			continue
		}
		if !h.At(b.sources.Listing.Time) {
			continue // The pod has ended.
		}
		b.unmatched[d.Raw] = reason
		unmatched.add(reason, "")
		if reason == UnknownID {
			b.t.stats.UnknownIDs[d.Resource] = d.Raw
		}
	}
	for i := range c.Others {
		if id, reason := b.join.pluginDeviceID(&c.Others[i]); reason == Joined {
			add(id, h.with(&c.Others[i]), true)
		}
	}
}

// The with method returns a copy of h in which the fields that describe a device plugin's device
// are set from d.
func (h Holding) with(d *catalogue.PluginID) Holding {
	h.Replica, h.raw = d.Replica, d.Raw
	if d.Replica {
		h.Replicas = 1
	}
	return h
}

// allocation returns the allocation of a device that the kubelet lists for a container. The
// observes result is true if the container only observes the device. The read result is true if the
// claim could be read. If the claim cannot be read, allocation assumes that monitoring agents only
// observe the device, because monitoring agents have administrative access to all devices.
func (b *builder) allocation(d *ClaimedDevice, container *gpudata.Holder) (a gpudata.Allocation, observes, read bool) {
	a = d.Allocation
	for _, c := range b.claims[podKey{d.Namespace, d.Claim}] {
		// Before Kubernetes 1.35, the kubelet does not report share IDs.
		if draDevice(&c.Allocation) == draDevice(&d.Allocation) && (c.ShareID == d.ShareID || d.ShareID == "") {
			return c.Allocation, c.Admin, true
		}
		a.ClaimUID = c.ClaimUID
	}
	return a, exporters.IsMonitoringAgent(*container), false
}
