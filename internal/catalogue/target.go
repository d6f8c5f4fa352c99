package catalogue

import (
	"regexp"
	"strings"
)

// Federated reports whether the row has a label that a Prometheus adds to the rows of a target.
func (r *Row) Federated() bool { return r.job != "" || r.instance != "" }

// fromPrometheus reports whether the row has both labels that a Prometheus adds, so that labels of
// its own can have moved those of the exporter. The instance is an address with a port: users
// cannot imitate it, because the value of a pod's label has no colon.
func (r *Row) fromPrometheus() bool {
	return r.job != "" && strings.Contains(r.instance, ":") || r.receiverJob != "" && r.receiverInstance != ""
}

// maybeRelayed reports whether the row has both labels that a Prometheus adds, but an instance that a
// user's label can imitate.
func (r *Row) maybeRelayed() bool {
	return r.job != "" && r.instance != "" && !r.fromPrometheus()
}

// NamesTarget reports whether the container that the row names is the exporter that was scraped,
// judged by the names that a Prometheus gave it: on a device without a holder, the row has only the
// target's labels. One of these labels alone can be a pod's label.
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

// podSuffix matches what controllers append to their name for the name of a pod.
var podSuffix = regexp.MustCompile(`(-[a-z0-9]{6,10})?-[a-z0-9]{5}$`)

// workloadOf returns the name of the workload that a pod's name shows.
func workloadOf(pod string) string { return podSuffix.ReplaceAllString(pod, "") }

// isPodOf reports whether a pod has the name of a service or a scrape job and a suffix. A scrape job
// can be called namespace/name.
func isPodOf(pod, name string) bool {
	name = name[strings.LastIndexByte(name, '/')+1:]
	suffix, found := strings.CutPrefix(pod, name)
	return name != "" && found && podSuffix.FindString(suffix) == suffix
}

// Targets are the exporters' own pods, as the rows of devices that are held show them. All pods of
// one workload are exporters: also those of nodes where nobody holds a device.
type Targets map[Holder]bool

// Add adds a scrape target.
func (t Targets) Add(h Holder) { t[workload(h)] = true }

// Has reports whether a container is a scrape target or a sibling of one.
func (t Targets) Has(h Holder) bool { return t[workload(h)] }

func workload(h Holder) Holder {
	h.UID, h.Pod = "", workloadOf(h.Pod)
	return h
}
