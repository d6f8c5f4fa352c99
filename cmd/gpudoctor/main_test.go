package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

var update = flag.Bool("update", false, "write the output of golden tests to their files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Returns the exposition of a simulated exporter 47 seconds after the exporter's start.
func simulated(t testing.TB, change func(*dcgmsim.Config)) string {
	t.Helper()
	config := dcgmsim.NewDefaultConfig()
	config.Scenario, config.GPUs = dcgmsim.ScenarioHealthy, 1
	change(&config)
	simulation, err := dcgmsim.New(config)
	require.NoError(t, err)
	return string(simulation.AppendBody(nil, 0, 47*time.Second))
}

// gpudoctor runs the command.
func gpudoctor(t *testing.T, stdin string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return status, out.String(), errs.String()
}

// TestGolden compares the output for exporters of every generation with the files in testdata.
// After an intended change to the output, run this test with -update.
func TestGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		change func(*dcgmsim.Config)
	}{
		"exporter_2_reports_neither_model_nor_host": {exitMissing, func(c *dcgmsim.Config) {
			c.Style, c.Fields, c.GPUs = dcgmsim.Style2, dcgmsim.FieldsDefault, 2
		}},
		"exporter_2_with_all_fields_lacks_exact_times": {exitMissing, func(c *dcgmsim.Config) { c.Style = dcgmsim.Style2 }},
		"exporter_3_has_no_profiling_metrics": {exitMissing, func(c *dcgmsim.Config) {
			c.Style, c.Fields, c.Scenario = dcgmsim.Style3, dcgmsim.FieldsDefault, dcgmsim.ScenarioIdle
		}},
		"exporter_3_labels_nanoseconds_as_microseconds": {exitMissing, func(c *dcgmsim.Config) { c.Style = dcgmsim.Style3 }},
		"exporter_4_5_with_its_default_fields_lacks_throttling_metrics": {exitMissing, func(c *dcgmsim.Config) {
			c.Style, c.Fields = dcgmsim.Style45, dcgmsim.FieldsDefault
		}},
		"exporter_4_5_with_all_fields_has_all_metrics": {exitComplete, func(c *dcgmsim.Config) {
			c.Style, c.Links = dcgmsim.Style45, 2
		}},
		"exporter_4_8_3_with_its_default_fields_has_exact_xid_counts": {exitMissing, func(c *dcgmsim.Config) {
			c.Fields = dcgmsim.FieldsDefault
		}},
		"exporter_4_8_3_reports_a_node_with_mixed_devices": {exitComplete, func(c *dcgmsim.Config) {
			c.Scenario, c.GPUs = dcgmsim.ScenarioMixed, 8
		}},
		"exporter_4_8_3_reports_instances_and_their_board": {exitMissing, func(c *dcgmsim.Config) {
			c.Scenario, c.Fields = dcgmsim.ScenarioMIG, dcgmsim.FieldsDefault
		}},
		"exporter_4_8_3_repeats_a_shared_gpu_for_each_pod": {exitComplete, func(c *dcgmsim.Config) {
			c.Scenario, c.SharedRows = dcgmsim.ScenarioTimeSliced, dcgmsim.SharedRowsCopies
		}},
		"exporter_4_8_3_reports_claims": {exitComplete, func(c *dcgmsim.Config) {
			c.Scenario, c.GPUs = dcgmsim.ScenarioDRA, 4
		}},
		"exporter_4_9_with_its_default_fields": {exitMissing, func(c *dcgmsim.Config) {
			c.Style, c.Fields = dcgmsim.Style49, dcgmsim.FieldsDefault
		}},
		"exporter_4_9_with_all_fields_has_all_metrics": {exitComplete, func(c *dcgmsim.Config) { c.Style = dcgmsim.Style49 }},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := gpudoctor(t, simulated(t, tt.change), "-")
			assert.Equal(t, tt.status, status)
			assert.Empty(t, errs)
			golden(t, filepath.Join("testdata", name+".txt"), out)
		})
	}
}

func TestGoldenJSON(t *testing.T) {
	body := simulated(t, func(c *dcgmsim.Config) { c.Style, c.Fields = dcgmsim.Style3, dcgmsim.FieldsDefault })
	status, out, errs := gpudoctor(t, body, "-json", "-")
	assert.Equal(t, exitMissing, status)
	assert.Empty(t, errs)
	assert.True(t, json.Valid([]byte(out)))
	golden(t, filepath.Join("testdata", "exporter_3_as_json.json"), out)
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// For each recorded output, the report must contain the strings that are listed in expected.
func TestRecordedOutputs(t *testing.T) {
	const notListed, vendorLacks = "likely not in the exporter's csv", "Never provided by this vendor's exporter |\n- "
	expected := map[string][]string{
		"kops_l4_idle": {
			"1 GPU (NVIDIA L4), driver 580.105.08, probably dcgm-exporter 3.3.7-3.5.0 to 4.5.3-4.8.2",
			"gpu.clock.throttle.time | no | " + notListed,
			"hw.errors {xid} | no | likely no XID error since the exporter started, or not in its csv",
			"gpu.nvlink.throughput | no | likely the model has no NVLink",
			"hw.temperature {memory} | no | reads 0: the sensor does not exist",
			"gpu.pcie.throughput | yes |",
			"gpu.pcie.utilization | no | the capacity is unknown",
			"DCGM_FI_DEV_PCIE_MAX_LINK_GEN, gauge,",
		},
		"upcloud_l40s_vm": {"gpu.pcie.utilization | yes |", "hw.temperature {memory} | no | reads 0", "gpu.sm.active | no | " + notListed},
		"aicr_h100x8_k8s": {"8 GPUs (NVIDIA H100 80GB HBM3)", "gpu.device.holder | 1 of 8 | likely the device has no holder", "hw.gpu.memory.usage | no | " + notListed, "gpu.dram.active | no | " + notListed},
		"fakegpuop_a100_nomig_dcp": {
			"before 3.3.7-3.5.0", "gpu.dram.active | yes |", "gpu.clock.event.time | no | likely the exporter is too old",
			"gpu.device.holder | no | likely the device has no holder",
		},
		"fakegpuop_a100_mig_1gi_active": {"1 MIG board, 1 MIG instance", "hw.power | yes | - |", "hw.gpu.memory.utilization | - | yes |"},
		"fakegpuop_a100_mig_3gi_active": {
			"1 MIG board, 3 MIG instances (NVIDIA A100-SXM4-40GB)",
			"hw.gpu.utilization {general} | - | yes |", "hw.gpu.utilization {encoder, decoder} | no | - | not measured under MIG",
		},
		"fakegpuop_fraction_1workload": {"gpu.device.holder | no |", "Rows name reservation pods"},
		"vks_vgpu_a100_10c": {
			"hw.power | no | likely not measured in a vGPU guest", "gpu.dram.active | no | likely not measured in a vGPU guest",
			"hw.gpu.memory.utilization | yes |", "gpu.clock.throttle.time | no | " + notListed,
			"hw.errors {xid} | no | likely no XID error since the exporter started, or not in its csv",
		},
		"datadog_t4_legacy":      {"hw.errors {xid} | yes |", "gpu.engine.active | no | " + notListed, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, gauge,"},
		"datadog_t4_throttle":    {"gpu.clock.event.active | yes |", "hw.gpu.memory.limit | yes |", "hw.power | no | " + notListed},
		"issue512_h100_mig_pods": {"hw.gpu.memory.usage | - | no | likely driver 535 does not provide it on MIG instances", "gpu.device.holder | - | 2 of 3 |"},
		"dra_gh200_mig":          {"Rows of a board have the claim of a MIG device"},
	}
	maps.Copy(expected, map[string][]string{ // recordings of AMD's exporter
		"amd_radeon_issue259": {
			"1 GPU, device-metrics-exporter", "hw.gpu.memory.utilization | yes |", "hw.energy | no | the exporter has no value",
			"gpu.clock.throttle.time | no | likely the exporter does not expose it", "gpu.device.holder | no |",
			"- GPUConfig.Fields in the exporter's config.json lists its fields",
		},
		"amd_mi300x_kaiwo_gfx":            {"2 GPUs, 1 board, 1 partition (102-G30211-0C), device-metrics-exporter", "hw.gpu.utilization | yes | yes | no |"},
		"amd_mi300x_pr236_baremetal":      {"1 GPU (102-G30211-0C)", "hw.gpu.utilization | yes |"},
		"amd_mi300x_pr368_ecc":            {"hw.errors {corrected} | yes |"},
		"amd_mi300x_vf_issue171":          {"hw.temperature {edge} | no | reads 0: the sensor does not exist"},
		"amd_mi300x_vf_issue233_prefixed": {"1 GPU (Aqua Vanjaram [Instinct MI300X VF])", "hw.gpu.utilization | yes |"},
		"amd_mi300x_pr316_cpx":            {"1 board, 1 partition (102-G30213-0C)"},
		"amd_mi300x_pr16_slurm":           {"gpu.device.holder | yes |", "hw.errors {uncorrected} | yes |"},
		"amd_mi3xx_docs_xgmi_clock":       {"gpu.clock.frequency | yes |"},
		"intel_xpumd_b60_synthetic":       {"2 GPUs (Intel(R) Arc(TM) Pro B60 Graphics), xpumd", "hw.gpu.memory.utilization | yes |", vendorLacks, "- The table of xpumd is experimental: "},
		"neuron_inf1_datadog":             {"1 board, 4 partitions (Inferentia), neuron-monitor", "hw.errors | yes |", vendorLacks, "- The table of neuron-monitor is experimental: "},
		"tpu_v5p_axlearn_busy":            {"4 GPUs (tpu-v5p-slice), tpu-device-plugin", "hw.gpu.memory.utilization | yes |"},
		"ascend_910a_docs": {
			"8 GPUs (910A-Ascend-V1), npu-exporter", "gpu.clock.frequency | yes |", vendorLacks,
			"- The table of npu-exporter is experimental: ", "- metricConfiguration.json switches groups of metrics on.",
		},
	})
	maps.Copy(expected, map[string][]string{ // outputs of the simulator
		"exporter_2_prints_all_help_lines_before_the_samples_and_exposes_blank_values": {"2 GPUs, probably dcgm-exporter before 3.3.7-3.5.0", "- XID 94, contained memory error"},
		"exporter_3_has_no_pci_bus_id_and_labels_violations_as_microseconds":           {"1 GPU (NVIDIA A100-SXM4-80GB), driver 525.60.13", "gpu.clock.throttle.time | yes |"},
		"exporter_3_prints_empty_pod_labels_for_a_free_device":                         {"gpu.device.holder | no | likely the device has no holder"},
		"exporter_4_5_prints_default_counters":                                         {"2 GPUs (NVIDIA H100 80GB HBM3)", "gpu.sm.active | no | " + notListed},
		"exporter_4_5_repeats_help_for_nvlink_rows":                                    {"gpu.sm.active | yes |", "gpu.clock.throttle.time | yes |"},
		"exporter_4_5_with_old_namespace_renames_labels":                               {"gpu.device.holder | yes |", "DCGM_EXP_XID_ERRORS_COUNT, gauge,"},
		"exporter_4_5_with_time_slicing_adds_rows_per_process":                         {"gpu.device.holder | yes |", "hw.gpu.memory.utilization | yes |"},
		"exporter_4_8_3_labels_mig_rows_with_claims":                                   {"2 GPUs, 1 MIG board, 2 MIG instances (NVIDIA H100 80GB HBM3)", "gpu.device.holder | yes | - | 1 of 2 | likely the device has no holder"},
		"exporter_4_8_3_sorts_families_and_labels":                                     {"gpu.clock.throttle.time | yes |", "- XID 48, double-bit ECC error"},
		"exporter_4_9_prints_base_units":                                               {"4.7.0-4.9.0 or later", "gpu.clock.throttle.time | yes |"},
		"a_node_with_amd_gpus_exposes_residencies_and_their_clock":                     {"4 GPUs (102-G30211-0C), device-metrics-exporter", "gpu.clock.throttle.time | yes |", "gpu.device.holder | 3 of 4 |"},
		"a_node_with_neuron_devices_exposes_cores_by_process":                          {"2 boards, 4 partitions (Trainium), neuron-monitor", "hw.gpu.utilization | - | yes |"},
		"a_node_with_tpus_exposes_each_value_for_the_pod_and_for_the_chip":             {"2 GPUs (tpu-v5p-slice), tpu-device-plugin", "hw.gpu.utilization | yes |", "gpu.pipe.active | yes |", "gpu.device.holder | yes |"},
	})
	// The recordings in the complete list contain all signals that a healthy device has.
	complete := []string{
		"exporter_4_5_repeats_help_for_nvlink_rows", "exporter_4_8_3_sorts_families_and_labels", "exporter_4_9_prints_base_units",
		"a_node_with_tpus_exposes_each_value_for_the_pod_and_for_the_chip", "tpu_v5p_axlearn_busy", "neuron_inf1_datadog",
	}
	for _, file := range expositiontest.Recordings(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".prom")
		t.Run(name, func(t *testing.T) {
			status, out, errs := gpudoctor(t, "", file)
			if text, err := os.ReadFile(file); err == nil && !bytes.Contains(text, []byte("DCGM_")) && len(expected[name]) == 0 {
				assert.Equal(t, exitUnread, status)
				switch {
				case strings.HasPrefix(name, "hami_"):
					assert.Contains(t, errs, "this is HAMi's vGPU monitor")
				case strings.HasPrefix(name, "ascend_"):
					assert.Contains(t, errs, "no row has the id of a device")
				default:
					assert.Contains(t, errs, "none of them of dcgm-exporter, device-metrics-exporter, tpu-device-plugin, neuron-monitor, xpumd or npu-exporter")
				}
				return
			}
			want := exitMissing
			if slices.Contains(complete, name) {
				want = exitComplete
			}
			assert.Equal(t, want, status)
			assert.Empty(t, errs)
			require.Contains(t, expected, name, "add the expected texts of this recording")
			cells := tableCells(out)
			for _, want := range expected[name] {
				assert.Contains(t, cells, want)
			}
		})
	}
}

// tableCells replaces the spaces between columns with bars.
func tableCells(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		var cells []string
		for c := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
			if c = strings.TrimSpace(c); c != "" {
				cells = append(cells, c)
			}
		}
		b.WriteString(strings.Join(cells, " | ") + " |\n")
	}
	return b.String()
}

// boardOfModel sets the model in an exposition to the given model and removes each line that
// contains one of the strings in the without parameter.
func boardOfModel(body, model string, without ...string) string {
	body = regexp.MustCompile(`modelName="[^"]*"`).ReplaceAllString(body, `modelName="`+model+`"`)
	var b strings.Builder
	for line := range strings.Lines(body) {
		if !slices.ContainsFunc(without, func(part string) bool { return strings.Contains(line, part) }) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Each exposition in this test contains all signals that its board model supports.
func TestExporterWithAllSignalsOfItsBoardsIsComplete(t *testing.T) {
	const nvlink, profiling = "_NVLINK_", "_PROF_"
	guest := []string{
		nvlink, profiling, "_DEV_GPU_TEMP", "_POWER_USAGE", "_TOTAL_ENERGY_CONSUMPTION", "_PCIE_REPLAY_COUNTER", "_REMAPPED_ROWS",
	}
	for model, without := range map[string][]string{
		"NVIDIA H100 80GB HBM3": nil,
		"NVIDIA A2":             {nvlink}, "NVIDIA A10": {nvlink}, "NVIDIA A16": {nvlink}, "NVIDIA L40": {nvlink}, "NVIDIA L40S": {nvlink},
		"NVIDIA A40": {nvlink}, "NVIDIA A30": {nvlink}, "NVIDIA A100-PCIE-40GB": {nvlink}, "NVIDIA H100 PCIe": {nvlink}, "NVIDIA H100 NVL": {nvlink},
		"NVIDIA RTX A6000": {nvlink}, "Quadro RTX 6000": {nvlink}, "NVIDIA GeForce RTX 3090": {nvlink, profiling}, "NVIDIA L4": {nvlink},
		"NVIDIA RTX 6000 Ada Generation":               {nvlink},
		"NVIDIA RTX PRO 6000 Blackwell Server Edition": {nvlink},
		"NVIDIA GeForce RTX 5090":                      {nvlink},
		"NVIDIA GeForce RTX 4090":                      {nvlink, profiling},
		"NVIDIA H100-20C":                              guest,
		"GRID A100-10C":                                guest,
	} {
		for _, style := range []dcgmsim.Style{dcgmsim.Style45, dcgmsim.Style483} {
			t.Run(model+" "+string(style), func(t *testing.T) {
				body := boardOfModel(simulated(t, func(c *dcgmsim.Config) { c.Style = style }), model, without...)
				status, out, errs := gpudoctor(t, body, "-")
				assert.Equal(t, exitComplete, status, out)
				assert.Empty(t, errs)
			})
		}
	}
}

// dcgm-exporter rejects a CSV file if a line does not match the pattern in the form variable.
func TestEveryAdvisedLineHasAField(t *testing.T) {
	form := regexp.MustCompile(`^DCGM_[A-Z0-9_]+, (gauge|counter), \S.*$`)
	failing := regexp.MustCompile(`(?m)^(DCGM_FI_PROF_.*) \S+$`).
		ReplaceAllString(simulated(t, func(*dcgmsim.Config) {}), "$1 NaN")
	for name, body := range map[string]string{
		"profiling fails":              boardOfModel(failing, "NVIDIA H100 80GB HBM3", "_NVLINK_"),
		"profiling and no NVLink":      boardOfModel(failing, "NVIDIA L40S", "_NVLINK_"),
		"only a temperature":           "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\",modelName=\"NVIDIA H100 80GB HBM3\"} 30\n",
		"a new exporter's list":        simulated(t, func(c *dcgmsim.Config) { c.Fields = dcgmsim.FieldsDefault }),
		"an old exporter's list":       simulated(t, func(c *dcgmsim.Config) { c.Style, c.Fields = dcgmsim.Style2, dcgmsim.FieldsDefault }),
		"a consumer GPU's temperature": "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\",modelName=\"NVIDIA GeForce RTX 3090\"} 30\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, out, _ := gpudoctor(t, body, "-json", "-")
			var r report
			require.NoError(t, json.Unmarshal([]byte(out), &r))
			for _, group := range slices.Concat(r.TurnOn.CSV, r.TurnOn.Newer) {
				for _, line := range group.Lines {
					assert.Regexp(t, form, line, group.For)
				}
			}
		})
	}
}

// exporter serves a simulation over HTTP. The caller sets faults.
func exporter(t *testing.T) (*dcgmsim.Server, *httptest.Server) {
	t.Helper()
	config := dcgmsim.NewDefaultConfig()
	config.GPUs = 1
	simulation, err := dcgmsim.New(config)
	require.NoError(t, err)
	sim := dcgmsim.NewServer(simulation, dcgmsim.ServerSettings{})
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		sim.Close()
		server.Close()
	})
	return sim, server
}

func TestExporterIsReadOverHTTP(t *testing.T) {
	_, server := exporter(t)
	for _, path := range []string{"/metrics", "", "/"} {
		status, out, errs := gpudoctor(t, "", server.URL+path)
		assert.Equal(t, exitComplete, status, errs)
		assert.True(t, strings.HasPrefix(out, server.URL+"/metrics\n1 GPU (NVIDIA H100 80GB HBM3)"), "%.100s", out)
	}
}

// gpudoctor prints an error as one line that contains the source and suggests a solution.
func TestUnreadableSourceIsReportedInOneLine(t *testing.T) {
	for _, tt := range []struct {
		fault dcgmsim.Fault
		want  string
	}{
		{dcgmsim.FaultHTTP500, "HTTP status 500 Internal Server Error: exporters since 4.6.0-4.8.3 reject the entire scrape because of one bad row: internal server error"},
		{dcgmsim.FaultEmpty, "the response is empty: the exporter is reloading its csv, or the node has no GPU"},
		{dcgmsim.FaultTruncated, "the response is incomplete"},
		{dcgmsim.FaultGarbage, "the response is an HTML page: does the path end in /metrics?"},
		{dcgmsim.FaultHang, "no complete response within 50ms (-timeout)"},
	} {
		t.Run(string(tt.fault), func(t *testing.T) {
			sim, server := exporter(t)
			sim.Inject(0, tt.fault)
			timeout := "10s"
			if tt.fault == dcgmsim.FaultHang {
				timeout = "50ms"
			}
			status, out, errs := gpudoctor(t, "", "-timeout", timeout, server.URL)
			assert.Equal(t, exitUnread, status)
			assert.Empty(t, out)
			assert.Equal(t, "gpudoctor: "+server.URL+"/metrics: "+tt.want+"\n", errs)
		})
	}
}

func TestResponsesThatAreNotAnExposition(t *testing.T) {
	for want, answer := range map[string]http.HandlerFunc{
		"HTTP status 404 Not Found: does the path end in /metrics?":                                                                   http.NotFound,
		"HTTP status 401 Unauthorized: give credentials with -header 'Authorization: …'":                                              status(http.StatusUnauthorized, ""),
		"HTTP status 503 Service Unavailable: try [31m later":                                                                         status(http.StatusServiceUnavailable, "try\n\x1b[31m later"),
		"no line is a metric; line 1 is the first of 2 that cannot be read":                                                           status(http.StatusOK, "{\n}"),
		"2 metrics, none of them of dcgm-exporter, device-metrics-exporter, tpu-device-plugin, neuron-monitor, xpumd or npu-exporter": status(http.StatusOK, "up 1\nnode_load1{a=\"b\"} 0.5\n"),
		"the exporter is known, but no row has the id of a device":                                                                    status(http.StatusOK, "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 30\n"),
		"the server redirects to another host; use that URL if you trust it":                                                          http.RedirectHandler("http://example.invalid/metrics", http.StatusFound).ServeHTTP,
		"no line is a metric; line 1 is the first of 1 that cannot be read":                                                           status(http.StatusOK, strings.Repeat("x", exposition.MaxLine+1)),
	} {
		server := httptest.NewServer(answer)
		code, out, errs := gpudoctor(t, "", server.URL+"/metrics")
		assert.Equal(t, exitUnread, code)
		assert.Empty(t, out)
		assert.Equal(t, "gpudoctor: "+server.URL+"/metrics: "+want+"\n", errs)
		server.Close()
	}
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func TestConnectionRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	code, _, errs := gpudoctor(t, "", server.URL)
	assert.Equal(t, exitUnread, code)
	assert.Equal(t, "gpudoctor: "+server.URL+"/metrics: connection refused: is the exporter running, and is this its port (9400)?\n", errs)
}

func TestTLSIsVerifiedUnlessInsecure(t *testing.T) {
	body := simulated(t, func(*dcgmsim.Config) {})
	server := httptest.NewUnstartedServer(status(http.StatusOK, body))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // do not log the expected TLS error
	server.StartTLS()
	defer server.Close()

	code, _, errs := gpudoctor(t, "", server.URL)
	assert.Equal(t, exitUnread, code)
	assert.Contains(t, errs, "(-insecure does not check it)")

	code, _, errs = gpudoctor(t, "", "-insecure", server.URL)
	assert.Equal(t, exitComplete, code, errs)

	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	_, _, errs = gpudoctor(t, "", strings.Replace(plain.URL, "http:", "https:", 1))
	assert.Contains(t, errs, "the port does not use TLS: try http://")
}

func TestHeadersAndCredentialsAreSentOnlyToTheExporter(t *testing.T) {
	var got http.Header
	var host string
	body := simulated(t, func(*dcgmsim.Config) {})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, host = r.Header, r.Host
		status(http.StatusOK, body)(w, r)
	}))
	defer server.Close()

	code, _, errs := gpudoctor(t, "", "-header", "X-Scope: a:b", "--header=Host: exporter.internal", server.URL)
	require.Equal(t, exitComplete, code, errs)
	assert.Equal(t, "a:b", got.Get("X-Scope"))
	assert.Equal(t, "exporter.internal", host)

	withPassword := strings.Replace(server.URL, "://", "://user:secret@", 1)
	code, out, errs := gpudoctor(t, "", withPassword)
	require.Equal(t, exitComplete, code, errs)
	assert.Equal(t, "Basic dXNlcjpzZWNyZXQ=", got.Get("Authorization"))
	assert.NotContains(t, out, "secret")

	server.Close()
	_, _, errs = gpudoctor(t, "", withPassword)
	assert.NotContains(t, errs, "secret")
	assert.Contains(t, errs, "user:xxxxx@")
}

func TestWrongCommandLines(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "nothing.prom")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"check"}, "want one URL, FILE or - after the flags (got 0); see gpudoctor help"},
		{[]string{"a", "b"}, "want one URL, FILE or - after the flags (got 2); see gpudoctor help"},
		{[]string{"capture", "a", "b"}, "want one URL, FILE or - after the flags (got 2); see gpudoctor help"},
		{[]string{"lint"}, "want at least one FILE after the flags; see gpudoctor help lint"},
		{[]string{"-jsn", "-"}, "flag provided but not defined: -jsn"},
		{[]string{"-timeout", "15", "-"}, `invalid value "15" for flag -timeout: want a duration such as 15s`},
		{[]string{"-timeout", "0s", "-"}, "-timeout must be positive (got 0s)"},
		{[]string{"-header", "Authorization", "-"}, `invalid value "Authorization" for flag -header: want NAME: VALUE`},
		{[]string{missing}, `"` + missing + `" is neither a file nor a URL; want http://HOST:9400/metrics`},
		{[]string{"localhost:9400"}, `"localhost:9400" is neither a file nor a URL; want http://HOST:9400/metrics`},
		{[]string{"ftp://localhost"}, `"ftp://localhost": want http://HOST:9400/metrics or https://`},
		{[]string{"http://"}, `"http:": want http://HOST:9400/metrics or https://`},
		{[]string{"http://a b/"}, "the URL is invalid; want http://HOST:9400/metrics"},
		{[]string{t.TempDir()}, "is a directory"},
	} {
		code, out, errs := gpudoctor(t, "", tt.args...)
		assert.Equal(t, exitUnread, code, tt.args)
		assert.Empty(t, out)
		assert.Contains(t, errs, tt.want)
		assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
	}
}

func TestHelpFlagSucceeds(t *testing.T) {
	code, out, errs := gpudoctor(t, "", "check", "-h")
	assert.Equal(t, exitComplete, code)
	assert.Empty(t, out)
	for _, flag := range []string{"-json", "-insecure", "-header header", "-timeout"} {
		assert.Contains(t, errs, flag)
	}
}

func TestHelpCommand(t *testing.T) {
	for command, args := range map[string][]string{
		"usage: gpudoctor COMMAND": {"help"},
		"usage: gpudoctor check":   {"help", "check"},
		"usage: gpudoctor lint":    {"help", "lint"},
		"usage: gpudoctor capture": {"help", "capture"},
		"usage: gpudoctor top":     {"help", "top"},
		"usage: gpudoctor verify":  {"help", "verify", "me"},
	} {
		code, out, errs := gpudoctor(t, "", args...)
		assert.Equal(t, exitComplete, code)
		assert.Empty(t, out)
		assert.True(t, strings.HasPrefix(errs, command), errs)
	}
}

func TestHelpOfAnUnknownCommandListsTheCommands(t *testing.T) {
	for _, args := range [][]string{{"help", "nosuch"}, {"help", "nosuch", "top"}, {"help", "main.go"}} {
		code, out, errs := gpudoctor(t, "", args...)
		assert.Equal(t, exitUnread, code, args)
		assert.Empty(t, out)
		assert.Equal(t, fmt.Sprintf("gpudoctor: %q is not a command; the commands are capture, check, lint, top, verify, version, help\n", args[1]), errs)
	}
	for _, args := range [][]string{{"help", "help"}, {"help", "version"}, {"help", "-h"}} {
		code, out, errs := gpudoctor(t, "", args...)
		assert.Equal(t, exitComplete, code, args)
		assert.Empty(t, out)
		assert.True(t, strings.HasPrefix(errs, "usage: gpudoctor COMMAND"), errs)
	}
}

func TestAMistypedCommandIsNotAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("tops", []byte("DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-1\"} 30\n"), 0o600))
	for first, want := range map[string]string{
		"lnt":      "gpudoctor: \"lnt\" is neither a command, a file nor a URL; did you mean lint?\n",
		"verfy":    "gpudoctor: \"verfy\" is neither a command, a file nor a URL; did you mean verify?\n",
		"Version":  "gpudoctor: \"Version\" is neither a command, a file nor a URL; did you mean version?\n",
		"tops":     "",
		"node.txt": "gpudoctor: \"node.txt\" is neither a file nor a URL; want http://HOST:9400/metrics\n",
	} {
		_, _, errs := gpudoctor(t, "", first)
		assert.Equal(t, want, errs)
	}
}

func TestUsageIsPrintedWithoutACommand(t *testing.T) {
	code, out, errs := gpudoctor(t, "")
	assert.Equal(t, exitUnread, code)
	assert.Empty(t, out)
	assert.True(t, strings.HasPrefix(errs, "usage: gpudoctor COMMAND"), errs)
	body := simulated(t, func(*dcgmsim.Config) {})
	_, bare, _ := gpudoctor(t, body, "-")
	_, check, _ := gpudoctor(t, body, "check", "-")
	assert.Equal(t, check, bare, "a URL, a file or - is checked")
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "-version", "--version"} {
		code, out, errs := gpudoctor(t, "", arg)
		assert.Equal(t, exitComplete, code)
		assert.Equal(t, "gpudoctor version "+version+"\n", out)
		assert.Empty(t, errs)
	}
}

func TestSkippedLinesAreReported(t *testing.T) {
	body := simulated(t, func(*dcgmsim.Config) {})
	_, out, _ := gpudoctor(t, "DCGM_FI_DEV_VBIOS_VERSION{gpu=\"0\"} ERROR - FAILED TO CONVERT TO STRING\n"+body, "-")
	assert.Contains(t, out, "1 line cannot be read, line 1 first.")
}

// The collector skips lines that are too long. The commands that read an exposition do the same.
func TestLinesThatAreTooLongAreSkipped(t *testing.T) {
	body := simulated(t, func(*dcgmsim.Config) {})
	first, rest, _ := strings.Cut(body, "\n")
	long := "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\",pod=\"" + strings.Repeat("x", exposition.MaxLine) + "\"} 30\n"
	body = first + "\n" + long + rest

	status, out, errs := gpudoctor(t, body, "check", "-")
	assert.Equal(t, exitComplete, status)
	assert.Empty(t, errs)
	assert.Contains(t, out, "1 line cannot be read, line 2 first.")

	status, out, errs = gpudoctor(t, body, "check", "-csv", "-")
	_, want, _ := gpudoctor(t, first+"\n"+rest, "check", "-csv", "-")
	assert.Equal(t, exitComplete, status)
	assert.Empty(t, errs)
	assert.Equal(t, want, out)

	status, out, errs = gpudoctor(t, body, "capture", "-")
	_, want, _ = gpudoctor(t, first+"\n"+rest, "capture", "-")
	assert.Equal(t, exitComplete, status)
	assert.Equal(t, "gpudoctor: dropped 1 line that cannot be parsed or belong to no known exporter\n", errs)
	assert.Equal(t, want, out)
}

func TestControlCharactersAreEscaped(t *testing.T) {
	_, out, _ := gpudoctor(t, "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\",modelName=\"\x1b]0;owned\x07H100\",device=\"\x1b[2J\"} 1\n", "-")
	assert.NotContains(t, out, "\x1b")
	assert.Contains(t, out, "(]0;ownedH100)")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAFailedWriteOfTheReportIsAnError(t *testing.T) {
	var errs bytes.Buffer
	body := simulated(t, func(*dcgmsim.Config) {})
	assert.Equal(t, exitUnread, run(t.Context(), []string{"-"}, strings.NewReader(body), brokenPipe{}, &errs))
	assert.Equal(t, "gpudoctor: broken pipe\n", errs.String())
}

func TestTableLinesAreShort(t *testing.T) {
	for _, style := range dcgmsim.Styles() {
		body := simulated(t, func(c *dcgmsim.Config) { c.Style, c.Fields = style, dcgmsim.FieldsDefault })
		_, out, _ := gpudoctor(t, body, "-")
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "DCGM_") && !strings.HasPrefix(line, "#") {
				assert.LessOrEqual(t, len([]rune(line)), 130, line)
			}
		}
	}
}

func TestUnmatchedChipNumbersAreReported(t *testing.T) {
	const chip = `{accelerator_id="88-%d",make="cloud-tpu",model="tpu-v5p-slice"}`
	body := fmt.Sprintf("duty_cycle_node"+chip+" 50\nduty_cycle_node"+chip+" 60\ntensorcore_utilization_node"+chip+" 10\n", 404, 405, 0)
	status, out, errs := gpudoctor(t, body, "-")
	assert.Equal(t, exitMissing, status, errs)
	assert.Contains(t, out, "1 GPU (tpu-v5p-slice), tpu-device-plugin")
	assert.Contains(t, out, "2 rows do not identify a device")
}

func TestDevicesOfAMDThatShareAUUIDAreTwoDevices(t *testing.T) {
	const gpu = `{gpu_id="%d",gpu_partition_id="%d",gpu_uuid="U",serial_number="S",card_model="X",hostname="h"}`
	body := fmt.Sprintf("gpu_gfx_busy_instantaneous"+gpu+" 50\ngpu_gfx_busy_instantaneous"+gpu+" 60\n", 0, 0, 1, 1)
	_, out, _ := gpudoctor(t, body, "-")
	assert.Contains(t, out, "1 board, 2 partitions (X)")
}
