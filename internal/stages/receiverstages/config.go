// Package receiverstages runs stages inside a receiver: gpu_synthesizer, which is always the first,
// then the stages of [stages.Config], and gpu_events, whose records leave through the receiver's
// logs pipelines.
package receiverstages

import (
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// Config is the section stages of a receiver.
type Config struct {
	// Synthesizer has the settings of gpu_synthesizer, which runs without its section too.
	Synthesizer configoptional.Optional[gpusynthesizerprocessor.Config] `mapstructure:"gpu_synthesizer"`

	// These are the sections of [stages.Config]. They are not embedded, so that an error names them as
	// users write them.
	K8s    configoptional.Optional[gpuk8sprocessor.Config]    `mapstructure:"gpu_k8s"`
	Power  configoptional.Optional[gpupowerprocessor.Config]  `mapstructure:"gpu_power"`
	Budget configoptional.Optional[gpubudgetprocessor.Config] `mapstructure:"gpu_budget"`
	Usage  configoptional.Optional[gpuusageprocessor.Config]  `mapstructure:"gpu_usage"`
	Window configoptional.Optional[gpuwindowprocessor.Config] `mapstructure:"gpu_window"`

	// Events makes log records. The receiver must then be in a logs pipeline.
	Events configoptional.Optional[gpueventsconnector.Config] `mapstructure:"gpu_events"`
}

// following returns the stages that follow gpu_synthesizer.
func (c *Config) following() *stages.Config {
	return &stages.Config{K8s: c.K8s, Power: c.Power, Budget: c.Budget, Usage: c.Usage, Window: c.Window}
}

// NewDefaultConfig returns a section without stages.
func NewDefaultConfig() Config {
	of := stages.NewDefaultConfig()
	return Config{
		Synthesizer: stages.DefaultOf[gpusynthesizerprocessor.Config](gpusynthesizerprocessor.NewFactory()),
		K8s:         of.K8s, Power: of.Power, Budget: of.Budget, Usage: of.Usage, Window: of.Window,
		Events: stages.DefaultOf[gpueventsconnector.Config](gpueventsconnector.NewFactory()),
	}
}

var _ confmap.Validator = (*Config)(nil)

// Validate implements confmap.Validator.
func (c *Config) Validate() error {
	var p base.Problems
	if c.Synthesizer.HasValue() {
		p.Check(!c.Synthesizer.Get().Stages.HasValue(),
			"gpu_synthesizer::stages is set: must not be set here; put its sections next to gpu_synthesizer")
	}
	return p.Err()
}
