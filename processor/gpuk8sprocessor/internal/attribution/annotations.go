package attribution

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// addAssignments adds the devices that schedulers assign to pods in annotations, and the devices
// that reservation pods report.
func (b *builder) addAssignments() {
	for k, lives := range b.pods {
		for i := range lives {
			a := &lives[i]
			h := Holding{Holder: gpudata.Holder{Namespace: k.namespace, Pod: k.name, UID: a.UID}, from: a.from, until: a.heldUntil()}
			if b.pods.reserves(h.Holder) {
				b.addReservation(a, h)
				continue
			}
			for j := range a.Assigned {
				d := &a.Assigned[j]
				id, reason := b.join.pluginDeviceID(&d.PluginID)
				if reason != Joined {
					b.addDisputedAnnotation(a, reason, d.Raw)
					continue
				}
				holding := h.with(&d.PluginID)
				holding.Container = d.Container
				b.addAssigned(id, holding)
			}
			if a.Unread {
				b.addDisputedAnnotation(a, UnknownID, "annotation of "+k.namespace+"/"+k.name)
			}
		}
	}
}

// addReservation adds holders to the device that a reservation pod reports. The holders are the
// pods in the reservation pod's group. A reservation is used only if neither the kubelet nor a
// claim names a holder of the device.
func (b *builder) addReservation(a *podLife, h Holding) {
	if !a.Reserved.IsKnown() {
		if b.sources.Listing.State == kube.Off {
			b.addDisputedAnnotation(a, UnknownID, "reservation of "+h.Namespace+"/"+h.Pod)
		}
		return
	}
	id, reason := b.join.pluginDeviceID(&a.Reserved)
	if reason != Joined {
		b.addDisputedAnnotation(a, reason, a.Reserved.Raw)
		return
	}
	members := b.groupMembers(h)
	for _, m := range members {
		b.addAssigned(id, m)
	}
	if len(members) == 0 && h.until == forever {
		b.entry(id).partial = true
	}
}

// groupMembers returns the pods in a reservation pod's group. The kubelet allocates a device to the
// reservation pod, and the pods in the group share that device. If the pods in the group are
// unknown, groupMembers returns nil.
func (b *builder) groupMembers(h Holding) (members []Holding) {
	reservation := b.pods.find(h.Namespace, h.Pod, h.UID)
	if reservation == nil || len(reservation.Groups) == 0 {
		return nil
	}
	for k, lives := range b.pods {
		for i := range lives {
			a := &lives[i]
			member := gpudata.Holder{Namespace: k.namespace, Pod: k.name, UID: a.UID, Container: a.GroupContainer}
			inGroup := func(g string) bool { return slices.Contains(reservation.Groups, g) }
			if b.pods.reserves(member) || !slices.ContainsFunc(a.Groups, inGroup) {
				continue
			}
			members = append(members, Holding{
				Holder: member, Replica: true, Replicas: 1, raw: h.raw, from: a.from, until: a.heldUntil(),
			})
		}
	}
	return members
}

func (b *builder) addAssigned(id string, h Holding) {
	e := b.entry(id)
	e.Assigned = append(e.Assigned, h)
	if _, scraped := b.devices[id]; !scraped && len(b.devices) > 0 && h.until == forever {
		b.unmatched[id] = NotScraped
	}
}

// addDisputedAnnotation records that the device in a pod's annotation cannot be identified.
func (b *builder) addDisputedAnnotation(a *podLife, reason Reason, raw string) {
	if reason == UnknownID {
		reason = UnreadableAnnotation
	}
	b.addDisputed(a, reason, "", raw)
}

// addDisputed records that a device was assigned to a pod but cannot be identified. As long as the
// pod holds the unidentified device, a device does not count as free if it could be the
// unidentified device. The kind is the device's kind in its slice, or "" if the kind is unknown.
func (b *builder) addDisputed(a *podLife, reason Reason, kind, raw string) {
	if a.heldUntil() == forever {
		b.unmatched[raw] = reason
	}
	var kinds deviceKinds
	kinds.add(reason, kind)
	if kinds.boards {
		b.disputed.boards = max(b.disputed.boards, a.heldUntil())
	}
	if kinds.instances {
		b.disputed.instances = max(b.disputed.instances, a.heldUntil())
	}
}
