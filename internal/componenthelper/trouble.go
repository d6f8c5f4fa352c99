package componenthelper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// LogAgainAfter is how long a problem must be absent before it is logged again. LogAgainAfter is
// longer than the time between two scrapes, so that a problem that occurs in every scrape is logged
// only once.
const LogAgainAfter = 10 * time.Minute

// Trouble is a problem that may occur in every batch. The zero value is ready for use. Trouble is
// safe for concurrent use.
type Trouble struct {
	mu   sync.Mutex
	last time.Time // when the problem last occurred; zero if it never occurred
}

// ShouldLog records that the problem has just occurred, and reports whether to log it. ShouldLog
// returns true when the problem occurs for the first time, and when it occurs again after it was
// absent for [LogAgainAfter].
func (t *Trouble) ShouldLog(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := t.lasts(now)
	t.last = now
	return !recent
}

// The lasts method reports whether the problem occurred recently. The caller must hold the lock.
func (t *Trouble) lasts(now time.Time) bool { return now.Sub(t.last) < LogAgainAfter }

// Limit is the maximum number of items that a component keeps. When the limit is reached, the
// component refuses new items.
type Limit struct {
	Trouble
	// Component is the ID of the component.
	Component string
	// Setting is the name of the setting that defines the limit, and Value is the setting's value.
	Setting string
	Value   int
	// The What field is the plural noun for the refused items, such as "series".
	What string
}

// Refused logs that n items were refused, unless items were also refused within the preceding
// [LogAgainAfter]. If n is 0, Refused does nothing.
func (l *Limit) Refused(logger *zap.Logger, now time.Time, n int64) {
	if n == 0 {
		return
	}
	reached.Lock()
	reached.limits[l] = struct{}{}
	reached.Unlock()
	if !l.ShouldLog(now) {
		return
	}
	logger.Warn(fmt.Sprintf("%s of %d is reached: new %s are refused and missing from the output. Raise %s where the fleet grew; look for a label that changes all the time where it did not.",
		l.Setting, l.Value, l.What, l.Setting), zap.Int64("refused", n))
}

// Series counts the time series that a component keeps for all nodes together, up to a limit.
// Series is safe for concurrent use.
type Series struct {
	Limit

	kept    *stage.Limit
	refused atomic.Int64 // number of series refused since the last call to Report
}

// NewSeries returns a Series whose counts are zero. The parameters become the fields of the
// embedded Limit.
func NewSeries(component, setting string, value int, what string) *Series {
	return &Series{Limit: Limit{Component: component, Setting: setting, Value: value, What: what}, kept: stage.NewLimit(value)}
}

// Admit reports whether the component may keep n more series. Admit counts all n series either as
// kept or as refused.
func (s *Series) Admit(n int) bool {
	fits := s.kept.TakeAll(n)
	if !fits {
		s.Refuse(n)
	}
	return fits
}

// Free records that the component no longer keeps n series.
func (s *Series) Free(n int) { s.kept.Free(n) }

// Refuse records that the component refused n series.
func (s *Series) Refuse(n int) { s.refused.Add(int64(n)) }

// Report records the number of kept series and the number of series that were refused since the
// last call to Report.
func (s *Series) Report(ctx context.Context, logger *zap.Logger, now time.Time, kept metric.Int64Gauge, refused metric.Int64Counter) {
	n := s.refused.Swap(0)
	s.Refused(logger, now, n)
	kept.Record(ctx, int64(s.kept.Used()))
	if n > 0 {
		refused.Add(ctx, n)
	}
}

// Failure logs the failures of a repeated operation: one line when the operation starts to fail and
// one line when it succeeds again. If Fails is empty, Failure logs nothing. Failure is not safe for
// concurrent use.
type Failure struct {
	Logger *zap.Logger
	// Fails is the log line for the first failure, and Works is the log line for the first success
	// after a failure. Fails is logged as a warning unless Level is higher.
	Fails, Works string
	Level        zapcore.Level

	failing bool
}

// Result records the result of an attempt. A nil error means that the attempt succeeded. If the
// error is not nil, the log line contains the given fields.
func (f *Failure) Result(err error, fields ...zap.Field) {
	failing := err != nil
	if failing == f.failing {
		return
	}
	f.failing = failing
	switch {
	case f.Fails == "":
	case failing:
		f.Logger.Log(max(f.Level, zap.WarnLevel), f.Fails, append(fields, zap.Error(err))...)
	default:
		f.Logger.Info(f.Works)
	}
}

// reached contains the limits in this process that have refused items.
var reached = struct {
	sync.Mutex
	limits map[*Limit]struct{}
}{limits: map[*Limit]struct{}{}}

// Forget removes the limit from the result of [Reached]. Components call Forget when they shut
// down.
func (l *Limit) Forget() {
	reached.Lock()
	defer reached.Unlock()
	delete(reached.limits, l)
}

// Reached returns the limits in this process that have refused items within [LogAgainAfter], sorted
// by component and setting. If a component is in several pipelines, each of its limits is returned
// only once.
func Reached(now time.Time) []*Limit {
	reached.Lock()
	defer reached.Unlock()
	var out []*Limit
	for l := range reached.limits {
		l.mu.Lock()
		if l.lasts(now) {
			out = append(out, l)
		}
		l.mu.Unlock()
	}
	slices.SortFunc(out, compare)
	return slices.CompactFunc(out, func(a, b *Limit) bool { return compare(a, b) == 0 })
}

func compare(a, b *Limit) int {
	return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Setting, b.Setting))
}
