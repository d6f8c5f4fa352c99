package gpusynthesizerprocessor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// For recordings of other vendors' exporters, the output must contain exactly the points in this
// list. A string that ends with = matches any value.
func TestRecordedOutputsOfOtherVendors(t *testing.T) {
	const (
		mi300x   = "hw.id=a8ff74a1-0000-1000-807e-843c9b9a1d73,"
		radeon   = "hw.id=cb76105c40d0/gpu0"
		busy     = "hw.id=3dff74a1-0000-1000-80d3-0c4c1df1df58,"
		idle     = "hw.id=ccff74a1-0000-1000-80e0-c6d49f5b0d86,"
		cpxBoard = "hw.id=692409005296,"

		inferentia = "hw.id=i-022af70542e30e040/neuron0,"
		core       = "hw.id=i-022af70542e30e040/nc"
	)
	expected := map[string][][]string{ // strings in each point
		"amd_radeon_issue259.prom": {
			{" hw.gpu.memory.usage ", radeon, "= 27262976 By"},
			{" hw.gpu.memory.limit ", radeon, "= 25753026560 By"},
			{" hw.gpu.memory.utilization ", radeon, "= 0.001058632f 1"},
			{" hw.errors ", "corrected", radeon, "= 0 "},
			{" hw.errors ", "uncorrected", radeon, "= 0 "},
		},
		"amd_mi300x_kaiwo_gfx.prom": {
			{" hw.gpu.utilization ", idle, "= 0f"},
			{" hw.gpu.utilization ", busy, "= 1f"},
			{" hw.gpu.utilization ", cpxBoard, "= 0f"},
			{" gpu.device.holder ", busy, "k8s.namespace.name=default", "k8s.pod.name=high-utilization-57ls6", "k8s.container.name=workload"},
		},
		"amd_mi300x_pr236_baremetal.prom":      {{" hw.gpu.utilization ", mi300x, "= 0f"}},
		"amd_mi300x_pr368_ecc.prom":            {{" hw.errors ", mi300x, "error.type=corrected", "= 2 "}},
		"amd_mi300x_vf_issue233_prefixed.prom": {{" hw.gpu.utilization ", "hw.id=enc1-gpuvm022/gpu0,", "= 0f"}},
		"amd_mi300x_vf_issue171.prom":          {{" gpu.signal.available ", "reason=no_value", "= 0 "}}, // The recording contains only an edge temperature of 0.
		"amd_mi300x_pr316_cpx.prom":            {},                                                      // The recording contains only pcie_tx, which no signal uses.
		"amd_mi300x_pr16_slurm.prom":           {{" hw.errors ", "error.type=uncorrected", "= 0 "}, {" gpu.device.holder ", "hpc.job.id=5", "hpc.job.user=ubuntu", "hpc.job.partition=LocalQ"}},
		"amd_mi3xx_docs_xgmi_clock.prom":       {{" gpu.clock.frequency ", "domain=sm", "= 1.32e+08f"}, {" gpu.clock.frequency ", "domain=memory", "= 9e+08f"}},
		"tpu_v5p_axlearn_busy.prom":            tpus(),
		"ascend_910a_docs.prom":                npus(),
		"ascend_910a_testdata_synthetic.prom":  {}, // chips without an ID
		"intel_xpumd_b60_synthetic.prom": slices.Concat(arcs("0", "8589934592", "0.334640523f", "31.5f", "9.6e+08f", "36f", "40f"), arcs("1", "4294967296", "0.167320261f", "29.5f", "4.8e+08f", "34f", "39f"), [][]string{
			{" hw.gpu.io ", "gpu-uuid-0", "=transmit", "= 2000 By"},
			{" hw.gpu.io ", "gpu-uuid-0", "=receive", "= 1000 By"},
			{" hw.gpu.io ", "gpu-uuid-1", "=transmit", "= 4000 By"},
			{" hw.gpu.io ", "gpu-uuid-1", "=receive", "= 3000 By"},
		}),
		// Two of four processes use memory on the first device. The recording does not show whether
		// these processes are still running.
		"neuron_inf1_datadog.prom": {
			{" hw.gpu.memory.usage ", inferentia, "= 377802024 By"},
			{" hw.gpu.memory.limit ", inferentia, "= 8589934592 By"},
			{" hw.gpu.memory.utilization ", inferentia, "= 0.043981944f 1"},
			{" hw.gpu.utilization ", core + "0,", "= 0.003054895f 1"},
			{" hw.gpu.utilization ", core + "1,", "= 0.003117189f 1"},
			{" hw.gpu.utilization ", core + "2,", "= 0f 1"},
			{" hw.gpu.utilization ", core + "3,", "= 0f 1"},
			{" hw.errors ", inferentia, "error.type=execution_generic", "= 0 "},
			{" hw.errors ", inferentia, "error.type=execution_numerical", "= 0 "},
			{" hw.errors ", inferentia, "error.type=execution_transient", "= 0 "},
			{" hw.errors ", inferentia, "error.type=execution_model", "= 0 "},
			{" hw.errors ", inferentia, "error.type=execution_runtime", "= 0 "},
			{" hw.errors ", inferentia, "error.type=execution_hardware", "= 0 "},
		},
	}
	for _, file := range expositiontest.Recordings(t) {
		name := filepath.Base(file)
		if !strings.HasPrefix(name, "amd_") && !strings.HasPrefix(name, "tpu_") && !strings.HasPrefix(name, "neuron_") && !strings.HasPrefix(name, "intel_xpumd") && !strings.HasPrefix(name, "ascend_") {
			continue
		}
		t.Run(strings.TrimSuffix(name, ".prom"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s := []scrape{{10, parse(t, string(text))}}
			got := run(t, "", s, onResources)
			assert.Equal(t, got, run(t, "", s, onPoints))
			assert.Equal(t, got, runRows(t, "", []scrapeText{{10, string(text)}}))
			want, known := expected[name]
			require.True(t, known, "say what must come out of %s", name)
			lines := slices.DeleteFunc(strings.Split(got, "\n"), func(line string) bool { // removes metrics that are not from the exporter
				return !strings.Contains(line, " hw.") && !strings.Contains(line, " gpu.")
			})
			assert.Len(t, lines, len(want), got)
			for _, texts := range want {
				assert.True(t, slices.ContainsFunc(lines, func(line string) bool {
					return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
				}), "%v in\n%s", texts, got)
			}
		})
	}
}

// Two nodes can have devices with the same ID if the nodes are cloned virtual machines, or if the
// exporter's IDs do not contain the host name. The output for each node must be the same as if the
// other node did not exist.
func TestDevicesOnDifferentNodesMayHaveTheSameID(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "")
	on := func(node string, s scrape) pmetric.Metrics {
		md := onResources(s)
		for _, rm := range md.ResourceMetrics().All() {
			attrs := rm.Resource().Attributes()
			attrs.PutStr(signal.K8sNodeName, node)
			for _, label := range []string{"hostname", "Hostname", "nodename", "node"} {
				if _, has := attrs.Get(label); has {
					attrs.PutStr(label, node)
				}
			}
		}
		return md
	}
	for _, file := range expositiontest.Recordings(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".prom"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			s := scrape{10, parse(t, string(text))}
			alone := func(node string) []string {
				return slices.Collect(strings.Lines(strings.TrimPrefix(run(t, "", []scrape{s}, func(s scrape) pmetric.Metrics { return on(node, s) }), "\n")))
			}
			together := run(t, "", []scrape{s}, func(s scrape) pmetric.Metrics {
				md := on("n1", s)
				on("n2", s).ResourceMetrics().MoveAndAppendTo(md.ResourceMetrics())
				return md
			})
			lines := slices.Collect(strings.Lines(strings.TrimPrefix(together, "\n")))
			assert.ElementsMatch(t, slices.Concat(alone("n1"), alone("n2")), lines)
			for _, line := range lines {
				if strings.Contains(line, "hw.id=") {
					assert.Contains(t, line, "k8s.node.name=n")
				}
			}
		})
	}
}

// If a release of AMD's exporter is only partly known, its unambiguous values must be emitted. All
// other values must be counted by drop reason.
func TestUnambiguousValuesOfAPartlyKnownReleaseAreEmitted(t *testing.T) {
	const of = `gpu_uuid="U-1",serial_number="S-1",gpu_id="0",gpu_partition_id="0",gpu_compute_partition_type="spx",card_model="102-X",hostname="n1"`
	tel := componenttest.NewTelemetry()
	set := processortest.NewNopSettings(metadata.Type)
	set.TelemetrySettings = tel.NewTelemetrySettings()
	p, sink := newTestProcessor(t, "", set)
	for i, seconds := range []int64{10, 20} {
		feed(t, p, seconds, strings.ReplaceAll(fmt.Sprintf(`gpu_gfx_activity{OF} 40
gpu_gfx_activity_v2{OF} 400
gpu_used_vram{OF} 1024
gpu_vram_capacity{OF} 2048
gpu_clock{OF,clock_type="GPU_CLOCK_TYPE_NEXT"} 2100
gpu_violation_next_residency_accumulated{OF} %d
gpu_violation_ppt_residency_accumulated{OF} %d
gpu_package_power{OF} NaN
gpu_health{OF} 7
gpu_junction_temperature{gpu_partition_id="0",gpu_compute_partition_type="spx",next_id="9"} 50`, 100*i, 200*i), "OF", of))
	}
	assert.Equal(t, `  10s {host.name=n1, k8s.node.name=n1} gauge hw.gpu.utilization {hw.gpu.task=general, hw.id=U-1, hw.model=102-X, hw.serial_number=S-1} = 0.4f 1
  10s {host.name=n1, k8s.node.name=n1} sum hw.gpu.memory.usage {hw.id=U-1, hw.model=102-X, hw.serial_number=S-1} = 1073741824 By
  10s {} gauge gpu_junction_temperature {gpu_compute_partition_type=spx, gpu_partition_id=0, next_id=9} = 50f
  20s {host.name=n1, k8s.node.name=n1} gauge hw.gpu.utilization {hw.gpu.task=general, hw.id=U-1, hw.model=102-X, hw.serial_number=S-1} = 0.4f 1
  20s {host.name=n1, k8s.node.name=n1} sum hw.gpu.memory.usage {hw.id=U-1, hw.model=102-X, hw.serial_number=S-1} = 1073741824 By
  20s {} gauge gpu_junction_temperature {gpu_compute_partition_type=spx, gpu_partition_id=0, next_id=9} = 50f
`, rendered(sink), "names without the labels of a device stay as they are")
	twice := func(reason string) metricdata.DataPoint[int64] {
		return metricdata.DataPoint[int64]{Value: 2, Attributes: attribute.NewSet(attribute.String("reason", reason))}
	}
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsDropped(t, tel, []metricdata.DataPoint[int64]{
		twice("other_entity"), twice("not_finite"), twice("absurd"), // the dropped values are those of the clock, the power, and the health
	}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualProcessorGpuSynthesizerPointsUnknown(t, tel, []metricdata.DataPoint[int64]{{Value: 6}}, metricdatatest.IgnoreTimestamp())
}

// On some virtual machines, and with some releases of the exporter, the labels do not distinguish
// devices correctly.
func TestDevicesWithTheSameIdentityAreDistinguishedOrDropped(t *testing.T) {
	const n = 4
	type labels struct{ uuid, serial, partition, way string } // %d is gpu_id
	for name, tt := range map[string]struct {
		labels
		ids     []string // of hw.gpu.utilization
		dropped int64
	}{
		"partitions with an unknown mode":                            {labels{"", "S", "%d", "hpx"}, []string{"S/p0", "S/p1", "S/p2", "S/p3"}, 0},
		"partitions without a mode":                                  {labels{"", "S", "%d", ""}, []string{"S/p0", "S/p1", "S/p2", "S/p3"}, 0},
		"partitions with the mode of a whole board":                  {labels{"", "S", "%d", "spx"}, []string{"S/p0", "S/p1", "S/p2", "S/p3"}, 0},
		"labels with spaces":                                         {labels{"", " S ", "%d ", "QPX "}, []string{"S/p0", "S/p1", "S/p2", "S/p3"}, 0},
		"partitions with the same UUID":                              {labels{"U", "S", "%d", "qpx"}, []string{"S/p0", "S/p1", "S/p2", "S/p3"}, 0},
		"boards with the same UUID and no other identity":            {labels{"U", "", "", "none"}, nil, n},
		"partitions that all have the number 0":                      {labels{"", "S", "0", "cpx"}, nil, n},
		"partitions that all have the number 0, with distinct UUIDs": {labels{"U%d", "S", "0", "cpx"}, []string{"U0", "U1", "U2", "U3"}, 0},
		"boards with the same serial number":                         {labels{"", "S", "NA", "spx"}, nil, n},
		"boards with the serial number 0":                            {labels{"", "0", "0", "spx"}, []string{"h/gpu0", "h/gpu1", "h/gpu2", "h/gpu3"}, 0},
		"boards with an unknown serial number":                       {labels{"", "Unknown", "NA", "none"}, []string{"h/gpu0", "h/gpu1", "h/gpu2", "h/gpu3"}, 0},
		"boards with a blank serial number":                          {labels{"  ", "  ", "0", "spx"}, []string{"h/gpu0", "h/gpu1", "h/gpu2", "h/gpu3"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			tel := componenttest.NewTelemetry()
			set := processortest.NewNopSettings(metadata.Type)
			set.TelemetrySettings = tel.NewTelemetrySettings()
			p, sink := newTestProcessor(t, "", set)
			var rows strings.Builder
			for i := range n {
				of := fmt.Sprintf("gpu_uuid=%q,serial_number=%q,gpu_partition_id=%q,gpu_compute_partition_type=%q", tt.uuid, tt.serial, tt.partition, tt.way)
				fmt.Fprintf(&rows, "gpu_gfx_busy_instantaneous{%s,gpu_id=\"%d\",hostname=\"h\",card_model=\"X\"} %d\n", strings.ReplaceAll(of, "%d", strconv.Itoa(i)), i, 10*(1+i))
			}
			feed(t, p, 10, rows.String())
			got := map[string]float64{}
			all := pmetric.NewMetrics()
			for _, md := range sink.AllMetrics() {
				md.ResourceMetrics().MoveAndAppendTo(all.ResourceMetrics())
			}
			for point := range points.All(all) {
				id, _ := point.Attributes().Get(signal.HardwareID)
				got[id.Str()] = points.Value(point.NumberDataPoint)
				if serial, ok := point.Attributes().Get(signal.HardwareSerialNumber); ok {
					assert.Equal(t, "S", serial.Str())
				}
			}
			want := map[string]float64{}
			for i, id := range tt.ids {
				want[id] = float64(1+i) / 10
			}
			assert.Equal(t, want, got)
			drops := map[string]int64{}
			if tt.dropped > 0 {
				drops["ambiguous_device"] = tt.dropped
			}
			assert.Equal(t, drops, dropped(tel))
		})
	}
}

// arcs returns the expected signals of an Intel board. The PCIe bytes are not included: they are a
// rate, which is emitted only after the second scrape.
func arcs(number, used, occupancy, watts, hertz, chip, memory string) [][]string {
	id := "hw.id=gpu-uuid-" + number
	return [][]string{
		{" hw.gpu.memory.usage ", id, "= " + used + " By"},
		{" hw.gpu.memory.limit ", id, "= 25669140480 By"},
		{" hw.gpu.memory.utilization ", id, "= " + occupancy},
		{" hw.power ", id, "= " + watts + " W"},
		{" gpu.clock.frequency ", id, "= " + hertz},
		{" hw.temperature ", id, "hw.sensor_location=gpu", "= " + chip},
		{" hw.temperature ", id, "hw.sensor_location=memory", "= " + memory},
	}
}

// npus returns the expected signals of eight chips. The exporter read each chip about 0.4 s after
// the previous chip.
func npus() (want [][]string) {
	for i, chip := range []string{
		"185011D4-21104518-A0C4ED94-14CC040A-56102003", "185011D4-21E04718-93B2ED94-14CC040A-BF102003",
		"185011D4-20C02418-59D4ED94-14CC040A-F9102003", "185011D4-21502C18-0464ED94-14CC040A-6E102003",
		"185011D4-21A02418-64946D94-14CC040A-F8102003", "185011DC-21F02B18-C4B66D94-14CC040A-57102003",
		"185011D4-20602118-14646D94-14CC040A-8A102003", "185011D4-21504C18-10656D94-14CC040A-6B102003",
	} {
		second := fmt.Sprintf("%ds", []int{1723621883, 1723621883, 1723621884, 1723621884, 1723621885, 1723621885, 1723621885, 1723621886}[i])
		want = append(want, []string{second + " {} gauge gpu.clock.frequency ", "hw.id=" + chip, "hw.model=910A-Ascend-V1", "= 1e+09f Hz"})
	}
	return want
}

func TestEachRecordedChipHasTheTimeAtWhichItWasRead(t *testing.T) {
	for _, file := range expositiontest.Recordings(t) {
		if filepath.Base(file) != "ascend_910a_docs.prom" {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		p, sink := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
		require.NoError(t, p.ConsumeMetrics(t.Context(), onResources(scrape{10, parse(t, string(text))})))
		var times []int64
		for point := range points.All(sink.AllMetrics()[0]) {
			if point.Metric.Name() == signal.GPUClockFrequency.Name {
				times = append(times, int64(point.Timestamp())/1e6)
			}
		}
		assert.True(t, slices.IsSorted(times), "the oldest first")
		require.Len(t, times, 8)
		for i, at := range times[1:] {
			assert.InDelta(t, 375, at-times[i], 36, "0.34 to 0.41 s")
		}
	}
}

// tpus returns the expected signals of four chips that are held by one pod. The recording also
// contains rows without pod labels for these chips.
func tpus() (want [][]string) {
	for i, bandwidth := range []string{"0.304405448f", "0.304489772f", "0.304399726f", "0.304609051f"} {
		chip := fmt.Sprintf("hw.id=2605441806135329501-%d,", i)
		want = append(want,
			[]string{" hw.gpu.utilization ", chip, "= 1f"}, []string{" gpu.dram.active ", chip, "= " + bandwidth},
			[]string{" hw.gpu.memory.usage ", chip, "= 65000000000 By"}, []string{" hw.gpu.memory.limit ", chip, "= 102803439616 By"},
			[]string{" hw.gpu.memory.utilization ", chip, "= 0.632274564f"},
			[]string{" gpu.pipe.active ", chip, "gpu.pipe=tensor", fmt.Sprintf("= 0.0%df", i+1)},
			[]string{" gpu.device.holder ", chip, "k8s.namespace.name=default", "k8s.pod.name=dummy-job-0-252-7jwkw", "k8s.container.name=dummy"},
		)
	}
	return want
}
