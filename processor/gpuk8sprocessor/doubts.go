package gpuk8sprocessor

import (
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// doubtAge is how long a cause must last before it is logged. Causes that last for a shorter time
// are normal. For example, a pool is incomplete while its driver replaces the slices, and a new
// instance is not in the telemetry at first.
const doubtAge = time.Minute

// doubt is a cause of unknown holders. It is logged once if it lasts for doubtAge.
type doubt struct {
	componenthelper.Trouble
	since time.Time // zero if the cause is absent
}

// lasts records whether the cause is present now. It reports whether to log the cause.
func (d *doubt) lasts(now time.Time, present bool) bool {
	switch {
	case !present:
		d.since = time.Time{}
		return false
	case d.since.IsZero():
		d.since = now
	}
	return now.Sub(d.since) >= doubtAge && d.ShouldLog(now)
}

// doubts are the causes of unknown holders: allocated devices that match no device in the
// telemetry, by reason, and devices with conflicting allocations.
type doubts struct {
	unmatched [attribution.NumReasons]doubt
	conflict  doubt
}

// log logs the causes in the newest state. It skips two causes: unknown IDs are logged elsewhere,
// by resource, and a device that is not scraped has no series that need a holder.
func (d *doubts) log(logger *zap.Logger, now time.Time, stats *attribution.Stats) {
	for reason := attribution.UnknownMIG; reason < attribution.NotScraped; reason++ {
		if n := stats.Unattributed[reason]; d.unmatched[reason].lasts(now, n > 0) {
			logger.Warn("Allocated devices match no device in the telemetry. As long as a device could be one of them, its holders are unknown",
				zap.String("reason", reason.String()), zap.String("device", stats.Unmatched[reason]), zap.Int("devices", n))
		}
	}
	if d.conflict.lasts(now, stats.Conflicts > 0) {
		logger.Warn("Devices are allocated exclusively to several pods or claims. If claims cannot be read, set claims: true. "+
			"If a shared resource has a name that looks exclusive, check resource_names",
			zap.String("hw.id", stats.Conflicting), zap.Int("devices", stats.Conflicts))
	}
}
