package gpuk8sprocessor

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// An exporter that cannot find the processes of containers reports a usage of 0 for all containers.
// If the device's own usage exceeds falseZeroMemory or falseZeroUtilization, the zeros are
// considered wrong. falseZeroMemory is larger than the few hundred MiB that the driver and its
// contexts use and that belong to no process.
const (
	falseZeroMemory      = 512 << 20 // bytes
	falseZeroUtilization = 0.05
)

// dropReason is the reason why a value of a container or process was dropped.
type dropReason uint8

const (
	dropFalseZero dropReason = iota
	dropAboveDevice
	// dropNoDevice is the reason for dropping processes whose device is unknown.
	dropNoDevice
	// dropSecondSource is the reason for dropping processes on a device for which another source
	// has a better process list.
	dropSecondSource
	numDropReasons
)

// String returns the reason as an attribute value of the self-metric.
func (r dropReason) String() string {
	return [...]string{"false_zero", "above_device_memory", "no_device", "second_source"}[r]
}

// batchCounts contains the counts of one batch that are added to the self-metrics.
type batchCounts struct {
	dropped [numDropReasons]int64
	unknown int64 // unknown counts points of processes whose pod is unknown.
	refused int64 // refused counts the holders, users, and processes of refused jobs.
}

// usageCheck determines whether the usage values of a device's containers are plausible.
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
	// Utilization is checked only if memory is missing, because an idle process still uses memory.
	c.isFalseZero = memory == 0 && busy == 0 &&
		(hasMemory && deviceMemory > falseZeroMemory || !hasMemory && hasBusy && deviceBusy > falseZeroUtilization)
	return c
}

// highest returns the highest value of the metric among the given users.
func highest(users []*gpudata.User, m *signal.Metric) (value float64, ok bool) {
	for _, u := range users {
		if v, exists := u.Samples.Get(m, ""); exists {
			value, ok = max(value, v), true
		}
	}
	return value, ok
}

// addUsage copies plausible samples to the device's user for container h, and reports whether
// container h uses the device. The from parameter is the user whose samples are copied. If the
// input identifies a container in several ways, addUsage adds all of the container's samples to one
// user.
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

// findOrAddUser returns the device's user for container h. If the device has no user for container
// h, findOrAddUser adds one.
func findOrAddUser(d *gpudata.DeviceFrame, h gpudata.Holder) *gpudata.User {
	u := d.SameUser(h)
	if u.Holder.PartOf(h) {
		u.Holder = h
	}
	return u
}
