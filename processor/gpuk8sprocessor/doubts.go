package gpuk8sprocessor

import (
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// doubtAge is how long a cause of unknown holders must last before the cause is logged. Shorter
// interruptions are normal. For example, a pool is incomplete while its driver replaces the slices,
// and a new instance does not appear in the telemetry immediately.
const doubtAge = time.Minute

// doubt is a cause of unknown holders. A cause that lasts for doubtAge is logged once.
type doubt struct {
	componenthelper.Trouble
	since time.Time // The since field is zero while the cause is absent.
}

// The lasts method records whether the cause is currently present, and returns true if the cause
// must be logged.
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

// doubts contains the causes of unknown holders. There is one cause for each reason why allocated
// devices match no device in the telemetry, and one cause for devices with conflicting allocations.
type doubts struct {
	unmatched [attribution.NumReasons]doubt
	conflict  doubt
}

// log logs the causes of unknown holders that have lasted for doubtAge. Two causes are not logged
// here: unknown IDs, because logUnknownIDs logs the unknown IDs that the kubelet lists, and devices
// that are not scraped, because devices that are not scraped have no series.
func (d *doubts) log(logger *zap.Logger, now time.Time, stats *attribution.Stats) {
	for reason := attribution.UnknownID + 1; reason < attribution.NotScraped; reason++ {
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
