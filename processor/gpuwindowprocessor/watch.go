package gpuwindowprocessor

import (
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// proof is how many windows, or looks, in a row must show a wrong time: one may follow an
// outage.
const proof = 3

// watch says once what is lost, and what the samples prove to be wrong with the pipeline.
// The emission loop uses it, except for order and deltas, which are for batches.
type watch struct {
	logger *zap.Logger
	cfg    *Config
	order  *misplaced.Check
	deltas sync.Once

	before      window.Stats // as of the last look
	series      base.Limit
	lost, steps base.Trouble
	late        base.Trouble
	unkept      base.Trouble
	future      silence
	timed       bool // the times between samples are judged
}

func newWatch(cfg *Config, id component.ID, logger *zap.Logger) watch {
	return watch{
		logger: logger, cfg: cfg,
		order:  misplaced.New("gpu_window", misplaced.Anywhere, logger),
		series: base.Limit{Component: id.String(), Setting: "max_series", Value: cfg.MaxSeries, What: "series"},
	}
}

// differences logs once that a metric has delta temporality, if there is such a metric.
func (w *watch) differences(metric string) {
	if metric == "" {
		return
	}
	w.deltas.Do(func() {
		w.logger.Warn("gpu_window receives sums with delta temporality and computes no windows from them, because it reads cumulative counters. "+
			"Put cumulative_to_delta after gpu_window.", zap.String("metric", metric))
	})
}

// silence is that all samples which come are dropped for one reason.
type silence struct {
	base.Trouble
	looks int // in a row
}

// lasts takes note of what came since the last look, and reports whether to say that
// nothing is taken any more.
func (s *silence) lasts(now time.Time, dropped, accepted uint64) bool {
	switch {
	case accepted > 0:
		s.looks = 0
	case dropped > 0:
		s.looks++
		return s.looks >= proof && s.Returns(now)
	}
	return false
}

// look says what the engine's counts show.
func (w *watch) look(s window.Stats, now time.Time) {
	var since [window.Outcomes]uint64
	for o := range since {
		since[o] = s.Samples[o] - w.before.Samples[o]
	}
	w.series.Refused(w.logger, now, int64(since[window.Refused]))
	if since[window.Late] > 0 && w.late.Returns(now) {
		w.logger.Warn("Samples came after their window had closed; they are dropped and counted. If they keep coming, raise grace above their "+
			"delay, compare the clocks of those who sample with this one, or take away what delays them: a batch or a queue before gpu_window, "+
			"or a federation whose timestamps are old (honor_timestamps: false in the prometheus receiver takes the time of the scrape).",
			zap.Duration("grace", w.cfg.Grace))
	}
	if s.Unkept > w.before.Unkept && w.unkept.Returns(now) {
		w.logger.Warn("A series has more samples in one window than a quantile can keep, so that window has no quantile. Use a shorter window, or scrape less often.",
			zap.Int("limit", window.MaxQuantileSamples))
	}
	if w.future.lasts(now, since[window.Future], since[window.Accepted]) {
		w.logger.Warn("All samples lie more than a window in the future, and are dropped. Compare the clocks of those who sample with this one.",
			zap.Duration("window", w.cfg.Window))
	}
	if n := s.WindowsDropped - w.before.WindowsDropped; n > 0 && s.ClockSteps == w.before.ClockSteps && w.lost.Returns(now) {
		w.logger.Warn("Windows are dropped because the next consumer takes too long.", zap.Uint64("windows", n))
	}
	if s.ClockSteps > w.before.ClockSteps && w.steps.Returns(now) {
		w.logger.Warn("The clock was set back by more than max_gap. Open windows are dropped.", zap.Duration("max_gap", w.cfg.MaxGap))
	}
	w.before = s
	w.times(&s)
}

// times judges by the shortest time between two samples of any device.
func (w *watch) times(s *window.Stats) {
	switch {
	case w.timed || s.WindowsPaired == 0:
		return
	case s.ShortestPair <= min(w.cfg.MaxGap, w.cfg.Window):
		w.timed = true
		return
	case s.WindowsPaired < proof:
		return
	}
	w.timed = true
	shortest := zap.Duration("shortest", s.ShortestPair)
	if s.ShortestPair > w.cfg.Window {
		w.logger.Warn("No device is sampled more than once in a window, so that windows are missing in between. Scrape twice in a window "+
			"at least, or make window longer.", shortest, zap.Duration("window", w.cfg.Window))
	}
	if s.ShortestPair > w.cfg.MaxGap {
		w.logger.Warn("All samples of a device are further apart than max_gap, so that nothing counts as observed: gpu.window.coverage is 0. "+
			"Set max_gap above two intervals of scraping, or scrape more often.", shortest, zap.Duration("max_gap", w.cfg.MaxGap))
	}
}
