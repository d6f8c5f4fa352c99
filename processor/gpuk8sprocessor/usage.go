package gpuk8sprocessor

import (
	"math"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// falseZeroMemory and falseZeroUtilization are how busy a device must be for
// zeros of all its containers to be false: an exporter that cannot look up
// processes reports them idle. A driver and its contexts take some hundred MiB
// that belong to no process.
const (
	falseZeroMemory      = 512 << 20 // bytes
	falseZeroUtilization = 0.05
)

// dropReason tells why a value of a container or process was dropped.
type dropReason uint8

const (
	dropFalseZero dropReason = iota
	dropAboveDevice
	// dropNoDevice is for processes whose device is unknown.
	dropNoDevice
	// dropSecondSource is for processes on a device of which another source has a better list.
	dropSecondSource
	numDropReasons
)

// String returns the reason as the self-metric spells it.
func (r dropReason) String() string {
	return [...]string{"false_zero", "above_device_memory", "no_device", "second_source"}[r]
}

// counts are what the self-metrics count of a batch.
type counts struct {
	dropped [numDropReasons]int64
	unknown int64 // points of processes in unknown pods
	refused int64 // holders, users and processes that are jobs without series
}

// usageCheck tells which usage of a device can be true.
type usageCheck struct {
	falseZero bool
	limit     float64 // of memory, in bytes
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
	// Memory goes before utilization: an idle process still has memory.
	c.falseZero = memory == 0 && busy == 0 &&
		(hasMemory && deviceMemory > falseZeroMemory || !hasMemory && hasBusy && deviceBusy > falseZeroUtilization)
	return c
}

// highest returns the highest value that users have of a metric.
func highest(users []*gpudata.User, m *signal.Metric) (value float64, ok bool) {
	for _, u := range users {
		if v, has := u.Samples.Get(m, ""); has {
			value, ok = max(value, v), true
		}
	}
	return value, ok
}

// keep adds the samples of a user that can be true to the user of the device that is the
// container h, and reports whether it uses the device. Several names of one container are
// one user.
func (c usageCheck) keep(d *gpudata.DeviceFrame, from *gpudata.User, h gpudata.Holder, dropped *[numDropReasons]int64) (uses bool) {
	for _, s := range from.Samples.All() {
		s.More = slices.DeleteFunc(slices.Clone(s.More), func(a gpudata.Attr) bool { return a.Key == signal.SharingStrategy })
		switch {
		case !used[s.Metric]:
			userOf(d, h).Samples.Add(s)
			continue
		case !s.Ended && c.falseZero:
			dropped[dropFalseZero]++
			continue
		case s.Metric == signal.K8sContainerGPUMemoryUsage && s.Value > c.limit:
			dropped[dropAboveDevice]++
			continue
		}
		u := userOf(d, h)
		u.Samples.AddHighest(s)
		if u.Allocation == (gpudata.Allocation{}) {
			u.Allocation = from.Allocation
		}
		uses = uses || s.Value > 0
	}
	return uses
}

// userOf returns the user that is the container h, which it adds when it is new.
func userOf(d *gpudata.DeviceFrame, h gpudata.Holder) *gpudata.User {
	u := d.SameUser(h)
	if u.Holder.PartOf(h) {
		u.Holder = h
	}
	return u
}
