package findings

import (
	"cmp"
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// holders describes who holds a device.
type holders struct {
	known, held bool
	// workload is the workload that all holders belong to, or zero if there is none.
	workload workload
}

// workload is the top of a holder's owner chain: a job, a Deployment, a pod without an owner, or a
// plain container.
type workload struct{ namespace, kind, name string }

// holdersOf returns who holds a device. If the frame has an attribution, the holders are known only
// if the attribution determined them.
func holdersOf(f *gpudata.Frame, d *gpudata.DeviceFrame) (h holders) {
	decided := f.Attribution == nil || d.HoldersKnown
	n := 0
	for _, u := range d.Users {
		if !u.Holds || !decided {
			continue
		}
		w := workloadOf(u)
		if n++; n == 1 {
			h.workload = w
		} else if w != h.workload {
			h.workload = workload{}
		}
	}
	h.held = n > 0
	h.known = h.held || d.HoldersKnown
	return h
}

func workloadOf(u *gpudata.User) workload {
	h := &u.Holder
	if o := u.Owner.Ownership(); o.Workload != "" && h.InPod() {
		return workload{h.Namespace, o.WorkloadKind, o.Workload}
	}
	switch {
	case h.InPod():
		return workload{h.Namespace, "Pod", cmp.Or(h.Pod, h.UID)}
	case h.Job != "":
		return workload{"", "job", h.Job}
	}
	return workload{"", "container", cmp.Or(h.ID, h.Name)}
}

// together returns the spinning devices of a workload on the node if they form one finding: all
// devices of the workload spin, or all but one of at least three. The one that does not spin is
// returned too. None of them may have a finding yet.
func together(v *view) (group []*view, other *view) {
	if v.holders.workload == (workload{}) {
		return nil, nil
	}
	half := milliseconds(v.set.Spinning.For / 2)
	for i := range v.all {
		o := &v.all[i]
		switch {
		case o.holders.workload != v.holders.workload:
		case o == v || o.now[spinning] == yes && o.m.open&bit(spinning) == 0 && o.m.judged[spinning].evidence >= half:
			group = append(group, o)
		case o.now[spinning] == no && o.m.open&bit(spinning) == 0 && other == nil:
			other = o
		default:
			return nil, nil
		}
	}
	if len(group) < 2 {
		return nil, nil
	}
	return group, other
}

// differing returns the device whose power differs most from the median of a group, or nil if it
// differs by at most a tenth of the median.
func differing(group []*view) *view {
	mean := func(v *view) float64 { return v.m.mean.of()[3] }
	middle := median(group, mean)
	away := func(v *view) float64 { return math.Abs(mean(v) - middle) }
	most := slices.MaxFunc(group, func(a, b *view) int { return cmp.Compare(away(a), away(b)) })
	if away(most) <= middle/10 {
		return nil
	}
	return most
}
