package attribution

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Decision contains the holders of a device at a given time.
type Decision struct {
	// Source is a value of gpu.holder.source that identifies the source of Holders. Source is empty
	// if nobody holds the device or the holders are unknown.
	Source string
	// HoldersKnown is true if an authoritative source lists the device. If HoldersKnown is true and
	// Holders is empty, nobody holds the device.
	HoldersKnown bool
	// Strategy is the value of gpu.sharing.strategy, or empty if Holders is empty.
	Strategy string
	// Holders is sorted and contains each container only once. Do not modify Holders, because
	// several decisions can share the same slice.
	Holders []Holding
}

// Decide uses the first source that identifies the holders of a device at time t. The sources are
// tried in this order: the kubelet or claims, schedulers' annotations if at least one annotated pod
// still exists, the exporter's labels, and the processes on the device. If e shows that no pod
// holds the device, Decide ignores labels that name pods. However, if the kubelet might not list
// DRA devices, Decide uses labels that also name a DRA device. Labels that name jobs or containers
// outside Kubernetes, and processes, can still identify holders. The Entry e may be nil. The shared
// parameter is true if the labels identify a replica of a shared device. Decide sorts the labels
// and processes slices in place.
func Decide(e *Entry, t int64, labels, processes []Holding, shared bool) Decision {
	var d Decision
	if e == nil {
		e = &Entry{}
	}
	if e.ambiguous {
		return d
	}
	if !e.partial {
		// The node's label describes how the device plugin shares devices. It does not describe
		// the shares that a scheduler assigns.
		for _, candidate := range []struct {
			source  string
			holders []Holding
			sharing string
		}{{e.Source, e.Holders, e.sharing}, {signal.HolderSourceAnnotation, e.Assigned, ""}} {
			if holders := existing(candidate.holders, t); len(holders) > 0 {
				d = Decision{Source: candidate.source, HoldersKnown: true, Holders: holders}
				d.Strategy, _ = strategy(holders, candidate.sharing)
				return d
			}
		}
		// If all pods that the kubelet lists for the device have ended, the holders are unknown.
		// The kubelet responded before the pods ended, and may have allocated the device again
		// since then.
		d.HoldersKnown = e.Source != "" && (len(e.Holders) == 0 || e.released) && e.after <= t && t < e.until
	}
	if e.mayOmitClaims && slices.ContainsFunc(labels, func(h Holding) bool { return h.Allocation.Device != "" }) {
		d.HoldersKnown = false
	}
	if d.HoldersKnown {
		labels = slices.DeleteFunc(labels, func(h Holding) bool { return h.InPod() })
	}
	if holders := unique(labels); len(holders) > 0 {
		d.Source, d.Holders = signal.HolderSourceLabels, holders
		d.Strategy = labelStrategy(holders, e.sharing, shared)
		return d
	}
	if holders := unique(processes); len(holders) > 0 {
		d.Source, d.Holders = signal.HolderSourceProcesses, holders
		d.Strategy = signal.SharingUnknown
	}
	return d
}

// existing returns the holders whose pods exist and have not ended at time t.
func existing(holders []Holding, t int64) []Holding {
	ended := func(h Holding) bool { return !h.At(t) }
	if !slices.ContainsFunc(holders, ended) {
		return holders
	}
	return slices.DeleteFunc(slices.Clone(holders), ended)
}

// unique sorts holders in place and merges the holdings of each container into one.
func unique(holders []Holding) []Holding {
	slices.SortFunc(holders, Holding.Compare)
	return merge(holders)
}

// strategy returns how the holders share a device. The conflict result is true if the whole device
// was assigned to more than one pod.
func strategy(holders []Holding, sharing string) (s string, conflict bool) {
	if len(holders) == 0 {
		return "", false
	}
	claims, replicas, several, pods := 0, 0, false, false
	first := &holders[0]
	for i := range holders {
		h := &holders[i]
		if h.Allocation.Claim != "" {
			claims++
		}
		if h.Replica {
			replicas++
		}
		several = several || h.several || h.Allocation.ShareID != ""
		pods = pods || h.Pod != first.Pod || h.Namespace != first.Namespace
	}
	alone := len(holders) == 1
	switch {
	case claims == len(holders):
		if alone && !several {
			return signal.SharingNone, false
		}
		return signal.SharingDRA, false
	case claims > 0:
		return signal.SharingUnknown, pods
	case replicas > 0:
		if sharing != "" {
			return sharing, false
		}
		return signal.SharingUnknown, false
	case alone:
		return signal.SharingNone, false
	case distinct(holders):
		// The holders have different compute instances in the same GPU instance.
		return signal.SharingMIG, false
	}
	return signal.SharingUnknown, pods
}

// distinct reports whether the allocated device IDs of all holders are different.
func distinct(holders []Holding) bool {
	ids := make(map[string]bool, len(holders))
	for i := range holders {
		ids[holders[i].raw] = true
	}
	return len(ids) == len(holders)
}

// labelStrategy returns the sharing strategy that can be determined from the exporter's labels.
func labelStrategy(holders []Holding, sharing string, shared bool) string {
	if len(holders) == 1 && !shared {
		return signal.SharingUnknown
	}
	switch {
	case !slices.ContainsFunc(holders, func(h Holding) bool { return h.Allocation.Claim == "" }):
		return signal.SharingDRA
	case sharing != "":
		return sharing
	}
	return signal.SharingTimeSlicing
}
