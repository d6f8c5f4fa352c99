// Package misplaced detects from the metrics that a component receives that its pipeline violates a rule
// of package pipelinerules: gpu_synthesizer or gpu_window is missing before the component, or the
// component is after gpu_window but needs samples.
package misplaced

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// rawBatches is the number of batches with raw metrics and without any sample that proves a
	// missing synthesizer. One is not enough: with `raw: keep` there are both, and a batch may have
	// only a part.
	rawBatches = 3
	// soundBatches is the number of correct batches after which the pipeline counts as correct.
	soundBatches = 100
	// patience is the time with samples but without windows after which the component concludes
	// that there are none. Before that, they may still arrive from a gpu_window in another
	// collector, with passthrough: all.
	patience = 10 * time.Minute
	// sampleBatches replaces patience if this collector makes samples but no windows.
	sampleBatches = 3
)

// made counts the components of this process that make samples and windows.
var made struct{ samples, windows atomic.Int32 }

// MakesSamples registers a running component that makes samples, until end is called.
func MakesSamples() (end func()) { return running(&made.samples) }

// MakesWindows registers a running component that makes windows, until end is called.
func MakesWindows() (end func()) { return running(&made.windows) }

func running(n *atomic.Int32) (end func()) {
	n.Add(1)
	return sync.OnceFunc(func() { n.Add(-1) })
}

// Check examines the batches of a component until they prove whether it is in the right place. A
// wrong place is logged once, with the change that corrects it. It is safe for concurrent use.
type Check struct {
	logger *zap.Logger
	// The rules about the component. A nil rule does not exist.
	synthesizer *pipelinerules.Order // gpu_synthesizer before the component
	window      *pipelinerules.Order // the component before gpu_window
	windows     *pipelinerules.Order // gpu_window before the component, which needs windows

	decided atomic.Bool
	mu      sync.Mutex
	raw     int       // batches with raw metrics
	sound   int       // correct batches
	sampled bool      // samples were received
	first   time.Time // when samples with windows were first received
}

// New returns a Check for a component of the given type.
func New(component string, logger *zap.Logger) *Check {
	c := &Check{logger: logger}
	for i := range pipelinerules.Orders {
		switch o := &pipelinerules.Orders[i]; {
		case o.First == "gpu_synthesizer" && o.Second == component:
			c.synthesizer = o
		case o.First == component && o.Second == "gpu_window":
			c.window = o
		case o.First == "gpu_window" && o.Second == component:
			c.windows = o
		}
	}
	return c
}

// Batch examines a batch that arrived at now. It does not modify the batch, and does nothing once
// the result is known.
func (c *Check) Batch(md pmetric.Metrics, now time.Time) {
	if c.decided.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch seen := look(md); {
	case seen.window != "" && c.window != nil:
		c.say(c.window.Reversed(), zap.String("received", seen.window))
	case seen.window != "":
		c.decided.Store(true)
	case seen.raw != "" && !seen.samples && !c.sampled:
		if c.raw++; c.raw >= rawBatches && c.synthesizer != nil {
			c.say(c.synthesizer.Missing(), zap.String("received", seen.raw))
		}
	case seen.samples || md.MetricCount() > 1: // more than gpu.exporter.up of an exporter that is down
		c.sampled = c.sampled || seen.samples
		if seen.windowed && c.first.IsZero() {
			c.first = now
		}
		c.soundBatch(now)
	}
}

// soundBatch decides after a correct batch.
func (c *Check) soundBatch(now time.Time) {
	c.sound++
	switch {
	case c.windows != nil:
		madeHere := made.samples.Load() > 0 && made.windows.Load() == 0
		if !c.first.IsZero() && (now.Sub(c.first) >= patience || madeHere && c.sampled && c.sound >= sampleBatches) {
			c.say(c.windows.Missing(), zap.String("received", "samples"))
		}
	case c.window != nil:
		c.decided.Store(c.sound >= soundBatches)
	default:
		c.decided.Store(c.sampled || c.sound >= soundBatches)
	}
}

// say logs the problem and stops checking.
func (c *Check) say(sentence string, received zap.Field) {
	c.decided.Store(true)
	Warn(c.logger, sentence, received)
}

// Warn logs that a pipeline is wired incorrectly. The sentence is the text of a rule.
func Warn(logger *zap.Logger, sentence string, evidence ...zap.Field) {
	logger.Warn("The pipeline is wired incorrectly: "+sentence, evidence...)
}

// content describes which kinds of metrics a batch contains.
type content struct {
	raw      string // a raw metric of an exporter
	window   string // a metric of gpu_window
	samples  bool
	windowed bool // samples from which gpu_window computes windows
}

// claimed reports whether a metric with an exporter's name is from this exporter, by the labels of
// its first point.
func claimed(of *catalogue.Exporter, spelling catalogue.Spelling, resource pcommon.Resource, m pmetric.Metric) bool {
	if of.Claims == nil {
		return true
	}
	dps := points.Of(m)
	if dps.Len() == 0 {
		return false
	}
	row := catalogue.NewRow(of)
	for _, attrs := range []pcommon.Map{dps.At(0).Attributes(), resource.Attributes()} {
		for k, v := range attrs.All() {
			row.Set(k, v.AsString())
		}
	}
	return of.Takes(spelling, row)
}

func look(md pmetric.Metrics) (seen content) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				name := m.Name()
				s, ours := signal.Lookup(name)
				switch {
				case !ours && seen.raw == "":
					if spelling, of := exporters.Lookup(name); of != nil && claimed(of, spelling, rm.Resource(), m) {
						seen.raw = name
					}
				case ours && s.Stage == signal.StageWindow:
					seen.window = name
					return seen
				case ours && s.Stage == signal.StageSample && s != signal.GPUExporterUp:
					seen.samples = true
					// Counters pass through gpu_window; gauges with windows do not.
					seen.windowed = seen.windowed || len(s.Windows) > 0 && s.Kind == signal.Gauge
				}
			}
		}
	}
	return seen
}
