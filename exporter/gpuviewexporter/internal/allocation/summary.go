package allocation

import (
	"math"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

// Summary contains the accelerator fields that the kubelet's /stats/summary endpoint used to have.
type Summary struct {
	Node struct {
		NodeName string `json:"nodeName"`
	} `json:"node"`
	Pods []SummaryPod `json:"pods"`
}

// SummaryPod is a pod that holds a device.
type SummaryPod struct {
	PodRef     PodRef             `json:"podRef"`
	Containers []SummaryContainer `json:"containers"`
}

// PodRef identifies a pod.
type PodRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// SummaryContainer is a container that holds a device.
type SummaryContainer struct {
	Name         string        `json:"name"`
	Accelerators []Accelerator `json:"accelerators"`
}

// Accelerator is a device that a container holds. MemoryTotal and MemoryUsed are the total and used
// memory of the whole device, in bytes. DutyCycle is the percentage of the newest window during
// which the device was busy. Values that were not observed are absent.
type Accelerator struct {
	Make        string  `json:"make"`
	Model       string  `json:"model"`
	ID          string  `json:"id"`
	MemoryTotal *uint64 `json:"memoryTotal,omitempty"`
	MemoryUsed  *uint64 `json:"memoryUsed,omitempty"`
	DutyCycle   *uint64 `json:"dutyCycle,omitempty"`
}

// Summarize returns the containers that hold devices on the node with the given name. The name may
// be empty if there is only one node. If there are several nodes and the name is empty, or if the
// node is unknown, Summarize returns an error.
func Summarize(s *store.Store, now time.Time, node string) (*Summary, *ParameterError) {
	out := &Summary{Pods: []SummaryPod{}}
	var bad *ParameterError
	s.Read(now, func(v *store.View) {
		devices := v.Devices()
		known := map[string]bool{}
		for _, d := range devices {
			known[d.Node] = true
		}
		if node == "" && len(known) == 1 {
			node = devices[0].Node
		}
		if !known[node] && (node != "" || len(known) > 1) {
			bad = badParameter("node", node, "the name of a node that has devices here")
			return
		}
		out.Node.NodeName = node
		pods := map[PodRef]int{}
		for _, d := range devices {
			// The holders and the values of a lost device are unknown.
			if d.Node != node || v.Lost(d) != nil {
				continue
			}
			for _, h := range d.Holders() {
				if !v.IsCurrentHolder(d, h) || h.Pod == "" && h.PodUID == "" {
					continue
				}
				ref := PodRef{h.Pod, h.Namespace, h.PodUID}
				at, ok := pods[ref]
				if !ok {
					at = len(out.Pods)
					pods[ref] = at
					out.Pods = append(out.Pods, SummaryPod{PodRef: ref})
				}
				out.Pods[at].add(h.Container, accelerator(v, d))
			}
		}
	})
	return out, bad
}

func (p *SummaryPod) add(container string, a Accelerator) {
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Name == container {
			c.Accelerators = append(c.Accelerators, a)
			return
		}
	}
	p.Containers = append(p.Containers, SummaryContainer{container, []Accelerator{a}})
}

func accelerator(v *store.View, d *store.Device) Accelerator {
	count := func(x float64, ok bool) *uint64 {
		if !ok || x < 0 {
			return nil
		}
		return new(uint64(math.Round(x)))
	}
	a := Accelerator{
		Make: strings.ToLower(d.Vendor), Model: d.Model, ID: d.ID,
		MemoryTotal: count(v.Gauge(d, store.MemoryLimit)),
		MemoryUsed:  count(v.Gauge(d, store.MemoryUsage)),
	}
	if n := d.Len(); n > 0 {
		busy := float64(d.Value(n-1, store.UtilizationAvg))
		a.DutyCycle = count(busy*100, !math.IsNaN(busy))
	}
	return a
}
