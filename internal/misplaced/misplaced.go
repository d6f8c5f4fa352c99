// Package misplaced examines the metrics that a component receives, to detect two violations of the
// rules in package pipelinerules: gpu_synthesizer does not run before the component, or the
// component needs samples but runs after gpu_window.
package misplaced

import (
	"sync"
	"sync/atomic"

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
	// If the component has received rawBatches batches with raw metrics but no samples, Check
	// reports that gpu_synthesizer is missing. One batch is not enough: with `raw: keep`, the
	// component receives both raw metrics and samples, and an individual batch may contain only raw
	// metrics.
	rawBatches = 3
	// maxBatches is the number of other batches after which Check assumes that the pipeline is
	// correct.
	maxBatches = 100
)

// Check examines the batches that a component receives until Check knows whether the component's
// position in the pipeline is correct. If the position is wrong, Check logs the problem and the
// solution once. Check is safe for concurrent use.
type Check struct {
	logger *zap.Logger
	// The synthesizer and window fields are rules about the component. A field is nil if its rule
	// does not apply to the component.
	synthesizer *pipelinerules.Order // Rule: gpu_synthesizer must be before the component.
	window      *pipelinerules.Order // Rule: the component must be before gpu_window.

	decided atomic.Bool
	mu      sync.Mutex
	raw     int  // Number of batches with raw metrics.
	others  int  // Number of other batches.
	sampled bool // True if samples were received, or windows, which are computed from samples.
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
		}
	}
	return c
}

// Batch examines a batch but does not modify it. After the result of the check is known, Batch does
// nothing.
func (c *Check) Batch(md pmetric.Metrics) {
	if c.decided.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := contentOf(md)
	c.sampled = c.sampled || seen.samples || seen.window != ""
	switch {
	case seen.window != "" && c.window != nil:
		c.report(c.window.Reversed(), zap.String("received", seen.window))
	case seen.raw != "" && !c.sampled:
		if c.raw++; c.raw >= rawBatches && c.synthesizer != nil {
			c.report(c.synthesizer.Missing(), zap.String("received", seen.raw))
		}
	case c.window == nil && c.sampled:
		c.decided.Store(true)
	case c.sampled || md.MetricCount() > 1: // while an exporter is down, a batch may contain only gpu.exporter.up
		c.others++
		c.decided.Store(c.others >= maxBatches)
	}
}

// report logs the problem and stops checking.
func (c *Check) report(sentence string, received zap.Field) {
	c.decided.Store(true)
	Warn(c.logger, sentence, received)
}

// Warn logs a warning that the components in a pipeline are in the wrong order. The sentence
// parameter is the text of the violated rule.
func Warn(logger *zap.Logger, sentence string, evidence ...zap.Field) {
	logger.Warn("The pipeline is wired incorrectly: "+sentence, evidence...)
}

// content describes which kinds of metrics a batch contains.
type content struct {
	raw     string // Name of a raw metric from an exporter, or "".
	window  string // Name of a metric from gpu_window, or "".
	samples bool
}

// The claimed function reports whether a metric whose name matches an exporter's metric actually
// comes from that exporter. The result depends on the attributes of the metric's first data point
// and of the resource.
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

func contentOf(md pmetric.Metrics) (seen content) {
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
				}
			}
		}
	}
	return seen
}
