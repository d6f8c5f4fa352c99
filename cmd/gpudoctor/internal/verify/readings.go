// Package verify compares the values that NVML, dcgm-exporter, and nvidia-smi report for the same
// GPUs during the same period. The package also answers questions that only a measurement on real
// hardware can answer.
package verify

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Key identifies a series by its device, its metric, and the value of the metric's own attribute.
type Key struct{ Device, Metric, Part string }

func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Device, o.Device), strings.Compare(k.Metric, o.Metric), strings.Compare(k.Part, o.Part))
}

// name returns the metric's name, followed by the value of the metric's own attribute in braces.
func (k Key) name() string {
	if k.Part == "" {
		return k.Metric
	}
	return k.Metric + "{" + k.Part + "}"
}

// Sample is a value with the time at which it was read.
type Sample struct {
	At    time.Time
	Value float64
}

// Readings maps each key to the samples from one source, oldest first.
type Readings map[Key][]Sample

// Device describes a board or a MIG instance.
type Device struct{ Name, Model, Driver string }

// The metrics variable maps metric names to the metrics in the signal table, except for process
// metrics.
var metrics = func() map[string]*signal.Metric {
	out := map[string]*signal.Metric{}
	for _, m := range signal.All() {
		if !slices.Contains(m.Attributes, signal.ProcessPID) {
			out[m.Name] = m
		}
	}
	return out
}()

// The add method adds each point in md that belongs to a device to the readings, and adds a
// description of the device to the devices map.
func (r Readings) add(md pmetric.Metrics, devices map[string]Device) {
	for p := range points.All(md) {
		m := metrics[p.Metric.Name()]
		id, ok := p.Attributes().Get(signal.HardwareID)
		if m == nil || !ok || p.Flags().NoRecordedValue() {
			continue
		}
		text := func(key string) string { return pdatagpu.Text(p.Attributes(), key) }
		d := devices[id.Str()]
		devices[id.Str()] = Device{
			Name: cmp.Or(d.Name, text(signal.HardwareName)), Model: cmp.Or(d.Model, text(signal.HardwareModel)),
			Driver: cmp.Or(d.Driver, text(signal.HardwareDriverVersion)),
		}
		key := Key{Device: id.Str(), Metric: m.Name}
		if len(m.Attributes) > 0 {
			key.Part = text(m.Attributes[0])
		}
		r[key] = append(r[key], Sample{p.Timestamp().AsTime(), points.Value(p.NumberDataPoint)})
	}
}

// Figure summarizes the values of a key from one source over the entire verification. For a gauge,
// Value is the mean, and Spread is the difference between the maximum and the minimum. For a
// counter, Value is the rate per second.
type Figure struct {
	Value, Spread float64
}

// figure summarizes samples of the metric m. The Boolean result is false if there is no sample, if
// a counter has only one sample, or if a counter decreased.
func figure(m *signal.Metric, samples []Sample) (Figure, bool) {
	if len(samples) == 0 {
		return Figure{}, false
	}
	if m.Kind == signal.Counter {
		first, last := samples[0], samples[len(samples)-1]
		seconds := last.At.Sub(first.At).Seconds()
		if seconds <= 0 || !rises(samples) {
			return Figure{}, false
		}
		return Figure{Value: (last.Value - first.Value) / seconds}, true
	}
	sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for _, s := range samples {
		sum += s.Value
		low, high = min(low, s.Value), max(high, s.Value)
	}
	return Figure{sum / float64(len(samples)), high - low}, true
}

// The rises function reports whether the values of the samples never decrease.
func rises(samples []Sample) bool {
	return slices.IsSortedFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Value, b.Value) })
}

// The since function splits samples into those before t and those at or after t.
func since(samples []Sample, t time.Time) (before, after []Sample) {
	i, _ := slices.BinarySearchFunc(samples, t, func(s Sample, t time.Time) int { return s.At.Compare(t) })
	return samples[:i], samples[i:]
}
