package gpuk8sprocessor

import (
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/powerstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usagestage"
)

// newSections returns the functions of the configured sections, in the order in which they run.
// Each section may use the results of earlier ones. accounts contains the sections after power.
func newSections(cfg *Config, set processor.Settings) (power, accounts []pdatagpu.Functions, err error) {
	add := func(list *[]pdatagpu.Functions, name string, build func(processor.Settings) (pdatagpu.Functions, error)) {
		if err != nil {
			return
		}
		of := set
		of.Logger = set.Logger.With(zap.String("section", name))
		var f pdatagpu.Functions
		if f, err = build(of); err == nil {
			*list = append(*list, f)
		}
	}
	if cfg.Power.HasValue() {
		of := *cfg.Power.Get()
		of.Shared = cfg.shared()
		add(&power, "power", func(s processor.Settings) (pdatagpu.Functions, error) { return powerstage.New(&of, s) })
	}
	if cfg.Budget.HasValue() {
		of := *cfg.Budget.Get()
		of.Shared = cfg.shared()
		add(&accounts, "budget", func(s processor.Settings) (pdatagpu.Functions, error) { return budgetstage.New(&of, s) })
	}
	if cfg.Usage.HasValue() {
		of := *cfg.Usage.Get()
		of.Shared = cfg.shared()
		add(&accounts, "usage", func(s processor.Settings) (pdatagpu.Functions, error) { return usagestage.New(&of, s) })
	}
	return power, accounts, err
}
