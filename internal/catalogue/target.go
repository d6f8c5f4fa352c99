package catalogue

import (
	"regexp"
	"strings"
)

// Federated reports whether the row has a label that Prometheus adds to the rows of a scrape
// target.
func (r *Row) Federated() bool { return r.job != "" || r.instance != "" }

// fromPrometheus reports whether the row has both the job label and the instance label that
// Prometheus or the Prometheus receiver adds. If the row has both labels, Prometheus may have
// renamed the exporter's labels. The instance label that Prometheus adds must be an address with a
// port. A pod label cannot contain an address with a port, because Kubernetes does not allow colons
// in pod label values.
func (r *Row) fromPrometheus() bool {
	return r.job != "" && strings.Contains(r.instance, ":") || r.receiverJob != "" && r.receiverInstance != ""
}

// maybeRelayed reports whether the row has the job and instance labels that Prometheus adds, but
// the instance label could be a pod label.
func (r *Row) maybeRelayed() bool {
	return r.job != "" && r.instance != "" && !r.fromPrometheus()
}

// NamesTarget reports whether the container in the row is the scraped exporter, according to the
// names that Prometheus added. The row of a device without a holder has only the labels of the
// scrape target. A single label of the scrape target is not sufficient evidence, because a single
// label could come from a pod label.
func (r *Row) NamesTarget() bool {
	h, relayed := r.named()
	if relayed || h.Pod == "" || !r.fromPrometheus() {
		return false
	}
	if h.Container == "exporter" || isPodOf(h.Pod, r.receiverJob) {
		return true
	}
	return r.job != "" && r.instance != "" && (isPodOf(h.Pod, r.service) || isPodOf(h.Pod, r.job))
}

// podSuffix matches the part of a pod's name that follows the controller's name.
var podSuffix = regexp.MustCompile(`(-[a-z0-9]{6,10})?-[a-z0-9]{5}$`)

// workloadOf returns the name of the workload that controls the pod.
func workloadOf(pod string) string { return podSuffix.ReplaceAllString(pod, "") }

// isPodOf reports whether a pod's name consists of the given name and, optionally, a suffix that a
// controller added. A pod without a controller has no suffix. The given name is the name of a
// service or of a scrape job. The name of a scrape job may have the form namespace/name. A workload
// with such a name is not distinguishable from the exporter, so it is not reported as a holder:
// otherwise, the exporter would be the holder of every idle device.
func isPodOf(pod, name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	suffix, found := strings.CutPrefix(pod, name)
	return name != "" && found && podSuffix.FindString(suffix) == suffix
}

// Targets contains the workloads of the exporters' own pods, which are found in the rows of devices
// that have a holder. All pods of an exporter's workload are exporters, even on nodes where no
// device has a holder.
type Targets map[Holder]bool

// Add adds a scrape target.
func (t Targets) Add(h Holder) { t[workload(h)] = true }

// Has reports whether a container belongs to the workload of a scrape target.
func (t Targets) Has(h Holder) bool { return len(t) > 0 && t[workload(h)] }

func workload(h Holder) Holder {
	h.UID, h.Pod = "", workloadOf(h.Pod)
	return h
}
