package diagnose

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestFindingsListTheSignalsThatARuleLacks(t *testing.T) {
	const gpu, pod = " " + h100, " pod=p namespace=ns container=c " + h100
	spinning := []string{
		"PROF_GR_ENGINE_ACTIVE 0.9" + gpu, "PROF_PIPE_TENSOR_ACTIVE 0.1" + gpu, "PROF_DRAM_ACTIVE 0.1" + gpu, "PROF_PCIE_TX_BYTES 1" + gpu,
		"PROF_PCIE_RX_BYTES 1" + gpu, "POWER_USAGE 300" + gpu, "ENFORCED_POWER_LIMIT 700" + gpu,
	}
	for _, tt := range []struct {
		name, rule string
		rows       []string
		want       []string
	}{
		{"all signals are available", signal.FindingSpinning, append(spinning, "GPU_TEMP 30"+pod), nil},
		{"gpu_k8s adds holders that the exporter does not name", signal.FindingSpinning, spinning, nil},
		{"a signal of the exporter is missing", signal.FindingSpinning, spinning[1:], []string{"hw.gpu.utilization"}},
		{"other stages add idle power and processes", signal.FindingLatched, spinning, nil},

		{"energy", signal.FindingFrozen, []string{"TOTAL_ENERGY_CONSUMPTION 1" + gpu}, nil},
		{"power, temperature and clocks replace energy", signal.FindingFrozen, []string{"POWER_USAGE 300.5" + gpu, "GPU_TEMP 30" + gpu, "SM_CLOCK 1" + gpu, "MEM_CLOCK 1" + gpu}, nil},
		{"without a memory clock, they do not", signal.FindingFrozen, []string{"POWER_USAGE 300.5" + gpu, "GPU_TEMP 30" + gpu, "SM_CLOCK 1" + gpu}, []string{"hw.energy"}},

		{"active reasons for lowered clocks", signal.FindingSlow, []string{"SM_CLOCK 1" + gpu, "CLOCKS_EVENT_REASONS 0" + gpu}, nil},
		{"times of reasons replace active reasons", signal.FindingSlow, []string{"SM_CLOCK 1" + gpu, "CLOCKS_EVENT_REASON_SW_POWER_CAP_NS 0" + gpu}, nil},
		{"so do violations", signal.FindingSlow, []string{"SM_CLOCK 1" + gpu, "POWER_VIOLATION 0" + gpu}, nil},
		{"a clock alone has no reason", signal.FindingSlow, []string{"SM_CLOCK 1" + gpu}, []string{"gpu.clock.event.active"}},

		{"corrected errors", signal.FindingDegrading, []string{"ECC_SBE_VOL_TOTAL 0" + gpu}, nil},
		{"remapped rows replace corrected errors", signal.FindingDegrading, []string{"UNCORRECTABLE_REMAPPED_ROWS 0" + gpu}, nil},
		{"no errors", signal.FindingDegrading, []string{"GPU_TEMP 30" + gpu}, []string{"hw.errors{corrected}"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, f := range expose(t, tt.rows...).Report().Findings {
				if f.Name == tt.rule {
					assert.Equal(t, tt.want, f.Missing)
				}
			}
		})
	}
}
