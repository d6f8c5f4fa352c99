package gpudata

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"unique"
)

// Owner is what is known of who made a pod or started a batch job, and for whom. Equal knowledge is an equal
// Owner, one word long; the zero Owner knows nothing.
type Owner struct{ handle unique.Handle[Ownership] }

// Ownership are the names of a pod's or a job's owners, empty where they are not known.
type Ownership struct {
	Deployment, StatefulSet, DaemonSet, Job, CronJob string
	// WorkloadKind and Workload are the top of the owner chain. They are empty until the chain was
	// followed to its end.
	WorkloadKind, Workload string
	// KueueWorkload is the Workload by which Kueue admitted the pod.
	KueueWorkload string
	// JobUser and JobPartition are a batch job's.
	JobUser, JobPartition string
	// Labels are those of the pod's labels that are wanted.
	Labels Labels
}

// Labels are labels as one text, so that the same ones are equal: each key and each value with
// a byte of 0 behind it. The empty text has none.
type Labels string

// NewLabels returns the labels of a map. Those without a value, and those with a byte of 0, are
// left out.
func NewLabels(m map[string]string) Labels {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if value := m[key]; value != "" && !strings.ContainsRune(key+value, 0) {
			text.WriteString(key + "\x00" + value + "\x00")
		}
	}
	return Labels(text.String())
}

// All returns the keys in order, with their values.
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

// NewOwner returns the Owner that knows o.
func NewOwner(o Ownership) Owner {
	if o == (Ownership{}) {
		return Owner{}
	}
	return Owner{unique.Make(o)}
}

// Known returns what is known.
func (o Owner) Known() Ownership {
	if o == (Owner{}) {
		return Ownership{}
	}
	return o.handle.Value()
}
