// Package verify compares the values of NVML, dcgm-exporter, and nvidia-smi for the same GPUs over
// the same time. It also answers questions that only hardware can answer.
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

// Key identifies a number of a device by a metric and the value of its own attribute.
type Key struct{ Device, Metric, Part string }

func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Device, o.Device), strings.Compare(k.Metric, o.Metric), strings.Compare(k.Part, o.Part))
}

// name returns the metric with the value of its own attribute in braces.
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

// Readings are the samples of a source, oldest first.
type Readings map[Key][]Sample

// Device describes a board or a MIG instance.
type Device struct{ Name, Model, Driver string }

// metrics maps names to the metrics in the signal table, except process metrics.
var metrics = func() map[string]*signal.Metric {
	out := map[string]*signal.Metric{}
	for _, m := range signal.All() {
		if !slices.Contains(m.Attributes, signal.ProcessPID) {
			out[m.Name] = m
		}
	}
	return out
}()

// add adds the points of devices and the descriptions of the devices.
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

// Figure summarizes the values of a key from one source over the entire time. Value is the mean of
// a gauge, or the rate per second of a counter. Spread is the maximum of a gauge minus its minimum.
type Figure struct {
	Value, Spread float64
}

// figure summarizes samples. It returns false if there is no sample, if a counter has only one
// sample, or if a counter decreased.
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

// rises reports whether the samples never decrease.
func rises(samples []Sample) bool {
	return slices.IsSortedFunc(samples, func(a, b Sample) int { return cmp.Compare(a.Value, b.Value) })
}

// since splits the samples into the samples before t and the samples at or after t.
func since(samples []Sample, t time.Time) (before, after []Sample) {
	i, _ := slices.BinarySearchFunc(samples, t, func(s Sample, t time.Time) int { return s.At.Compare(t) })
	return samples[:i], samples[i:]
}
