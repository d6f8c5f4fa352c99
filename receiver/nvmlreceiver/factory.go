package nvmlreceiver

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/receiver"

	"github.com/otelcol-gpu/otelcol-gpu/internal/receiverstages"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
)

// NewFactory returns the factory of the nvml receiver. In a build without the NVML binding, the
// receiver can be configured, but fails to start.
func NewFactory() receiver.Factory {
	return receiver.NewFactory(
		metadata.Type,
		createDefaultConfig,
		receiver.WithMetrics(createMetrics, metadata.MetricsStability),
		receiver.WithLogs(createLogs, metadata.LogsStability),
	)
}

// The sharing variable contains the receivers that are in use. A metrics pipeline and a logs
// pipeline may share a receiver.
var sharing receiverstages.Sharing[*nvmlReceiver]

func createMetrics(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Metrics) (receiver.Metrics, error) {
	return sharing.Get(cfg, receiverstages.Outputs{Metrics: next}, func() (*nvmlReceiver, error) {
		return newReceiver(set, cfg.(*Config), nil)
	})
}

func createLogs(_ context.Context, set receiver.Settings, cfg component.Config, next consumer.Logs) (receiver.Logs, error) {
	return sharing.Get(cfg, receiverstages.Outputs{Logs: next}, func() (*nvmlReceiver, error) {
		return newReceiver(set, cfg.(*Config), nil)
	})
}
