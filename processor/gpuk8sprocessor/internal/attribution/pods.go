package attribution

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// podKey is the namespace and the name of a pod. The kubelet and exporters identify a pod by its
// podKey, but a pod that is created later can have the same podKey.
type podKey struct {
	namespace, name string
}

// podLife is a pod together with the time span in which the pod existed.
type podLife struct {
	Pod
	// The pod exists in the interval [from, until). The ended field is the time by which all
	// containers had ended and no container would restart. All three times are in nanoseconds since
	// the epoch.
	from, until, ended int64
}

// heldUntil returns the time at which the pod releases its devices.
func (a *podLife) heldUntil() int64 { return min(a.until, a.ended) }

const forever = math.MaxInt64

// podLog contains, for each podKey, all pods that had that podKey. A pod stays in the podLog as
// long as samples from the pod's lifetime can still arrive. A podLog is immutable.
type podLog map[podKey][]podLife // The oldest pod comes first.

// update returns a new podLog that contains the current pods, and the earlier pods that existed
// until at least the given horizon.
func (l podLog) update(now, horizon int64, pods []Pod) podLog {
	next := make(podLog, len(pods))
	for i := range pods {
		p := &pods[i]
		k := podKey{p.Namespace, p.Name}
		a := podLife{Pod: *p, from: min(p.Created, now), until: forever, ended: forever}
		for _, known := range l[k] {
			if known.UID == p.UID {
				// If the clock was set back, the known start time may be in the future.
				a.from, a.ended = min(a.from, known.from), known.ended
			}
		}
		if p.Ended {
			a.ended = min(a.ended, now)
		}
		next[k] = append(next[k], a)
	}
	for k, lives := range l {
		current := next[k]
		end := now
		if len(current) > 0 {
			end = min(end, current[0].from)
		}
		var past []podLife
		for _, a := range lives {
			if next.find(k.namespace, k.name, a.UID) != nil {
				continue
			}
			a.until = max(a.from, min(a.until, end))
			if a.until >= horizon {
				past = append(past, a)
			}
		}
		if len(past) > 0 {
			next[k] = append(past, current...)
		}
	}
	return next
}

// The at method returns the pod that had the given namespace and name at time t, or nil if there
// was no such pod.
func (l podLog) at(namespace, name string, t int64) *podLife {
	lives := l[podKey{namespace, name}]
	for i := len(lives) - 1; i >= 0; i-- {
		if a := &lives[i]; a.from <= t && t < a.until {
			return a
		}
	}
	return nil
}

// anyEnded reports whether any pod with the given namespace and name had been deleted by time t.
func (l podLog) anyEnded(namespace, name string, t int64) bool {
	return slices.ContainsFunc(l[podKey{namespace, name}], func(a podLife) bool { return a.until <= t })
}

// find returns the pod with the given namespace, name, and UID, or nil if there is no such pod.
func (l podLog) find(namespace, name, uid string) *podLife {
	lives := l[podKey{namespace, name}]
	for i := range lives {
		if lives[i].UID == uid {
			return &lives[i]
		}
	}
	return nil
}

// containerUser is the container of a process.
type containerUser struct {
	gpudata.Holder
	owner gpudata.Owner
	until int64 // The until field is the time at which the pod released its devices.
}

// userIndex finds the container or the pod of a process. A userIndex is immutable.
type userIndex struct {
	byContainer map[string]containerUser // The keys are the container runtime's container IDs.
	byPod       map[string]containerUser // The keys are the pod UIDs that the kubelet uses. The values have no container.
}

// users returns an index of all pods in the log and of the containers in these pods.
func (l podLog) users() userIndex {
	index := userIndex{byContainer: map[string]containerUser{}, byPod: map[string]containerUser{}}
	for k, lives := range l {
		for i := range lives {
			a := &lives[i]
			u := containerUser{gpudata.Holder{Namespace: k.namespace, Pod: k.name, UID: a.UID}, a.Owner, a.heldUntil()}
			index.byPod[a.UID] = u
			if a.StaticUID != "" {
				index.byPod[a.StaticUID] = u
			}
			for _, c := range a.Containers {
				u.Container = c.Name
				index.byContainer[c.ID] = u
			}
		}
	}
	return index
}

// reserves reports whether h is a reservation pod. A reservation pod is identified by its namespace
// or its labels.
func (l podLog) reserves(h gpudata.Holder) bool {
	if catalogue.IsReservation(h) {
		return true
	}
	lives := l[podKey{h.Namespace, h.Pod}]
	return slices.ContainsFunc(lives, func(a podLife) bool { return a.Reservation && (h.UID == "" || a.UID == h.UID) })
}
