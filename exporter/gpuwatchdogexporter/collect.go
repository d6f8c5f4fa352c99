package gpuwatchdogexporter

import (
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// sharedBudgetOf returns the key of the shared budget that the point belongs to, or "" if the point
// does not belong to a shared budget. The gpu_k8s processor divides the budget of a pod among the
// pod's devices, and the budget of a claim among the claim's pods. A budget that comes from an
// exporter may also apply to all of a pod's devices together.
func sharedBudgetOf(device decide.Device, budget *pdatagpu.Point) string {
	switch budget.Own(signal.BudgetSource) {
	case "extended_resource", "annotation", "exporter":
		return "pod " + budget.Holder.UID
	case "dra":
		return strings.Join([]string{
			"claim", budget.Holder.Namespace, budget.Text(signal.ResourceClaimName), budget.Text(signal.DRAShareID), device.Node, device.ID,
		}, " ")
	}
	return ""
}

type outcome int

const (
	accepted    outcome = iota
	ignored             // The watchdog does not use the metric or series.
	noValue             // The point has no value, for example because its series has ended.
	old                 // A newer point is already stored, or the point is too old.
	future              // The sample time is in the future.
	refused             // The limit on devices or containers has been reached.
	implausible         // The point contains a ratio that is far outside its valid range.
	outcomes
)

// String returns the value that represents the outcome in the self-metrics.
func (o outcome) String() string {
	return [...]string{"accepted", "ignored", "no_value", "old", "future", "refused", "implausible"}[o]
}

// The add method processes a batch and returns the number of points for each outcome.
func (c *collection) add(md pmetric.Metrics, now time.Time) (counts [outcomes]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isUsed := func(metric string) bool {
		_, known := usedMetrics[metric]
		return known
	}
	of := pdatagpu.EachPoint(md, isUsed, func(p *pdatagpu.Point) { counts[c.point(p, now)]++ })
	counts[ignored] += int64(of.Others)
	counts[implausible] += int64(of.Implausible)
	return counts
}

// usedMetrics contains the metrics that the watchdog uses. A value of true means that the watchdog
// uses the container series of the metric. A value of false means that the watchdog uses the device
// series of the metric, and ignores the copies of the device series on the Resources of holders.
var usedMetrics = map[string]bool{
	signal.GPUMemoryHeadroom.Name:         false,
	signal.HwGPUMemoryUsage.Name:          false,
	signal.HwGPUMemoryLimit.Name:          false,
	signal.GPUMemoryAttributionState.Name: false,
	signal.HwEnergy.Name:                  false,

	signal.K8sContainerGPUMemoryUsage.Name:  true,
	signal.K8sContainerGPUMemoryBudget.Name: true,
	signal.ProcessGPUMemoryUsage.Name:       true,
}

// The point method processes a data point of one of the metrics in usedMetrics.
func (c *collection) point(p *pdatagpu.Point, now time.Time) outcome {
	key := decide.Device{Node: p.Place.Node, ID: p.Text(signal.HardwareID)}
	if key.Node == "" || key.ID == "" || usedMetrics[p.Metric] == p.Holder.IsZero() {
		return ignored
	}
	if p.Ended {
		c.deleteSeries(key, p.Holder, p.Metric)
		return noValue
	}
	sampled := time.Unix(0, p.Time).UTC()
	if sampled.Sub(now) > decide.FutureTolerance {
		return future
	}
	if p.Metric == signal.HwEnergy.Name {
		return c.addEnergy(boardOf(key), p.Value, sampled)
	}
	if now.Sub(sampled) > forgetAfter*c.maxAge {
		return old
	}
	d := c.devices[key]
	if p.Metric == signal.ProcessGPUMemoryUsage.Name {
		if d == nil {
			return ignored // processes on unknown devices are ignored
		}
		return d.processes.add(p.Holder.UID, sampled)
	}
	if d == nil {
		if len(c.devices) >= maxDevices {
			return refused
		}
		d = &deviceState{holders: map[gpudata.Holder]*holderState{}}
		c.devices[key] = d
	}
	if !p.Holder.IsZero() {
		return d.addHolderReading(key, p, decide.Reading{Bytes: bytes(p.Value), At: sampled})
	}
	return d.add(p, sampled)
}

func (c *collection) addEnergy(board decide.Device, joules float64, sampled time.Time) outcome {
	e := c.energy[board]
	switch {
	case e == nil && len(c.energy) >= maxDevices:
		return refused
	case e == nil:
		c.energy[board] = &energyCounter{joules: joules, at: sampled, changedAt: sampled}
		return accepted
	case sampled.Before(e.at):
		return old
	case joules != e.joules:
		e.joules, e.changedAt = joules, sampled
	}
	e.at = sampled
	return accepted
}

// The bytes function converts a value to a number of bytes. An invalid value is converted to a
// negative number, which the decide package treats as impossible.
func bytes(v float64) int64 {
	if math.IsNaN(v) || math.Abs(v) >= 1<<62 {
		return -1
	}
	return int64(v)
}

func (d *deviceState) add(p *pdatagpu.Point, at time.Time) outcome {
	f := d.frame(at)
	if f == nil {
		return old
	}
	switch p.Metric {
	case signal.GPUMemoryHeadroom.Name:
		d.watched = true
		f.set(hasHeadroom, &f.Headroom, bytes(p.Value))
	case signal.HwGPUMemoryUsage.Name:
		f.set(hasUsage, &f.Usage, bytes(p.Value))
	case signal.HwGPUMemoryLimit.Name:
		f.set(hasLimit, &f.Limit, bytes(p.Value))
	default:
		d.watched = true
		if bytes(p.Value) != 1 {
			return accepted // the device is not in the attribution state that this point reports on
		}
		f.setState(attribution(p.Own(signal.State)), p.Own(signal.Reason))
	}
	return accepted
}

// The attribution function parses the name of an attribution state. An unknown state is treated as
// invalid, which prevents evictions.
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

func (d *deviceState) addHolderReading(device decide.Device, p *pdatagpu.Point, r decide.Reading) outcome {
	h := d.holders[p.Holder]
	if h == nil {
		if len(d.holders) >= maxHolders {
			return refused
		}
		h = &holderState{}
		d.holders[p.Holder] = h
	}
	reading := &h.usage
	if p.Metric == signal.K8sContainerGPUMemoryBudget.Name {
		reading = &h.budget
		h.sharedBudget, h.source = sharedBudgetOf(device, p), gpushare.BudgetSource(p.Own(signal.BudgetSource))
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

// deleteSeries deletes a container's series that has ended. If the headroom series of a device has
// ended, deleteSeries deletes the device.
func (c *collection) deleteSeries(key decide.Device, container gpudata.Holder, name string) {
	d := c.devices[key]
	if d == nil {
		return
	}
	h := d.holders[container]
	switch {
	case name == signal.GPUMemoryHeadroom.Name:
		delete(c.devices, key)
	case h == nil:
	case name == signal.K8sContainerGPUMemoryUsage.Name:
		h.usage = decide.Reading{}
	case name == signal.K8sContainerGPUMemoryBudget.Name:
		h.budget = decide.Reading{}
	}
}
