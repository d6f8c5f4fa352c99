package events

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// holding describes a holder of a device and how the holder holds the device.
type holding struct {
	Holder     gpudata.Holder
	Strategy   string `json:",omitempty"`
	Allocation gpudata.Allocation
}

func (h holding) is(o holding) bool { return h.Holder.Same(o.Holder) }

// The holdings method finds holders that have started or stopped holding a device. The first known
// holders of a device are a baseline and cause no events. If the holders are unknown, the stored
// holders do not change. On a board with MIG instances, only the holders of the instances count, so
// the board's own holdings end when the board is partitioned.
func (c *frame) holdings(k *device, id string, d *gpudata.DeviceFrame) {
	partitioned := slices.ContainsFunc(c.f.Devices, func(o *gpudata.DeviceFrame) bool { return o.Parent == id })
	if partitioned && len(k.Profiles) == 0 {
		c.released(k, id)
	}
	if !c.set.Holders || partitioned {
		return
	}
	// Without gpu_k8s, the holders are known if the exporter's labels name them.
	if _, _, known := c.f.HeldBy(d); !known {
		return
	}
	var now []holding
	for _, u := range d.Users {
		if u.Holds {
			now = append(now, holding{u.Holder.Clone(), u.Strategy, u.Allocation})
		}
	}
	slices.SortFunc(now, func(a, b holding) int { return a.Holder.Compare(b.Holder) })
	if k.HoldersKnown {
		for i := range k.Holdings {
			if !slices.ContainsFunc(now, k.Holdings[i].is) {
				c.held(k, id, HolderEnd, "no longer holds", &k.Holdings[i])
			}
		}
		for i := range now {
			if !slices.ContainsFunc(k.Holdings, now[i].is) {
				c.held(k, id, HolderStart, "holds", &now[i])
			}
		}
	}
	k.HoldersKnown, k.Holdings = true, now
}

// The released method ends all holdings of a device that no longer exists or was lost.
func (c *frame) released(k *device, id string) {
	for i := range k.Holdings {
		c.held(k, id, HolderEnd, "no longer holds", &k.Holdings[i])
	}
	k.Holdings = nil
}

func (c *frame) held(k *device, id, name, verb string, h *holding) {
	c.emitOf(k, id, h, Event{Name: name, Severity: Info, Body: fmt.Sprintf("%s %s GPU %s.", text(h.Holder), verb, id)})
}

// text returns a holder's name for display to users.
func text(h gpudata.Holder) string {
	switch {
	case h.InPod():
		return "Pod " + strings.Trim(h.Namespace+"/"+cmp.Or(h.Pod, h.UID)+"/"+h.Container, "/")
	case h.Job != "":
		return "Job " + h.Job
	}
	return "Container " + cmp.Or(h.Name, h.ID)
}
