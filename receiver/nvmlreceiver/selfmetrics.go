package nvmlreceiver

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/cgroup"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/collect"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
)

// selfMetrics records the self-metrics of collections. The attribute sets are created only once.
type selfMetrics struct {
	telemetry *metadata.TelemetryBuilder
	outcomes  map[outcome]metric.AddOption
	owners    [cgroup.NumKinds]metric.RecordOption
}

func newSelfMetrics(telemetry *metadata.TelemetryBuilder) selfMetrics {
	m := selfMetrics{telemetry: telemetry, outcomes: map[outcome]metric.AddOption{}}
	for _, o := range outcomes {
		m.outcomes[o] = componenthelper.With("outcome", o.name)
	}
	for k := range cgroup.NumKinds {
		m.owners[k] = componenthelper.With("owner", k.String())
	}
	return m
}

// collected records a collection.
func (m *selfMetrics) collected(ctx context.Context, o outcome, took time.Duration, stats collect.Stats) {
	m.telemetry.ReceiverNvmlCollections.Add(ctx, 1, m.outcomes[o])
	if o.waits {
		return
	}
	m.telemetry.ReceiverNvmlCollectionDuration.Record(ctx, took.Seconds())
	m.telemetry.ReceiverNvmlCallsFailed.Add(ctx, stats.CallsFailed)
	m.telemetry.ReceiverNvmlInstancesSkipped.Add(ctx, stats.InstancesSkipped)
	m.telemetry.ReceiverNvmlValuesDropped.Add(ctx, stats.ValuesDropped)
	m.telemetry.ReceiverNvmlRatiosClamped.Add(ctx, stats.RatiosClamped)
}

// The processes method records the number of processes for each kind of owner.
func (m *selfMetrics) processes(ctx context.Context, owners [cgroup.NumKinds]int64) {
	for k, n := range owners {
		m.telemetry.ReceiverNvmlProcesses.Record(ctx, n, m.owners[k])
	}
}
