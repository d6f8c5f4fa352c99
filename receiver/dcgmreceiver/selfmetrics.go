package dcgmreceiver

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadata"
)

// These are the values of the origin attribute of the receiver_dcgm_endpoints metric.
var (
	originConfigured = metric.WithAttributeSet(attribute.NewSet(attribute.String("origin", "configured")))
	originPod        = metric.WithAttributeSet(attribute.NewSet(attribute.String("origin", "pod")))
	originFallback   = metric.WithAttributeSet(attribute.NewSet(attribute.String("origin", "fallback")))
)

// selfMetrics records the results of scrapes. The attribute sets are created only once.
type selfMetrics struct {
	telemetry *metadata.TelemetryBuilder
	outcomes  map[outcome]metric.AddOption
	reasons   [exposition.NumReasons]metric.AddOption
}

func newSelfMetrics(telemetry *metadata.TelemetryBuilder) selfMetrics {
	m := selfMetrics{telemetry: telemetry, outcomes: map[outcome]metric.AddOption{}}
	for _, o := range outcomes {
		m.outcomes[o] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(o))))
	}
	for r := range exposition.NumReasons {
		m.reasons[r] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", r.String())))
	}
	return m
}

// The skipped method counts n scrapes that were skipped for the given reason.
func (m *selfMetrics) skipped(ctx context.Context, reason outcome, n int64) {
	m.telemetry.ReceiverDcgmScrapes.Add(ctx, n, m.outcomes[reason])
}

// scraped records a scrape.
func (m *selfMetrics) scraped(ctx context.Context, o outcome, a *attempt) {
	m.telemetry.ReceiverDcgmScrapes.Add(ctx, 1, m.outcomes[o])
	m.telemetry.ReceiverDcgmScrapeDuration.Record(ctx, a.duration.Seconds())
	if a.scrape != nil {
		m.telemetry.ReceiverDcgmSamples.Add(ctx, int64(a.scrape.Samples))
	}
	for reason, n := range a.skipped {
		if n > 0 {
			m.telemetry.ReceiverDcgmSkippedLines.Add(ctx, int64(n), m.reasons[reason])
		}
	}
}
