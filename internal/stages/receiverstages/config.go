// Package receiverstages runs stages inside a receiver: gpu_synthesizer, which is always the first,
// then the stages of [stages.Config], and gpu_events, which sends its records to the receiver's
// logs pipelines.
package receiverstages

import (
	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stages"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"

	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/confmap"
)

// Config is the section stages of a receiver.
type Config struct {
	// Synthesizer has the settings of gpu_synthesizer, which always runs, even without this
	// section.
	Synthesizer configoptional.Optional[gpusynthesizerprocessor.Config] `mapstructure:"gpu_synthesizer"`

	stages.Config `mapstructure:",squash"`

	// Events makes log records. The receiver must then be in a logs pipeline.
	Events configoptional.Optional[gpueventsconnector.Config] `mapstructure:"gpu_events"`
}

// NewDefaultConfig returns a section without stages.
func NewDefaultConfig() Config {
	return Config{
		Synthesizer: stages.DefaultOf[gpusynthesizerprocessor.Config](gpusynthesizerprocessor.NewFactory()),
		Config:      stages.NewDefaultConfig(),
		Events:      stages.DefaultOf[gpueventsconnector.Config](gpueventsconnector.NewFactory()),
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

// Any reports whether a section exists, so that stages run.
func (c *Config) Any() bool {
	return c.Synthesizer.HasValue() || c.Events.HasValue() || c.Config.Any()
}
