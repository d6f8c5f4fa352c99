package gpuk8sprocessor

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// If the usage of a device exceeds falseZeroMemory or falseZeroUtilization, zeros for all its
// containers are false. An exporter that cannot find the processes of containers reports such
// zeros. A driver and its contexts use a few hundred MiB that do not belong to a process.
const (
	falseZeroMemory      = 512 << 20 // bytes
	falseZeroUtilization = 0.05
)

// dropReason is the reason why a value of a container or process was dropped.
type dropReason uint8

const (
	dropFalseZero dropReason = iota
	dropAboveDevice
	// dropNoDevice applies to processes whose device is unknown.
	dropNoDevice
	// dropSecondSource applies to processes on a device for which another source has a better list.
	dropSecondSource
	numDropReasons
)

// String returns the value of the self-metric's attribute.
func (r dropReason) String() string {
	return [...]string{"false_zero", "above_device_memory", "no_device", "second_source"}[r]
}

// batchCounts contains the values that a batch adds to the self-metrics.
type batchCounts struct {
	dropped [numDropReasons]int64
	unknown int64 // points of processes whose pod is unknown
	refused int64 // holders, users, and processes of refused jobs
}

// usageCheck determines which usage values of a device's containers are plausible.
type usageCheck struct {
	isFalseZero bool
	limit       float64 // of memory, in bytes
}

func newUsageCheck(d *gpudata.DeviceFrame) usageCheck {
	memory, hasMemory := highest(d.Users, signal.K8sContainerGPUMemoryUsage)
	busy, hasBusy := highest(d.Users, signal.K8sContainerGPUUtilization)
	deviceMemory, _ := d.Samples.Get(signal.HwGPUMemoryUsage, "")
	deviceBusy, _ := d.Samples.Get(signal.HwGPUUtilization, signal.TaskGeneral)
	c := usageCheck{limit: math.Inf(1)}
	if limit, ok := d.Samples.Get(signal.HwGPUMemoryLimit, ""); ok {
		c.limit = limit
	}
	// Memory is checked before utilization, because an idle process still uses memory.
	c.isFalseZero = memory == 0 && busy == 0 &&
		(hasMemory && deviceMemory > falseZeroMemory || !hasMemory && hasBusy && deviceBusy > falseZeroUtilization)
	return c
}

// highest returns the highest value of a metric among the users.
func highest(users []*gpudata.User, m *signal.Metric) (value float64, ok bool) {
	for _, u := range users {
		if v, exists := u.Samples.Get(m, ""); exists {
			value, ok = max(value, v), true
		}
	}
	return value, ok
}

// addUsage adds the plausible samples of from to the device's entry for container h, and reports
// whether h uses the device. A container with several names is one user.
func (c usageCheck) addUsage(d *gpudata.DeviceFrame, from *gpudata.User, h gpudata.Holder, dropped *[numDropReasons]int64) (uses bool) {
	for _, s := range from.Samples.All() {
		s.More = slices.DeleteFunc(slices.Clone(s.More), func(a gpudata.Attr) bool { return a.Key == signal.SharingStrategy })
		switch {
		case !attributionMetrics[s.Metric]:
			findOrAddUser(d, h).Samples.Add(s)
			continue
		case !s.Ended && c.isFalseZero:
			dropped[dropFalseZero]++
			continue
		case s.Metric == signal.K8sContainerGPUMemoryUsage && s.Value > c.limit:
			dropped[dropAboveDevice]++
			continue
		}
		u := findOrAddUser(d, h)
		u.Samples.AddHighest(s)
		if u.Allocation == (gpudata.Allocation{}) {
			u.Allocation = from.Allocation
		}
		uses = uses || s.Value > 0
	}
	return uses
}

// findOrAddUser returns the user for container h. If the device has no such user, it adds one.
func findOrAddUser(d *gpudata.DeviceFrame, h gpudata.Holder) *gpudata.User {
	u := d.SameUser(h)
	if u.Holder.PartOf(h) {
		u.Holder = h
	}
	return u
}
