package budget

import (
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/presets"
)

// touches reports whether a frame names a device of the place or somebody who
// holds one.
func (p *Place) touches(f *frame) bool {
	for r := range f.values {
		if slices.ContainsFunc(p.Devices, func(d *Device) bool {
			if r.GPU != "" {
				return d.named(r.GPU)
			}
			return d.user(r.Holder, true) != nil
		}) {
			return true
		}
	}
	return false
}

// locate returns the device of a row, nil when it is unknown. A row that names a board in MIG
// mode, or no device, belongs to the only device that its container holds.
func (p *Place) locate(r *presets.Row) *Device {
	if r.GPU == "" && slices.ContainsFunc(p.absent, func(h gpudata.Holder) bool { return h.Fits(r.Holder) }) {
		return nil
	}
	var candidates, held []*Device
	for _, d := range p.Devices {
		if r.GPU != "" {
			if r.GPU == d.ID || r.GPU == d.MIGUUID {
				return d
			}
			if r.GPU != d.Board {
				continue
			}
		}
		candidates = append(candidates, d)
		if d.user(r.Holder, true) != nil {
			held = append(held, d)
		}
	}
	switch {
	case len(held) == 1:
		return held[0]
	case len(held) == 0 && len(candidates) == 1:
		return candidates[0]
	}
	return nil
}

// utilization takes over the utilization of containers, where no better exporter gave it.
func (f *located) utilization() {
	told := map[*User]int64{}
	for r, millionths := range f.values {
		if d := f.devices[r]; d != nil && r.Pod != "" {
			if u := d.user(r.Holder, false); u != nil {
				told[u] = max(told[u], millionths)
			}
		}
	}
	for u, millionths := range told {
		if !u.HasBusy {
			u.Busy, u.HasBusy = float64(millionths)/1e6, true
		}
	}
}

// exported takes over budgets that another exporter knows, where no better one gave a budget. A
// row that names no device is for all devices that its container holds.
func (p *Place) exported(f *frame) {
	sums := map[*User]int64{}
	for r, bytes := range f.values {
		if !r.InPod() {
			continue
		}
		devices := p.Devices
		if r.GPU == "" {
			devices = p.given(r.Holder, false)
		}
		var users []*User
		for _, d := range devices {
			// A limit above the device's size is one of an oversubscribed device.
			if r.GPU != "" && !d.named(r.GPU) || bytes > maxBytes {
				continue
			}
			for _, u := range d.Users {
				if u.Fits(r.Holder) {
					users = append(users, u)
				}
			}
		}
		for _, u := range users {
			sums[u] += bytes / int64(len(users))
		}
	}
	for u, sum := range sums {
		if u.Exported == 0 {
			u.Exported = sum
		}
	}
}
