package gpudata

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// Owner is a handle for the owners of a pod or a batch job. Equal owners have equal handles, which
// are one machine word long. The zero Owner means that the owners are unknown.
type Owner struct{ handle unique.Handle[Ownership] }

// Ownership contains the names of the owners of a pod or a batch job. Unknown names are empty.
type Ownership struct {
	Deployment, StatefulSet, DaemonSet, Job, CronJob string
	// WorkloadKind and Workload describe the top of the owner chain. WorkloadKind and Workload are
	// empty until all owners in the chain are known.
	WorkloadKind, Workload string
	// KueueWorkload is the Workload through which Kueue admitted the pod.
	KueueWorkload string
	// JobUser and JobPartition are set only for batch jobs.
	JobUser, JobPartition string
	// Labels contains the selected labels of the pod.
	Labels Labels
}

// Labels is a set of labels that is encoded as one string, so that equal sets are equal strings. A
// zero byte follows each key and each value. The empty string is the empty set.
type Labels string

// NewLabels encodes labels. NewLabels omits labels that have an empty value or contain a zero byte.
func NewLabels(m map[string]string) Labels {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if value := m[key]; value != "" && !strings.ContainsRune(key+value, 0) {
			text.WriteString(key + "\x00" + value + "\x00")
		}
	}
	return Labels(text.String())
}

// All iterates over the labels in the order of their keys.
func (l Labels) All() iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for rest := string(l); rest != ""; {
			var key, value string
			key, rest, _ = strings.Cut(rest, "\x00")
			value, rest, _ = strings.Cut(rest, "\x00")
			if !yield(key, value) {
				return
			}
		}
	}
}

// NewOwner returns the Owner for the given names.
func NewOwner(o Ownership) Owner {
	if o == (Ownership{}) {
		return Owner{}
	}
	return Owner{unique.Make(o)}
}

// Ownership returns the known names of the owners.
func (o Owner) Ownership() Ownership {
	if o == (Owner{}) {
		return Ownership{}
	}
	return o.handle.Value()
}

// Workload identifies what a holder belongs to: the top of a pod's owner chain, a pod without an
// owner, a batch job, or a container outside Kubernetes. The zero Workload means that there is no
// workload.
type Workload struct{ Namespace, Kind, Name string }

// Workload returns the workload of a user.
func (u *User) Workload() Workload {
	h := &u.Holder
	o := u.Owner.Ownership()
	switch {
	case h.InPod() && o.Workload != "":
		return Workload{h.Namespace, o.WorkloadKind, o.Workload}
	case h.InPod():
		return Workload{h.Namespace, "Pod", cmp.Or(h.Pod, h.UID)}
	case h.Job != "":
		return Workload{"", "job", h.Job}
	}
	return Workload{"", "container", cmp.Or(h.ID, h.Name)}
}

// HeldBy returns the workload to which all holders of a device belong, or the zero Workload if the
// holders belong to several workloads. HeldBy also reports whether the device is held. The last
// result is false if it is unknown whether the device is held. If the frame has an attribution,
// users count as holders only if the device's holders are known.
func (f *Frame) HeldBy(d *DeviceFrame) (w Workload, held, known bool) {
	for _, u := range d.Users {
		if !f.holds(d, u) {
			continue
		}
		if of := u.Workload(); !held {
			w, held = of, true
		} else if of != w {
			w = Workload{}
		}
	}
	return w, held, held || d.HoldersKnown
}
