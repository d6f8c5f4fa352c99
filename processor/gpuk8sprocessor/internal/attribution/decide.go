package attribution

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Decision contains the holders of a device at one time.
type Decision struct {
	// Source is the source of Holders: a value of gpu.holder.source. It is empty if nobody holds
	// the device or the holders are unknown.
	Source string
	// HoldersKnown is true if an authoritative source lists the device, so that an empty Holders
	// means nobody.
	HoldersKnown bool
	// Strategy is the value of gpu.sharing.strategy. It is empty without Holders.
	Strategy string
	// Holders are sorted and contain each container once. They may be shared, so do not modify
	// them.
	Holders []Holding
}

// Decide selects the source of a device's holders at time t, in this order: the kubelet or claims,
// schedulers' annotations if at least one annotated pod still exists, the exporter's labels, and
// the processes on the device. A table entry without holders means that no pod holds the device.
// Jobs and containers outside Kubernetes, which only labels and processes show, can still hold it.
// e may be nil. shared is true if the labels identify a replica of a shared device. Decide sorts
// labels and processes in place.
func Decide(e *Entry, t int64, labels, processes []Holding, shared bool) Decision {
	var d Decision
	if e == nil {
		e = &Entry{}
	}
	if e.ambiguous {
		return d
	}
	if !e.partial {
		for _, candidate := range []struct {
			source  string
			holders []Holding
		}{{e.Source, e.Holders}, {signal.HolderSourceAnnotation, e.Assigned}} {
			if holders := existing(candidate.holders, t); len(holders) > 0 {
				d = Decision{Source: candidate.source, HoldersKnown: true, Holders: holders}
				d.Strategy, _ = strategy(holders, e.sharing)
				return d
			}
		}
		// If all pods that the kubelet lists have ended, the holders are unknown, because the
		// kubelet's answer predates the end of the pods.
		d.HoldersKnown = e.Source != "" && (len(e.Holders) == 0 || e.released) && e.after <= t && t < e.until
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

// existing returns the holders whose pods exist at time t.
func existing(holders []Holding, t int64) []Holding {
	ended := func(h Holding) bool { return !h.At(t) }
	if !slices.ContainsFunc(holders, ended) {
		return holders
	}
	return slices.DeleteFunc(slices.Clone(holders), ended)
}

// unique sorts holders in place and merges those of the same container.
func unique(holders []Holding) []Holding {
	slices.SortFunc(holders, Holding.Compare)
	return merge(holders)
}

// strategy returns how holders share a device. conflict is true if several pods were
// each assigned the whole device.
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
		// Each holder has its own compute instance in the same GPU instance.
		return signal.SharingMIG, false
	}
	return signal.SharingUnknown, pods
}

// distinct reports whether all holders have different IDs.
func distinct(holders []Holding) bool {
	ids := make(map[string]bool, len(holders))
	for i := range holders {
		ids[holders[i].raw] = true
	}
	return len(ids) == len(holders)
}

// labelStrategy returns the sharing strategy that the labels show.
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
