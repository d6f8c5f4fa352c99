package gpuwindowprocessor

import (
	"time"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/misplaced"
	"github.com/otelcol-gpu/otelcol-gpu/internal/pipelinerules"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// minEvidence is the number of windows or consecutive checks that must show a problem with
// timestamps before the problem is logged. A problem in a single window or check may be the result
// of an outage.
const minEvidence = 3

// healthCheck logs warnings about lost data and about problems in the pipeline. Each problem is
// logged once per episode. Only the emission loop may use a healthCheck, except for the deltas
// field.
type healthCheck struct {
	logger *zap.Logger
	cfg    *Config
	deltas componenthelper.Trouble

	previous                     window.Stats // counts at the last check
	series                       componenthelper.Limit
	droppedTrouble, stepsTrouble componenthelper.Trouble
	lateTrouble                  componenthelper.Trouble
	unkeptTrouble, timesTrouble  componenthelper.Trouble
	future                       droppedStreak
	timesChecked                 bool // whether the times between samples have been checked
}

func newWatch(cfg *Config, id component.ID, logger *zap.Logger) healthCheck {
	return healthCheck{
		logger: logger, cfg: cfg,
		series: componenthelper.Limit{Component: id.String(), Setting: "max_series", Value: cfg.MaxSeries, What: "series"},
	}
}

// logDelta logs a warning that the metric has delta temporality. If the name of the metric is "",
// logDelta does nothing.
func (w *healthCheck) logDelta(metric string, now time.Time) {
	if metric == "" || !w.deltas.ShouldLog(now) {
		return
	}
	misplaced.Warn(w.logger, "gpu_window receives sums with delta temporality and computes no windows from them. Usually, "+
		pipelinerules.Find("gpu_window", "cumulative_to_delta").Reversed(), zap.String("received", metric))
}

// droppedStreak counts consecutive checks in which all samples were dropped for the same reason.
type droppedStreak struct {
	componenthelper.Trouble
	length int // in checks
}

// shouldLog updates the streak with the samples since the last check. The result reports whether
// the caller should log a warning that no samples are accepted.
func (s *droppedStreak) shouldLog(now time.Time, dropped, accepted uint64) bool {
	switch {
	case accepted > 0:
		s.length = 0
	case dropped > 0:
		s.length++
		return s.length >= minEvidence && s.ShouldLog(now)
	}
	return false
}

// logProblems logs warnings about problems that are visible in the engine's counts.
func (w *healthCheck) logProblems(s window.Stats, now time.Time) {
	var increase [window.Outcomes]uint64
	for o := range increase {
		increase[o] = s.Samples[o] - w.previous.Samples[o]
	}
	timesRefused := s.TimesRefused - w.previous.TimesRefused
	w.series.Refused(w.logger, now, int64(increase[window.Refused]-timesRefused))
	if timesRefused > 0 && w.timesTrouble.ShouldLog(now) {
		w.logger.Warn("A device has more sample times in one window than gpu_window can store. Samples with additional times are dropped and counted. "+
			"Use a shorter window, or scrape less often.", zap.Int("limit", window.MaxSampleTimes))
	}
	if increase[window.Late] > 0 && w.lateTrouble.ShouldLog(now) {
		w.logger.Warn("Samples arrived after their window had closed. They are dropped and counted. If this continues, raise grace above their "+
			"delay, compare the clocks of the sources with this collector's clock, or remove the cause of the delay: a batch or a queue before gpu_window, "+
			"or a federation with old timestamps (honor_timestamps: false in the prometheus receiver uses the time of the scrape).",
			zap.Duration("grace", w.cfg.Grace))
	}
	if s.Unkept > w.previous.Unkept && w.unkeptTrouble.ShouldLog(now) {
		w.logger.Warn("A series has more samples in one window than a quantile can store, so the window has no quantile. Use a shorter window, or scrape less often.",
			zap.Int("limit", window.MaxQuantileSamples))
	}
	if w.future.shouldLog(now, increase[window.Future], increase[window.Accepted]) {
		w.logger.Warn("All samples are more than one window in the future. They are dropped. Compare the clocks of the sources with this collector's clock.",
			zap.Duration("window", w.cfg.Window))
	}
	if n := s.WindowsDropped - w.previous.WindowsDropped; n > 0 && s.ClockSteps == w.previous.ClockSteps && w.droppedTrouble.ShouldLog(now) {
		w.logger.Warn("Windows are dropped because the next consumer takes too long.", zap.Uint64("windows", n))
	}
	if s.ClockSteps > w.previous.ClockSteps && w.stepsTrouble.ShouldLog(now) {
		w.logger.Warn("The clock was set back by more than max_gap. Open windows are dropped.", zap.Duration("max_gap", w.cfg.MaxGap))
	}
	w.previous = s
	w.checkSampleTimes(&s)
}

// checkSampleTimes checks the shortest time between two samples of any device. If samples are too
// infrequent for the settings, checkSampleTimes logs a warning.
func (w *healthCheck) checkSampleTimes(s *window.Stats) {
	switch {
	case w.timesChecked || s.WindowsPaired == 0:
		return
	case s.ShortestPair <= min(w.cfg.MaxGap, w.cfg.Window):
		w.timesChecked = true
		return
	case s.WindowsPaired < minEvidence:
		return
	}
	w.timesChecked = true
	for _, limit := range []struct {
		setting string
		value   time.Duration
	}{{"window", w.cfg.Window}, {"max_gap", w.cfg.MaxGap}} {
		if r := pipelinerules.FindInterval("gpu_window", limit.setting); !r.Allows(limit.value, s.ShortestPair) {
			w.logger.Warn("Samples come too rarely: "+r.Sentence(limit.value, "no device is sampled more often than", s.ShortestPair),
				zap.Duration("shortest", s.ShortestPair), zap.Duration(limit.setting, limit.value))
		}
	}
}
