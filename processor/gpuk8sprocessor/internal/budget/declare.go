package budget

import (
	"slices"
	"strconv"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// MPSBudget is the memory that each client of an MPS daemon may use. At most one of Limit and
// Replicas is set. If neither Limit nor Replicas is set, sharing through MPS does not imply a
// budget.
type MPSBudget struct {
	// Limit is the pinned memory limit of each client, in bytes.
	Limit int64 `mapstructure:"limit"`
	// Replicas is the number of replicas among which the device plugin divides the device's memory.
	Replicas int64 `mapstructure:"replicas"`
}

// Declare sets each user's budget from the best source that provides a budget. If the pod of a user
// is unknown, the user's budget is also unknown, because the pod could declare a budget that takes
// precedence.
func (p *Place) Declare(mps MPSBudget) {
	sources := gpushare.BudgetSources()
	for _, d := range p.Devices {
		for _, u := range d.Users {
			u.Budget, u.Source, u.Unsized = 0, "", false
			if !u.DeclarationsKnown {
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

// budget returns the budget that the given source provides for the user u on the device d. The
// result is 0 if the source provides no budget. The result is Unknown if the budget depends on the
// device's size and the size is unknown.
func (p *Place) budget(mps MPSBudget, source gpushare.BudgetSource, d *Device, u *User) int64 {
	switch source {
	case gpushare.BudgetDRA:
		var total int64
		for _, c := range u.Claims {
			total += min(c.Bytes, maxBytes) / countUsers([]*Device{d}, func(o *User) bool { return slices.Contains(o.Claims, c) })
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

// declared returns the budget that the user's pod declares for the user's container on the device
// d.
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
			if !d.isNamedBy(b) {
				continue
			}
		} else if perDevice || found || !slices.Contains(p.allocatedDevices(u.Holder, b.Container == ""), d) {
			continue // KAI Scheduler repeats the budget for each device.
		}
		found = true
		bytes := gpushare.MemoryOf(b.MemoryBytes, b.MemoryRatio, d.Limit)
		if bytes == 0 {
			return Unknown
		}
		switch {
		case b.Container == "" && b.Devices > 0:
			bytes /= countUsers([]*Device{d}, func(o *User) bool { return samePod(o.Holder, u.Holder) })
		case b.Container == "":
			bytes = p.remainingPodBudget(b, u)
		case b.Devices == 0:
			bytes /= countUsers(p.allocatedDevices(u.Holder, false), func(o *User) bool { return o.MayBeSame(u.Holder) })
		}
		total += bytes
	}
	return min(total, maxBytes)
}

// isNamedBy reports whether the budget b applies specifically to the device d.
func (d *Device) isNamedBy(b *gpushare.Budget) bool {
	if b.UUID != "" {
		return b.UUID == d.ID || b.UUID == d.MIGUUID
	}
	return d.Board == "" && d.Name == "nvidia"+strconv.Itoa(b.Minor)
}

// allocatedDevices returns the devices to which a budget applies if the budget does not specify a
// device. A budget for a container applies to the devices that are allocated to the container. A
// budget for a pod applies to the devices that are allocated to any container in the pod. If no
// device is allocated, allocatedDevices returns all devices.
func (p *Place) allocatedDevices(c gpudata.Holder, ofPod bool) []*Device {
	var allocated []*Device
	for _, d := range p.Devices {
		if slices.ContainsFunc(d.Users, func(u *User) bool {
			return u.Holds && (u.MayBeSame(c) || ofPod && samePod(u.Holder, c))
		}) {
			allocated = append(allocated, d)
		}
	}
	if allocated == nil {
		return p.Devices
	}
	return allocated
}

// countUsers returns the total number of users on the given devices for which match returns true.
// The result is at least 1, because callers divide a budget by the result.
func countUsers(devices []*Device, match func(*User) bool) int64 {
	var n int64
	for _, d := range devices {
		for _, u := range d.Users {
			if match(u) {
				n++
			}
		}
	}
	return max(n, 1)
}

func anyUser(devices []*Device, match func(*User) bool) bool {
	return slices.ContainsFunc(devices, func(d *Device) bool { return slices.ContainsFunc(d.Users, match) })
}

// If a pod's budget does not specify a device, remainingPodBudget returns the user's part of that
// budget. The budgets that the same source provides for individual containers on the pod's devices
// are subtracted from the pod's budget. The rest of the pod's budget is divided equally among the
// other containers. A container counts once for each device that the container uses.
func (p *Place) remainingPodBudget(pod *gpushare.Budget, u *User) int64 {
	bytes, hasOwnBudget, devices := pod.MemoryBytes, map[string]bool{}, p.allocatedDevices(u.Holder, true)
	for i := range u.Declared {
		b := &u.Declared[i]
		if b.Source != pod.Source || b.Container == "" {
			continue
		}
		hasOwnBudget[b.Container] = true
		if anyUser(devices, func(o *User) bool { return samePod(o.Holder, u.Holder) && o.Container == b.Container }) {
			bytes -= b.MemoryBytes
		}
	}
	return max(bytes, 0) / countUsers(devices, func(o *User) bool { return samePod(o.Holder, u.Holder) && !hasOwnBudget[o.Container] })
}
