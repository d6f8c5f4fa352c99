package gpudata

import "unique"

// Owner is what is known of who made a pod or started a batch job. Equal knowledge is an equal
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
