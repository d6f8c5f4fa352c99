package budget

import (
	"slices"
	"strconv"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// MPSBudget is what each client of an MPS daemon may use, by one of the two; nothing is no budget.
type MPSBudget struct {
	// Limit is the pinned memory of each client in bytes; 0: the device's memory
	// divided by Replicas, as the device plugin does it.
	Limit    int64 `mapstructure:"limit"`
	Replicas int64 `mapstructure:"replicas"`
}

// Declare gives each user the budget of the best source that has one for it. If the pod of a
// user is unknown, so is the budget: the pod may have one from a better source.
func (p *Place) Declare(mps MPSBudget) {
	sources := gpushare.BudgetSources()
	for _, d := range p.Devices {
		for _, u := range d.Users {
			u.Budget, u.Source, u.Unsized = 0, "", false
			if !u.Declarations {
				continue
			}
			for _, source := range sources {
				b := p.budget(mps, source, d, u)
				if b > 0 {
					u.Budget, u.Source = b, source
				}
				if u.Unsized = b == Unknown; b != 0 {
					break
				}
			}
		}
	}
}

// budget returns what the source has for the user, 0 for nothing and Unknown for a
// share of a device that does not tell its size.
func (p *Place) budget(mps MPSBudget, source gpushare.BudgetSource, d *Device, u *User) int64 {
	switch source {
	case gpushare.BudgetDRA:
		var total int64
		for _, c := range u.Claims {
			total += min(c.Bytes, maxBytes) / count([]*Device{d}, func(o *User) bool { return slices.Contains(o.Claims, c) })
		}
		return min(total, maxBytes)
	case gpushare.BudgetExporter:
		return u.Exported
	case gpushare.BudgetMPS:
		switch {
		case !u.MPS:
			return 0
		case mps.Limit > 0 || mps.Replicas == 0:
			return mps.Limit
		case d.Limit > 0:
			return d.Limit / mps.Replicas
		}
		return Unknown
	case gpushare.BudgetMIG, gpushare.BudgetWholeGPU:
		switch {
		case !u.Exclusive || (d.Board != "") != (source == gpushare.BudgetMIG):
			return 0
		case d.Limit > 0:
			return d.Limit
		}
		return Unknown
	}
	return p.declared(source, d, u)
}

// declared is what the pod declares for the container on the device.
func (p *Place) declared(source gpushare.BudgetSource, d *Device, u *User) int64 {
	var total int64
	perDevice, found := false, false
	for i := range u.Declared {
		b := &u.Declared[i]
		if b.Source != source || b.Container != "" && b.Container != u.Container {
			continue
		}
		if b.UUID != "" || b.Minor >= 0 {
			perDevice = true
			if !d.is(b) {
				continue
			}
		} else if perDevice || found || !slices.Contains(p.given(u.Holder, b.Container == ""), d) {
			continue // KAI says the same once for each device
		}
		found = true
		bytes := gpushare.MemoryOf(b.MemoryBytes, b.MemoryRatio, d.Limit)
		if bytes == 0 {
			return Unknown
		}
		switch {
		case b.Container == "" && b.Devices > 0:
			bytes /= count([]*Device{d}, func(o *User) bool { return samePod(o.Holder, u.Holder) })
		case b.Container == "":
			bytes = p.rest(b, u)
		case b.Devices == 0:
			bytes /= count(p.given(u.Holder, false), func(o *User) bool { return o.Fits(u.Holder) })
		}
		total += bytes
	}
	return min(total, maxBytes)
}

// is reports whether a budget names the device.
func (d *Device) is(b *gpushare.Budget) bool {
	if b.UUID != "" {
		return b.UUID == d.ID || b.UUID == d.MIGUUID
	}
	return d.Board == "" && d.Name == "nvidia"+strconv.Itoa(b.Minor)
}

// given returns the devices of a budget that names none: those that its container was given, or
// the pod if it is the pod's budget. If none was given, those that they use.
func (p *Place) given(c gpudata.Holder, pod bool) []*Device {
	var given []*Device
	for _, d := range p.Devices {
		if slices.ContainsFunc(d.Users, func(u *User) bool {
			return u.Holds && (u.Fits(c) || pod && samePod(u.Holder, c))
		}) {
			given = append(given, d)
		}
	}
	if given == nil {
		return p.Devices
	}
	return given
}

// count is over how many users of the devices a budget is divided.
func count(devices []*Device, of func(*User) bool) int64 {
	var n int64
	for _, d := range devices {
		for _, u := range d.Users {
			if of(u) {
				n++
			}
		}
	}
	return max(n, 1)
}

func holds(devices []*Device, of func(*User) bool) bool {
	return slices.ContainsFunc(devices, func(d *Device) bool { return slices.ContainsFunc(d.Users, of) })
}

// rest is the user's part of a budget for a whole pod that names no device: what
// the same source declares for single containers is theirs, and the others share
// the rest.
func (p *Place) rest(pod *gpushare.Budget, u *User) int64 {
	bytes, own, devices := pod.MemoryBytes, map[string]bool{}, p.given(u.Holder, true)
	for i := range u.Declared {
		b := &u.Declared[i]
		if b.Source != pod.Source || b.Container == "" {
			continue
		}
		own[b.Container] = true
		if holds(devices, func(o *User) bool { return samePod(o.Holder, u.Holder) && o.Container == b.Container }) {
			bytes -= b.MemoryBytes
		}
	}
	return max(bytes, 0) / count(devices, func(o *User) bool { return samePod(o.Holder, u.Holder) && !own[o.Container] })
}
