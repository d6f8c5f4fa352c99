package gpuwatchdogexporter

import (
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// wholeOf names what a budget is a share of: the budget processor splits evenly what
// names no device, and what several pods were given by one claim. Budgets of other
// exporters may name no device either.
func wholeOf(device decide.Device, at place, budget pcommon.Map) string {
	switch pdatagpu.Text(budget, signal.BudgetSource) {
	case "extended_resource", "annotation", "exporter":
		return "pod " + at.holder.UID
	case "dra":
		return strings.Join([]string{
			"claim", at.holder.Namespace, pdatagpu.DeviceText(budget, at.resource, signal.ResourceClaimName),
			pdatagpu.DeviceText(budget, at.resource, signal.DRAShareID), device.Node, device.ID,
		}, " ")
	}
	return ""
}

// outcome is what became of a point.
type outcome int

const (
	accepted outcome = iota
	ignored          // of a metric, or a series of it, that is not looked at
	noValue          // without a value; a series that ended is one
	old              // older than one that was taken
	future           // sampled after now
	refused          // of a device or container beyond the limits
	outcomes
)

var outcomeNames = [outcomes]string{"accepted", "ignored", "no_value", "old", "future", "refused"}

// take takes a batch in and returns how many points had which outcome.
func (c *collection) take(md pmetric.Metrics, now time.Time) (counts [outcomes]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := 0
	for _, rm := range md.ResourceMetrics().All() {
		place := readPlace(rm.Resource().Attributes())
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				name := m.Name()
				if ofContainer, known := lookedAt[name]; !known || ofContainer == place.holder.IsZero() {
					continue
				}
				var points pmetric.NumberDataPointSlice
				switch m.Type() {
				case pmetric.MetricTypeGauge:
					points = m.Gauge().DataPoints()
				case pmetric.MetricTypeSum:
					points = m.Sum().DataPoints()
				default:
					continue
				}
				seen += points.Len()
				for _, dp := range points.All() {
					counts[c.point(place, name, dp, now)]++
				}
			}
		}
	}
	counts[ignored] += int64(md.DataPointCount() - seen)
	return counts
}

// lookedAt are the metrics that are looked at, and whether in series of containers or
// of devices, which come again for each holder.
var lookedAt = map[string]bool{
	signal.GPUMemoryHeadroom.Name:         false,
	signal.HwGPUMemoryUsage.Name:          false,
	signal.HwGPUMemoryLimit.Name:          false,
	signal.GPUMemoryAttributionState.Name: false,
	signal.HwEnergy.Name:                  false,

	signal.K8sContainerGPUMemoryUsage.Name:  true,
	signal.K8sContainerGPUMemoryBudget.Name: true,
}

// place is what a Resource says: the node, and for container series the container.
type place struct {
	node     string
	holder   gpudata.Holder
	resource pcommon.Map
}

func readPlace(attributes pcommon.Map) place {
	return place{pdatagpu.PlaceOf(attributes).Node, pdatagpu.HolderOf(attributes), attributes}
}

// point takes a point of a metric that is looked at.
func (c *collection) point(at place, name string, dp pmetric.NumberDataPoint, now time.Time) outcome {
	key := decide.Device{Node: at.node, ID: pdatagpu.DeviceText(dp.Attributes(), at.resource, signal.HardwareID)}
	if key.Node == "" || key.ID == "" {
		return ignored
	}
	if dp.Flags().NoRecordedValue() || dp.ValueType() == pmetric.NumberDataPointValueTypeEmpty {
		c.end(key, at.holder, name)
		return noValue
	}
	if name == signal.HwEnergy.Name {
		return c.takeEnergy(boardOf(key), dp, now)
	}
	sampled := dp.Timestamp().AsTime()
	switch {
	case sampled.Sub(now) > decide.FutureTolerance:
		return future
	case now.Sub(sampled) > forgetAfter*c.maxAge:
		return old
	}
	d := c.devices[key]
	if d == nil {
		if len(c.devices) >= maxDevices {
			return refused
		}
		d = &device{holders: map[gpudata.Holder]*holder{}}
		c.devices[key] = d
	}
	if !at.holder.IsZero() {
		return d.takeHolder(key, at, name, dp, decide.Reading{Bytes: bytes(dp), At: sampled})
	}
	return d.take(name, dp, sampled)
}

func (c *collection) takeEnergy(board decide.Device, dp pmetric.NumberDataPoint, now time.Time) outcome {
	sampled, joules := dp.Timestamp().AsTime(), dp.DoubleValue()
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		joules = float64(dp.IntValue())
	}
	if sampled.Sub(now) > decide.FutureTolerance {
		return future
	}
	e := c.energy[board]
	switch {
	case e == nil && len(c.energy) >= maxDevices:
		return refused
	case e == nil:
		c.energy[board] = &counter{joules: joules, at: sampled, moved: sampled}
		return accepted
	case sampled.Before(e.at):
		return old
	case joules != e.joules:
		e.joules, e.moved = joules, sampled
	}
	e.at = sampled
	return accepted
}

// bytes returns a point's value; what is no number of bytes is below zero, which
// the decision finds impossible.
func bytes(dp pmetric.NumberDataPoint) int64 {
	if dp.ValueType() == pmetric.NumberDataPointValueTypeInt {
		return dp.IntValue()
	}
	v := dp.DoubleValue()
	if math.IsNaN(v) || math.Abs(v) >= 1<<62 {
		return -1
	}
	return int64(v)
}

func (d *device) take(name string, dp pmetric.NumberDataPoint, at time.Time) outcome {
	f := d.frame(at)
	if f == nil {
		return old
	}
	switch name {
	case signal.GPUMemoryHeadroom.Name:
		d.watched = true
		f.set(hasHeadroom, &f.headroom, bytes(dp))
	case signal.HwGPUMemoryUsage.Name:
		f.set(hasUsage, &f.usage, bytes(dp))
	case signal.HwGPUMemoryLimit.Name:
		f.set(hasLimit, &f.limit, bytes(dp))
	default:
		d.watched = true
		if bytes(dp) != 1 {
			return accepted // a state that does not hold
		}
		f.setState(attribution(pdatagpu.Text(dp.Attributes(), signal.State)), pdatagpu.Text(dp.Attributes(), signal.Reason))
	}
	return accepted
}

// attribution returns a state by its name; one that is not known allows nothing.
func attribution(state string) decide.Attribution {
	switch state {
	case "valid":
		return decide.Valid
	case "partial":
		return decide.Partial
	default:
		return decide.Invalid
	}
}

func (d *device) takeHolder(
	on decide.Device, at place, name string, dp pmetric.NumberDataPoint, r decide.Reading,
) outcome {
	key := at.holder
	h := d.holders[key]
	if h == nil {
		if len(d.holders) >= maxHolders {
			return refused
		}
		h = &holder{}
		d.holders[key] = h
	}
	reading := &h.usage
	if name == signal.K8sContainerGPUMemoryBudget.Name {
		reading = &h.budget
		h.whole = wholeOf(on, at, dp.Attributes())
	}
	if r.At.Before(reading.At) {
		return old
	}
	if r.At.Equal(reading.At) && r.Bytes != reading.Bytes {
		r.Bytes = contradicted
	}
	*reading = r
	return accepted
}

// end forgets a series that was said to have ended.
func (c *collection) end(key decide.Device, container gpudata.Holder, name string) {
	d := c.devices[key]
	if d == nil {
		return
	}
	switch name {
	case signal.K8sContainerGPUMemoryUsage.Name:
		if h := d.holders[container]; h != nil {
			h.usage = decide.Reading{}
		}
	case signal.K8sContainerGPUMemoryBudget.Name:
		if h := d.holders[container]; h != nil {
			h.budget = decide.Reading{}
		}
	case signal.GPUMemoryHeadroom.Name:
		delete(c.devices, key)
	}
}
