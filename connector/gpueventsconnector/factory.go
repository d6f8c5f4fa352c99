package gpueventsconnector

import (
	"context"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector/internal/metadata"
)

// NewFactory returns the factory of the gpu_events connector.
func NewFactory() connector.Factory {
	return connector.NewFactory(metadata.Type, createDefaultConfig,
		connector.WithMetricsToLogs(createMetricsToLogs, metadata.MetricsToLogsStability))
}

func createMetricsToLogs(_ context.Context, set connector.Settings, cfg component.Config, next consumer.Logs) (connector.Metrics, error) {
	return newConnector(set, cfg.(*Config), next)
}
