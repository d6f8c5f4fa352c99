// Package misplaced tells from what a component gets that the pipeline before it is wired
// wrongly: a synthesizer that is missing, or a component that stands behind the windows.
package misplaced

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

const (
	// rawBatches is how many batches of raw metrics without any sample are a proof:
	// `raw: keep` gives both, and a batch may hold a part of them.
	rawBatches = 3
	// soundBatches is how many batches with samples and without windows show that no
	// window stands before the component.
	soundBatches = 100
	// patience is how long samples come without any window until it is taken that none will.
	patience = 10 * time.Minute
)

// Place is what a component wants to stand behind.
type Place uint8

const (
	// Anywhere behind the synthesizer is right.
	Anywhere Place = iota
	// BeforeWindows is right for what works on samples.
	BeforeWindows
	// BehindWindows is right for what works on windows.
	BehindWindows
)

// Check looks at the batches of a component until they prove that it stands where it
// should, or where it should not: that it says once, naming what to change. It may be used
// by several goroutines.
type Check struct {
	component string
	place     Place
	logger    *zap.Logger

	decided atomic.Bool
	mu      sync.Mutex
	raw     int       // batches with raw metrics
	sound   int       // batches with samples
	first   time.Time // when the first samples came
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
	switch raw, samples, window := look(md); {
	case window != "" && c.place == BeforeWindows:
		c.say("%[1]s gets windows (%[2]s): it stands behind gpu_window, but works on the samples that windows are made of. Put %[1]s before gpu_window, or into a pipeline without it.", window)
	case window != "":
		c.decided.Store(true)
	case samples:
		if c.sound == 0 {
			c.first = now
		}
		c.sound++
		c.soundBatch(now)
	case raw != "" && c.sound == 0:
		if c.raw++; c.raw >= rawBatches {
			c.say("%[1]s gets metrics as an exporter has them (%[2]s) and no samples: gpu_synthesizer is missing, or stands behind %[1]s. Put gpu_synthesizer before %[1]s.", raw)
		}
	}
}

// soundBatch judges after a batch of samples.
func (c *Check) soundBatch(now time.Time) {
	switch c.place {
	case Anywhere:
		c.decided.Store(true)
	case BeforeWindows:
		if c.sound >= soundBatches {
			c.decided.Store(true)
		}
	case BehindWindows:
		if now.Sub(c.first) >= patience {
			c.say("%[1]s has had samples for %[2]s and not one window: gpu_window is missing, or stands behind another branch. Put gpu_window before %[1]s.", patience)
		}
	}
}

// say says what is wrong, with which it is decided.
func (c *Check) say(format string, seen any) {
	c.decided.Store(true)
	c.logger.Warn("The pipeline is wired wrongly: " + fmt.Sprintf(format, c.component, seen))
}

// look says what a batch holds: the name of a metric as an exporter has it, samples that
// windows are made of, and the name of a metric of windows.
func look(md pmetric.Metrics) (raw string, samples bool, window string) {
	for _, rm := range md.ResourceMetrics().All() {
		for _, sm := range rm.ScopeMetrics().All() {
			for _, m := range sm.Metrics().All() {
				name := m.Name()
				if s, ok := signal.Lookup(name); ok {
					if s.Stage == signal.StageWindow {
						return raw, samples, name
					}
					samples = samples || windowed[s]
				} else if raw == "" && dcgm.Owns(name) {
					raw = name
				}
			}
		}
	}
	return raw, samples, ""
}

// windowed are metrics of samples that windows are made of, so that behind gpu_window none
// is left. Each device has one of them at least.
var windowed = map[*signal.Metric]bool{
	signal.HwGPUMemoryUtilization: true, signal.HwGPUUtilization: true, signal.GPUClockEventActive: true,
	signal.GPUSMActive: true, signal.GPUDRAMActive: true,
}
