// Package misplaced tells from what a component gets that the pipeline before it is wired
// wrongly: a synthesizer that is missing, or a component that stands behind the windows.
package misplaced

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// rawBatches is how many batches of raw metrics without any sample are a proof:
	// `raw: keep` gives both, and a batch may hold a part of them.
	rawBatches = 3
	// soundBatches is how many batches without anything wrong show that nothing is.
	soundBatches = 100
	// patience is the time with samples but without windows after which the component concludes
	// that there are none. They may still come from a gpu_window elsewhere, with passthrough: all.
	patience = 10 * time.Minute
	// sampleBatches is how many batches of samples are enough if the samples are made in this
	// collector and no windows are.
	sampleBatches = 3
)

// Place says where in a pipeline a component belongs.
type Place uint8

const (
	// Anywhere behind the synthesizer is right.
	Anywhere Place = iota
	// BeforeWindows is right for what works on samples.
	BeforeWindows
	// BehindWindows is right for what works on windows.
	BehindWindows
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

// Check looks at the batches of a component until they prove whether it is in the right place. A
// wrong place is logged once, with what to change. It may be used by several goroutines.
type Check struct {
	component string
	place     Place
	logger    *zap.Logger

	decided atomic.Bool
	mu      sync.Mutex
	raw     int       // batches with raw metrics
	sound   int       // batches without anything wrong
	sampled bool      // samples came
	first   time.Time // when the first samples came that windows are made of
}

// New returns the check of a component, which goes by its type's name.
func New(component string, place Place, logger *zap.Logger) *Check {
	return &Check{component: component, place: place, logger: logger}
}

// Batch looks at a batch that came now. It changes nothing, and does nothing once it is
// decided.
func (c *Check) Batch(md pmetric.Metrics, now time.Time) {
	if c.decided.Load() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch seen := look(md); {
	case seen.window != "" && c.place == BeforeWindows:
		c.say("%[1]s gets windows (%[2]s): it stands behind gpu_window, but works on the samples that windows are made of. "+
			"Put %[1]s before gpu_window, or into a pipeline without it.", seen.window)
	case seen.window != "":
		c.decided.Store(true)
	case seen.raw != "" && !seen.samples && !c.sampled:
		if c.raw++; c.raw >= rawBatches {
			c.say("%[1]s gets metrics as an exporter has them (%[2]s) and no samples: gpu_synthesizer is missing, or stands behind %[1]s. "+
				"Put gpu_synthesizer before %[1]s.", seen.raw)
		}
	case seen.samples || md.MetricCount() > 1: // more than the word of an exporter that is down
		c.sampled = c.sampled || seen.samples
		if seen.windowed && c.first.IsZero() {
			c.first = now
		}
		c.soundBatch(now)
	}
}

// soundBatch judges after a batch in which nothing was wrong.
func (c *Check) soundBatch(now time.Time) {
	c.sound++
	switch c.place {
	case Anywhere:
		c.decided.Store(c.sampled || c.sound >= soundBatches)
	case BeforeWindows:
		c.decided.Store(c.sound >= soundBatches)
	case BehindWindows:
		if c.sampled && c.sound >= sampleBatches && made.samples.Load() > 0 && made.windows.Load() == 0 && !c.first.IsZero() {
			c.say("%[1]s receives %[2]s but no windows, and this collector has no gpu_window. Put gpu_window before %[1]s.", "samples")
			return
		}
		if !c.first.IsZero() && now.Sub(c.first) >= patience {
			c.say("%[1]s has had samples for %[2]s and not one window: gpu_window is missing, or stands in another pipeline. "+
				"Put gpu_window before %[1]s.", patience)
		}
	}
}

// say says what is wrong, with which it is decided.
func (c *Check) say(format string, seen any) {
	c.decided.Store(true)
	c.logger.Warn("The pipeline is wired incorrectly: " + fmt.Sprintf(format, c.component, seen))
}

// content is what a batch holds.
type content struct {
	raw      string // a metric as an exporter has it
	window   string // a metric of windows
	samples  bool
	windowed bool // samples that windows are made of
}

// claimed reports whether a metric with a name of the exporter's is the exporter's by the labels
// of its first point.
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
					// Counters pass gpu_window; gauges with windows do not.
					seen.windowed = seen.windowed || len(s.Windows) > 0 && s.Kind == signal.Gauge
				}
			}
		}
	}
	return seen
}
