package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
)

// nodeScrape returns one scrape of a node that has 8 boards with 7 MIG instances each. The scrape
// contains 29 fields with pod labels for each of the 56 instances.
func nodeScrape() scrape {
	s := scrape{seconds: 10}
	names := []string{
		"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_TEMP", "DCGM_FI_DEV_GPU_TEMP",
		"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
		"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_POWER_VIOLATION", "DCGM_FI_DEV_THERMAL_VIOLATION",
		"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "DCGM_FI_DEV_FB_FREE",
		"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
		"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
		"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
		"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PIPE_FP16_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES",
		"DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES",
		"DCGM_FI_DEV_VGPU_LICENSE_STATUS",
	}
	for _, name := range names {
		for gpu := range 8 {
			for gi := range 7 {
				ls := []labels.Label{
					label("gpu", fmt.Sprint(gpu)), label("UUID", fmt.Sprintf("GPU-%08d-0000-0000-0000-000000000000", gpu)),
					label("pci_bus_id", "00000000:53:00.0"), label("device", fmt.Sprintf("nvidia%d", gpu)),
					label("modelName", "NVIDIA H100 80GB HBM3"), label("GPU_I_PROFILE", "1g.10gb"),
					label("GPU_I_ID", fmt.Sprint(7+gi)), label("Hostname", "gpu-node-1"),
					label("DCGM_FI_DRIVER_VERSION", "580.105.08"), label("container", "main"),
					label("namespace", "serving"), label("pod", fmt.Sprintf("worker-%d-%d", gpu, gi)),
				}
				s.rows = append(s.rows, row{name: name, labels: ls, value: 0.5})
			}
		}
	}
	return s
}

func BenchmarkSynthesizer(b *testing.B) {
	s := nodeScrape()
	for _, layout := range []struct {
		name string
		make func(scrape) pmetric.Metrics
	}{{"LabelsOnResources", onResources}, {"LabelsOnPoints", onPoints}} {
		b.Run(layout.name, func(b *testing.B) {
			p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type),
				createDefaultConfig(), consumertest.NewNop())
			require.NoError(b, err)
			template := layout.make(s)
			b.ReportAllocs()
			var cpu cpumeter.Meter
			for b.Loop() {
				b.StopTimer()
				md := pmetric.NewMetrics()
				template.CopyTo(md)
				b.StartTimer()
				cpu.Start(b)
				require.NoError(b, p.ConsumeMetrics(context.Background(), md))
				cpu.Stop(b)
			}
			cpu.Report(b, len(s.rows))
		})
	}
}

// Each limit is 10% above the value that was measured when the test was written.
func TestAScrapeOfANodeStaysWithinItsAllocationLimits(t *testing.T) {
	for name, c := range map[string]struct {
		layout func(scrape) pmetric.Metrics
		most   float64
	}{"labels on Resources": {onResources, 11_700}, "labels on points": {onPoints, 11_700}} {
		t.Run(name, func(t *testing.T) {
			p, err := NewFactory().CreateMetrics(t.Context(), processortest.NewNopSettings(metadata.Type), createDefaultConfig(), consumertest.NewNop())
			require.NoError(t, err)
			const runs = 10
			template := c.layout(nodeScrape())
			batches := make([]pmetric.Metrics, runs+2)
			for i := range batches {
				batches[i] = pmetric.NewMetrics()
				template.CopyTo(batches[i])
			}
			next := 0
			consume := func() {
				require.NoError(t, p.ConsumeMetrics(t.Context(), batches[next]))
				next++
			}
			consume() // adds the devices
			assert.Less(t, testing.AllocsPerRun(runs, consume), c.most)
		})
	}
}
