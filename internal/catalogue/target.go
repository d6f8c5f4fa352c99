package catalogue

import (
	"regexp"
	"strings"
)

// Federated reports whether the row has a label that Prometheus adds to the rows of a target.
func (r *Row) Federated() bool { return r.job != "" || r.instance != "" }

// fromPrometheus reports whether the row has both labels that Prometheus adds, so that the
// exporter's labels may have been renamed. The instance must be an address with a port, which users
// cannot imitate, because the value of a pod's label must not contain a colon.
func (r *Row) fromPrometheus() bool {
	return r.job != "" && strings.Contains(r.instance, ":") || r.receiverJob != "" && r.receiverInstance != ""
}

// maybeRelayed reports whether the row has both labels that Prometheus adds, but with an instance
// that could be a user's label.
func (r *Row) maybeRelayed() bool {
	return r.job != "" && r.instance != "" && !r.fromPrometheus()
}

// NamesTarget reports whether the container in the row is the scraped exporter, judged by the names
// that Prometheus added. The row of a device without a holder only has the target's labels. One of
// these labels alone is not sufficient, because a pod may have it.
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

// podSuffix matches the suffix that controllers append to their own name to form a pod's name.
var podSuffix = regexp.MustCompile(`(-[a-z0-9]{6,10})?-[a-z0-9]{5}$`)

// workloadOf returns the name of the workload from a pod's name.
func workloadOf(pod string) string { return podSuffix.ReplaceAllString(pod, "") }

// isPodOf reports whether a pod's name is the name of a service or a scrape job, followed by a
// suffix. The name of a scrape job may be namespace/name.
func isPodOf(pod, name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	suffix, found := strings.CutPrefix(pod, name)
	return name != "" && found && podSuffix.FindString(suffix) == suffix
}

// Targets contains the exporters' own pods, found in the rows of held devices. All pods of their
// workload are exporters, even on nodes without a held device.
type Targets map[Holder]bool

// Add adds a scrape target.
func (t Targets) Add(h Holder) { t[workload(h)] = true }

// Has reports whether a container's workload is that of a scrape target.
func (t Targets) Has(h Holder) bool { return len(t) > 0 && t[workload(h)] }

func workload(h Holder) Holder {
	h.UID, h.Pod = "", workloadOf(h.Pod)
	return h
}
