// Package stages runs the processors of this project inside a receiver, one after another and
// without pdata between them. gpu_synthesizer is always the first. The order of the stages is fixed
// here, whatever their order in YAML.
package stages

import (
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configoptional"

	"github.com/otelcol-gpu/otelcol-gpu/connector/gpueventsconnector"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuusageprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
)

// Config is the section stages of a receiver. It has a section for each stage, with the settings of
// the component of that name. A stage runs if its section exists, even if the section is empty.
type Config struct {
	// Synthesizer has the settings of gpu_synthesizer, which runs without its section too.
	Synthesizer configoptional.Optional[gpusynthesizerprocessor.Config] `mapstructure:"gpu_synthesizer"`

	K8s    configoptional.Optional[gpuk8sprocessor.Config]    `mapstructure:"gpu_k8s"`
	Power  configoptional.Optional[gpupowerprocessor.Config]  `mapstructure:"gpu_power"`
	Budget configoptional.Optional[gpubudgetprocessor.Config] `mapstructure:"gpu_budget"`
	Usage  configoptional.Optional[gpuusageprocessor.Config]  `mapstructure:"gpu_usage"`

	// Events makes log records. The receiver must then be in a logs pipeline.
	Events configoptional.Optional[gpueventsconnector.Config] `mapstructure:"gpu_events"`

	Window configoptional.Optional[gpuwindowprocessor.Config] `mapstructure:"gpu_window"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// NewDefaultConfig returns sections with the components' defaults, none of which exists.
func NewDefaultConfig() Config {
	return Config{
		Synthesizer: defaultOf[gpusynthesizerprocessor.Config](gpusynthesizerprocessor.NewFactory()),
		K8s:         defaultOf[gpuk8sprocessor.Config](gpuk8sprocessor.NewFactory()),
		Power:       defaultOf[gpupowerprocessor.Config](gpupowerprocessor.NewFactory()),
		Budget:      defaultOf[gpubudgetprocessor.Config](gpubudgetprocessor.NewFactory()),
		Usage:       defaultOf[gpuusageprocessor.Config](gpuusageprocessor.NewFactory()),
		Events:      defaultOf[gpueventsconnector.Config](gpueventsconnector.NewFactory()),
		Window:      defaultOf[gpuwindowprocessor.Config](gpuwindowprocessor.NewFactory()),
	}
}

// defaultOf returns a section that has a factory's defaults and does not exist yet.
func defaultOf[C any](f component.Factory) configoptional.Optional[C] {
	return configoptional.Default(*f.CreateDefaultConfig().(*C)) //nolint:forcetypeassert // a factory returns its own Config
}
