package gpusynthesizerprocessor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

func label(name, value string) labels.Label { return labels.Label{Name: name, Value: value} }

// For each recording, the test has a list of strings that the output must contain, and a list of
// strings that the output must not contain.
func TestRecordedOutputs(t *testing.T) {
	expected := map[string]struct{ must, mustNot []string }{
		"kops_l4_idle.prom": {
			must:    []string{"gauge hw.gpu.memory.utilization", "sum hw.gpu.memory.limit", "gauge hw.power", "hw.gpu.task=general", "host.name=gpu-node-1"},
			mustNot: []string{"hw.sensor_location=memory", "xid", "gpu.device.holder", "gpu.clock.throttle.time"},
		},
		"upcloud_l40s_vm.prom": {
			must:    []string{"gauge hw.gpu.memory.utilization", "= 48304750592 By", "gauge gpu.pcie.utilization"},
			mustNot: []string{"hw.sensor_location=memory", "xid"},
		},
		"aicr_h100x8_k8s.prom": {
			must:    []string{"k8s.pod.name=vllm-decode-0", "k8s.container.name=main", "hw.name=nvidia7"},
			mustNot: []string{"k8s.pod.uid"},
		},
		"fakegpuop_a100_nomig_dcp.prom": {
			must:    []string{"gauge gpu.dram.active", "gauge gpu.pcie.throughput"},
			mustNot: []string{"gpu.device.holder", "hw.parent"},
		},
		"fakegpuop_a100_mig_1gi_active.prom": {
			must:    []string{"/gi9, hw.model=NVIDIA A100-SXM4-40GB", "gpu.mig.profile=1g.5gb"},
			mustNot: []string{"gpu.device.holder"},
		},
		"fakegpuop_a100_mig_3gi_active.prom": {
			must:    []string{"/gi7", "/gi9", "/gi5", "gpu.mig.profile=2g.10gb"},
			mustNot: []string{"gpu.device.holder"},
		},
		"fakegpuop_fraction_1workload.prom": {
			must:    []string{"hw.power"},
			mustNot: []string{"gpu.device.holder", "k8s.namespace.name=runai-reservation"}, // a reservation pod is not a holder
		},
		"vks_vgpu_a100_10c.prom": {
			must:    []string{"gauge hw.gpu.memory.utilization"},
			mustNot: []string{"hw.power", "gpu.sm.active", "gpu.pcie"},
		},
		"datadog_t4_legacy.prom":   {must: []string{"hw.model=Tesla T4", "hw.gpu.memory.usage"}, mustNot: []string{"9.223372"}},
		"datadog_t4_throttle.prom": {must: []string{"gpu.clock.event.reason=sw_power_cap"}, mustNot: []string{"DCGM_FI_DRIVER_VERSION"}},
		"issue512_h100_mig_pods.prom": {
			must:    []string{"k8s.pod.name=embed-0", "k8s.pod.name=tts-0", "/gi8"},
			mustNot: []string{"hw.gpu.memory"},
		},
		"dra_gh200_mig.prom": {mustNot: []string{"gpu.mig.uuid"}},
		// Recorded from the simulator.
		"exporter_2_prints_all_help_lines_before_the_samples_and_exposes_blank_values.prom": {
			must: []string{"gauge hw.gpu.memory.utilization"}, mustNot: []string{"9.223372", "hw.model"},
		},
		"exporter_3_has_no_pci_bus_id_and_labels_violations_as_microseconds.prom": {must: []string{" gpu.clock.throttle.time "}},
		"exporter_3_prints_empty_pod_labels_for_a_free_device.prom":               {mustNot: []string{"gpu.device.holder", "k8s.pod.name"}},
		"exporter_4_5_prints_default_counters.prom": {
			must: []string{"gpu.device.holder", " hw.errors "}, mustNot: []string{"gpu.sm.active", "gpu.clock.throttle.time"},
		},
		"exporter_4_5_repeats_help_for_nvlink_rows.prom":            {must: []string{"gauge gpu.nvlink.throughput"}},
		"exporter_4_5_with_old_namespace_renames_labels.prom":       {must: []string{"k8s.pod.name=", "hw.id=GPU-"}},
		"exporter_4_5_with_time_slicing_adds_rows_per_process.prom": {must: []string{"k8s.container.gpu.memory.usage"}},
		"exporter_4_8_3_labels_mig_rows_with_claims.prom": {
			must: []string{"/gi7", "k8s.resourceclaim.name="}, mustNot: []string{"gpu.clock.throttle.time"},
		},
		"exporter_4_8_3_sorts_families_and_labels.prom": {must: []string{" hw.errors ", "k8s.pod.uid="}},
		"exporter_4_9_prints_base_units.prom":           {must: []string{" gpu.clock.throttle.time ", "gpu.clock.event.reason=sw_thermal"}},
	}
	for _, file := range expositiontest.DCGMRecordings(t) {
		name := filepath.Base(file)
		t.Run(strings.TrimSuffix(name, ".prom"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var body strings.Builder // the Prometheus parser stops at the first invalid line
			for line := range strings.SplitSeq(string(text), "\n") {
				if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "DCGM") && strings.Contains(line, "} ") {
					body.WriteString(line + "\n")
				}
			}
			s := []scrape{{10, parse(t, body.String())}}
			got := run(t, "", s, onResources)
			assert.Equal(t, got, run(t, "", s, onPoints))
			want, known := expected[name]
			assert.True(t, known || len(s[0].rows) == 0, "%s needs an entry with the expected texts", name) // recordings without an entry have no DCGM rows
			for _, text := range want.must {
				assert.Contains(t, got, text)
			}
			for _, text := range want.mustNot {
				assert.NotContains(t, got, text)
			}
			assert.NotContains(t, got, "DCGM_")
			assert.NotContains(t, got, "NaN")
			if strings.Contains(name, "mig_3gi") {
				assert.Equal(t, 1, strings.Count(got, " hw.power "), "the board's power once")
				assert.Equal(t, 3, strings.Count(got, " hw.gpu.memory.utilization "))
			}
		})
	}
}
