package attribution

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// podKey is the key by which the kubelet and exporters identify a pod. A later pod can have the
// same name.
type podKey struct {
	namespace, name string
}

// podLife is the time span in which one pod had a name.
type podLife struct {
	Pod
	// The pod exists in the interval [from, until). ended is when all containers have ended and
	// will not restart. All times are in nanoseconds since the epoch.
	from, until, ended int64
}

// heldUntil returns the time at which the pod releases its devices.
func (a *podLife) heldUntil() int64 { return min(a.until, a.ended) }

const forever = math.MaxInt64

// podLog maps each name to the pods that had the name. It keeps a pod while samples from the pod's
// lifetime can still arrive. It is immutable.
type podLog map[podKey][]podLife // oldest first

// update returns the log after adding the pods that exist now and removing those that ended before
// horizon.
func (l podLog) update(now, horizon int64, pods []Pod) podLog {
	next := make(podLog, len(pods))
	for i := range pods {
		p := &pods[i]
		k := podKey{p.Namespace, p.Name}
		a := podLife{Pod: *p, from: min(p.Created, now), until: forever, ended: forever}
		for _, known := range l[k] {
			if known.UID == p.UID {
				// The start is not later than now, even if the clock was set back.
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

// at returns the life of the pod that had a name at time t, or nil.
func (l podLog) at(namespace, name string, t int64) *podLife {
	lives := l[podKey{namespace, name}]
	for i := len(lives) - 1; i >= 0; i-- {
		if a := &lives[i]; a.from <= t && t < a.until {
			return a
		}
	}
	return nil
}

// anyEnded reports whether a pod with the name was deleted by time t.
func (l podLog) anyEnded(namespace, name string, t int64) bool {
	return slices.ContainsFunc(l[podKey{namespace, name}], func(a podLife) bool { return a.until <= t })
}

// find returns the life of a pod by its UID, or nil.
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
	until int64 // when the pod released its devices
}

// userIndex finds users. It is immutable.
type userIndex struct {
	byContainer map[string]containerUser // by the container runtime's ID
	byPod       map[string]containerUser // by the pod UID that the kubelet uses; the user has no container
}

// users returns an index of the pods in the log and their containers.
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

// reserves reports whether a holder is a reservation pod, by its namespace or its labels.
func (l podLog) reserves(h gpudata.Holder) bool {
	if catalogue.IsReservation(h) {
		return true
	}
	lives := l[podKey{h.Namespace, h.Pod}]
	return slices.ContainsFunc(lives, func(a podLife) bool { return a.Reservation && (h.UID == "" || a.UID == h.UID) })
}
