package gpuk8sprocessor

import (
	"go.opentelemetry.io/collector/processor"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budgetstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/powerstage"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usagestage"
)

// newSections returns the configured sections, in the order in which they run.
// Each section may use the results of earlier ones. accounts contains the sections after power.
func newSections(cfg *Config, set processor.Settings) (power, accounts []pdatagpu.Section, err error) {
	add := func(list *[]pdatagpu.Section, name string, build func(processor.Settings) (pdatagpu.Section, error)) {
		if err != nil {
			return
		}
		of := set
		of.Logger = set.Logger.With(zap.String("section", name))
		var s pdatagpu.Section
		if s, err = build(of); err == nil {
			*list = append(*list, s)
		}
	}
	if cfg.Power.HasValue() {
		of := *cfg.Power.Get()
		of.Shared = cfg.shared()
		add(&power, "power", func(s processor.Settings) (pdatagpu.Section, error) { return powerstage.New(&of, s) })
	}
	if cfg.Budget.HasValue() {
		of := *cfg.Budget.Get()
		of.Shared = cfg.shared()
		add(&accounts, "budget", func(s processor.Settings) (pdatagpu.Section, error) { return budgetstage.New(&of, s) })
	}
	if cfg.Usage.HasValue() {
		of := *cfg.Usage.Get()
		of.Shared = cfg.shared()
		add(&accounts, "usage", func(s processor.Settings) (pdatagpu.Section, error) { return usagestage.New(&of, s) })
	}
	return power, accounts, err
}
