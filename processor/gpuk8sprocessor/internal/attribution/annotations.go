package attribution

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// assignments adds the devices that schedulers assign to pods through annotations, and those that
// reservation pods report.
func (b *builder) assignments() {
	for k, lives := range b.pods {
		for i := range lives {
			a := &lives[i]
			h := Holding{Holder: gpudata.Holder{Namespace: k.namespace, Pod: k.name, UID: a.UID}, from: a.from, until: a.holding()}
			if b.pods.reserves(h.Holder) {
				b.reservation(a, h)
				continue
			}
			for j := range a.Assigned {
				d := &a.Assigned[j]
				id, reason := b.join.ref(&d.PluginID)
				if reason != Joined {
					b.dispute(a, reason, d.Raw)
					continue
				}
				held := h.with(&d.PluginID)
				held.Container = d.Container
				b.assign(id, held)
			}
			if a.Unread {
				b.dispute(a, UnknownID, "annotation of "+k.namespace+"/"+k.name)
			}
		}
	}
}

// reservation adds the pods of a reservation pod's group as holders of the device that it reports.
// The kubelet has precedence, so this is used only if the kubelet names no holder.
func (b *builder) reservation(a *life, h Holding) {
	if !a.Reserved.Understood() {
		if b.sources.Listing.State == kube.Off {
			b.dispute(a, UnknownID, "reservation of "+h.Namespace+"/"+h.Pod)
		}
		return
	}
	id, reason := b.join.ref(&a.Reserved)
	if reason != Joined {
		b.dispute(a, reason, a.Reserved.Raw)
		return
	}
	members := b.group(h)
	for _, m := range members {
		b.assign(id, m)
	}
	if len(members) == 0 && h.until == forever {
		b.entry(id).partial = true
	}
}

// group returns the pods of a reservation pod's group, which share the device that it takes from
// the kubelet; none if they are not known.
func (b *builder) group(h Holding) (members []Holding) {
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
				Holder: member, Replica: true, Replicas: 1, raw: h.raw, from: a.from, until: a.holding(),
			})
		}
	}
	return members
}

func (b *builder) assign(id string, h Holding) {
	e := b.entry(id)
	e.Assigned = append(e.Assigned, h)
	if _, shown := b.devices[id]; !shown && len(b.devices) > 0 && h.until == forever {
		b.lost[id] = NotScraped
	}
}

// dispute prevents "nobody" for as long as a pod exists whose device cannot be matched.
func (b *builder) dispute(a *life, reason Reason, raw string) {
	if a.holding() == forever {
		b.lost[raw] = reason
	}
	var of doubt
	of.add(reason, "")
	if of.boards {
		b.disputed.boards = max(b.disputed.boards, a.holding())
	}
	if of.instances {
		b.disputed.instances = max(b.disputed.instances, a.holding())
	}
}
