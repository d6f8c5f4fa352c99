package gpuforwardconnector

import (
	"context"
	"errors"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/connector"
	"go.opentelemetry.io/collector/consumer"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpuforwardconnector/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
)

// Config has no settings.
type Config struct {
	// prevent unkeyed literal initialization
	_ struct{}
}

// NewFactory returns the factory of the gpu_forward connector.
func NewFactory() connector.Factory {
	return connector.NewFactory(metadata.Type, func() component.Config { return &Config{} },
		connector.WithMetricsToMetrics(createMetricsToMetrics, metadata.MetricsToMetricsStability))
}

func createMetricsToMetrics(_ context.Context, set connector.Settings, _ component.Config, next consumer.Metrics) (connector.Metrics, error) {
	router, ok := next.(connector.MetricsRouterAndConsumer)
	if !ok {
		return nil, errors.New("the next consumer does not tell its pipelines")
	}
	pipelines := map[string]consumer.Metrics{}
	for _, id := range router.PipelineIDs() {
		to, err := router.Consumer(id)
		if err != nil {
			return nil, err
		}
		pipelines[id.String()] = to
	}
	return pdatagpu.NewForward(set.ID, set.Logger, next, pipelines), nil
}
