package diagnose

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
)

// The lines function returns the field names in all CSV lines that a report recommends.
func lines(r *Report) []string {
	var out []string
	for _, group := range r.TurnOn.CSV {
		for _, l := range group.Lines {
			name, _, _ := strings.Cut(l, ",")
			out = append(out, strings.TrimPrefix(name, "DCGM_FI_"))
		}
	}
	return out
}

func TestAdviceNamesEachMissingFieldOnce(t *testing.T) {
	r := expose(t, "FB_USED 1 "+l4, "PROF_DRAM_ACTIVE 0 "+l4).Report()
	got := lines(r)
	seen := map[string]bool{}
	for _, l := range got {
		assert.False(t, seen[l], "%s twice", l)
		seen[l] = true
	}
	assert.Subset(t, got, []string{"DEV_FB_FREE", "DEV_POWER_VIOLATION", "PROF_GR_ENGINE_ACTIVE", "DCGM_EXP_XID_ERRORS_COUNT"})
	assert.NotContains(t, got, "DEV_FB_USED", "it is already exposed")
	assert.NotContains(t, got, "PROF_DRAM_ACTIVE", "it is already exposed")
	assert.NotContains(t, got, "PROF_NVLINK_TX_BYTES", "the model has no NVLink")
	assert.NotContains(t, got, "PROF_PIPE_INT_ACTIVE", "optional")
}

func TestAdviceDependsOnTheExporter(t *testing.T) {
	for _, tt := range []struct {
		name          string
		row           string
		lines, absent []string
		setting       string
	}{
		{
			"an old one knows the mask by its old name, and no exact times",
			"GPU_TEMP 30 UUID=GPU-1 Hostname=n",
			[]string{"DEV_CLOCK_THROTTLE_REASONS", "DEV_XID_ERRORS"},
			[]string{"DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "DCGM_EXP_XID_ERRORS_COUNT"},
			"dcgm-exporter 4.x",
		},
		{
			"one that may be a 3.x or a 4.x gets both names",
			"GPU_TEMP 30 UUID=GPU-1 Hostname=n pci_bus_id=0",
			[]string{"DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "DCGM_EXP_XID_ERRORS_COUNT"},
			[]string{"DCGM_EXP_XID_ERRORS_TOTAL"},
			"If the exporter is a 3.x",
		},
		{
			"one whose labels are in lowercase may be a 3.x as well",
			"GPU_TEMP 30 uuid=GPU-1 hostname=n pci_bus_id=0 modelname=NVIDIA_L4",
			[]string{"DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "DCGM_EXP_XID_ERRORS_COUNT"},
			[]string{"DCGM_EXP_XID_ERRORS_TOTAL"},
			"If the exporter is a 3.x",
		},
		{
			"a new one has exact counts of XIDs",
			"GPU_TEMP 30 UUID=GPU-1 hostname=n pci_bus_id=0",
			[]string{"DCGM_EXP_XID_ERRORS_TOTAL", "DCGM_EXP_XID_ERRORS_COUNT"},
			[]string{"DEV_CLOCK_THROTTLE_REASONS"},
			"DCGM_EXPORTER_COLLECTORS",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := expose(t, tt.row).Report()
			assert.Subset(t, lines(r), tt.lines)
			for _, l := range tt.absent {
				assert.NotContains(t, lines(r), l)
			}
			assert.Contains(t, strings.Join(r.TurnOn.Settings, "\n"), tt.setting)
		})
	}
}

// The exporter in this test is too old to support some fields.
func TestAdviceListsLinesOfNewerVersionsSeparately(t *testing.T) {
	r := expose(t, "GPU_TEMP 30 UUID=GPU-1 Hostname=n").Report()
	assert.NotContains(t, lines(r), "DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "it does not support the field")
	require.Len(t, r.TurnOn.Newer, 2)
	newer := r.TurnOn.Newer[0]
	assert.Equal(t, "gpu.clock.event.time", newer.For)
	assert.Equal(t, []string{"gpu.saturation.throttle.time.ratio"}, newer.Feeds)
	assert.Len(t, newer.Lines, 5)
	assert.Contains(t, newer.Lines[0], "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS, counter, ")
	assert.Equal(t, "gpu.recovery.action", r.TurnOn.Newer[1].For)

	assert.Empty(t, expose(t, "GPU_TEMP 30 "+h100).Report().TurnOn.Newer, "the csv of an exporter that may be a 4.x contains them")
}

// Each NVLink generation has its own counters.
func TestAdviceNamesTheNVLinkErrorFieldsOfTheGeneration(t *testing.T) {
	lanes := []string{
		"DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
		"DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
	}
	hopper := []string{"DEV_NVLINK_ERROR_DL_CRC", "DEV_NVLINK_ERROR_DL_REPLAY", "DEV_NVLINK_ERROR_DL_RECOVERY"}
	blackwell := []string{"DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS"}
	for model, want := range map[string][]string{
		"NVIDIA_A100-SXM4-80GB": lanes, "Tesla_V100-SXM2-16GB": lanes, "something_new": lanes,
		"NVIDIA_H100_80GB_HBM3": hopper, "NVIDIA_H200": hopper, "NVIDIA_GH200_480GB": hopper, "NVIDIA_H20": hopper,
		"NVIDIA_B200": blackwell, "NVIDIA_GB200": blackwell, "NVIDIA_B300_SXM6_AC": blackwell,
		"NVIDIA_L4": nil, "NVIDIA_A40": nil, "NVIDIA_H200_NVL": nil,
	} {
		t.Run(model, func(t *testing.T) {
			row := "GPU_TEMP 30 UUID=GPU-1 pci_bus_id=0 hostname=n modelName=" + model
			var got []string
			for _, l := range lines(expose(t, row).Report()) {
				if strings.Contains(l, "_NVLINK_") && strings.HasPrefix(l, "DEV_") {
					got = append(got, l)
				}
			}
			assert.ElementsMatch(t, want, got)
		})
	}
	var newer []string
	report := expose(t, "GPU_TEMP 30 UUID=GPU-1 Hostname=n modelName=NVIDIA_H100_80GB_HBM3").Report()
	for _, group := range report.TurnOn.Newer {
		newer = append(newer, group.Lines...)
	}
	assert.Contains(t, strings.Join(newer, "\n"), "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC, counter, ", "an exporter before 4.x rejects the line")
	assert.Contains(t, strings.Join(report.TurnOn.Settings, "\n"), "NVLink errors of Hopper and Blackwell: dcgm-exporter 4.x")
	maybe := expose(t, "GPU_TEMP 30 UUID=GPU-1 pci_bus_id=0 Hostname=n modelName=NVIDIA_H100_80GB_HBM3").Report()
	assert.Contains(t, strings.Join(maybe.TurnOn.Settings, "\n"), "omit DCGM_FI_DEV_CLOCKS_EVENT_REASON_*_NS, DCGM_FI_DEV_NVLINK_ERROR_DL_* and")
}

func TestAFieldWithoutAValueHasAdvice(t *testing.T) {
	with := func(rows ...string) string { return strings.Join(expose(t, rows...).Report().TurnOn.Settings, "\n") }
	assert.Contains(t, with("UNCORRECTABLE_REMAPPED_ROWS 9223372036854775794 "+h100), "dcgmi dmon")
	assert.NotContains(t, with("UNCORRECTABLE_REMAPPED_ROWS 0 "+h100), "dcgmi dmon")
}

// If a board cannot provide a signal, there is nothing to change in the configuration of its
// exporter.
func TestReportIsCompleteIfTheHardwareDoesNotSupportTheMissingSignals(t *testing.T) {
	const noNVLink, noProfiling = 1, 2
	for model, lacks := range map[string]int{
		"NVIDIA_L4": noNVLink, "NVIDIA_L40": noNVLink, "NVIDIA_L40S": noNVLink, "Tesla_T4": noNVLink,
		"NVIDIA_A2": noNVLink, "NVIDIA_A10": noNVLink, "NVIDIA_A16": noNVLink, "NVIDIA_RTX_A4000": noNVLink,
		"NVIDIA_RTX_6000_Ada_Generation": noNVLink, "NVIDIA_RTX_PRO_6000_Blackwell_Server_Edition": noNVLink,
		"NVIDIA_GeForce_RTX_5090": noNVLink, "NVIDIA_GeForce_RTX_4090": noNVLink | noProfiling, "Tesla_P40": noNVLink | noProfiling,
		"NVIDIA_H100_80GB_HBM3": 0, "NVIDIA_GeForce_RTX_3090": noProfiling,
	} {
		t.Run(model, func(t *testing.T) {
			labels := " UUID=GPU-1 pci_bus_id=0 Hostname=n modelName=" + model
			rows := []string{"MEMORY_TEMP 0" + labels, "POWER_USAGE 3 pod=p namespace=ns" + labels}
			without := func(unwanted func(*catalogue.Field) bool) (out []string) {
				out = append(out, rows...)
				for _, f := range dcgm.Exporter.Fields() {
					if name := dcgm.ListedName(f); name != "" && name != "DCGM_FI_DEV_MEMORY_TEMP" && !unwanted(f) {
						out = append(out, name+" 1"+labels)
					}
				}
				return out
			}
			r := expose(t, without(func(f *catalogue.Field) bool {
				return lacks&noNVLink != 0 && dcgm.AdviceFor(f.ID).NVLink || lacks&noProfiling != 0 && dcgm.AdviceFor(f.ID).Profiling
			})...).Report()
			assert.True(t, r.Complete(), "the memory sensor, rows per process, and fields that the model does not support")
			assert.Empty(t, r.TurnOn.CSV)
			if lacks&noNVLink == 0 && lacks&noProfiling == 0 {
				assert.False(t, expose(t, without(func(f *catalogue.Field) bool { return dcgm.AdviceFor(f.ID).NVLink })...).Report().Complete(), "a model that has NVLink")
			}
			assert.False(t, expose(t, rows...).Report().Complete())
		})
	}
}

func TestDevicesAreInOrder(t *testing.T) {
	r := expose(t, "GPU_TEMP 1 UUID=GPU-c device=nvidia10", "GPU_TEMP 1 UUID=GPU-b device=nvidia9",
		"GPU_TEMP 1 UUID=GPU-a device=nvidia1 GPU_I_ID=10", "GPU_TEMP 1 UUID=GPU-a device=nvidia1 GPU_I_ID=9 GPU_I_PROFILE=1g.5gb").Report()
	var ids []string
	for _, d := range r.Devices {
		ids = append(ids, d.ID+" "+d.Kind)
	}
	assert.Equal(t, []string{"GPU-a mig_board", "GPU-a/gi9 mig_instance", "GPU-a/gi10 mig_instance", "GPU-b gpu", "GPU-c gpu"}, ids)
	assert.Equal(t, "1g.5gb", r.Devices[1].Profile)
}

func TestExporterVersionIsDetected(t *testing.T) {
	for row, want := range map[string]string{
		"GPU_TEMP 1 UUID=GPU-1 Hostname=n":                   "before 3.3.7-3.5.0",
		"GPU_TEMP 1 uuid=GPU-1 pci_bus_id=0 Hostname=n":      "3.3.7-3.5.0 to 4.5.3-4.8.2",
		"GPU_TEMP 1 UUID=GPU-1 pci_bus_id=0 hostname=n":      "4.6.0-4.8.3 or later",
		"FB_USED_BYTES 1 UUID=GPU-1 pci_bus_id=0 hostname=n": "4.7.0-4.9.0 or later",
		"NVLINK_TX_BYTES_TOTAL 1 gpu_uuid=1 hostname=n":      "", // rows of links have different label names
		"GPU_TEMP 1 gpu=0 Hostname=n":                        "",
		"other_metric 1 UUID=GPU-1 pci_bus_id=0 hostname=n":  "",
		"GPU_TEMP 1 UUID=GPU-1 DCGM_FI_DRIVER_VERSION=535.1": "before 3.3.7-3.5.0",
		"SOMETHING_NEW 1 UUID=GPU-1 pci_bus_id=0 hostname=n": "4.6.0-4.8.3 or later",

		// If a storage backend converted label names to lowercase, "Hostname" and "hostname" cannot
		// be distinguished.
		"GPU_TEMP 1 uuid=GPU-1 pci_bus_id=0 hostname=n modelname=L4": "3.3.7-3.5.0 or later",
		"GPU_TEMP 1 uuid=GPU-1 pci_bus_id=0 modelname=L4":            "3.3.7-3.5.0 or later",
		"GPU_TEMP 1 uuid=GPU-1 hostname=n modelname=L4":              "",
		// A pod label may have the same name as a label in lowercase, or as the other host label.
		"GPU_TEMP 1 UUID=GPU-1 pci_bus_id=0 hostname=n modelName=L4 modelname=llama": "4.6.0-4.8.3 or later",
		"GPU_TEMP 1 UUID=GPU-1 Hostname=n modelName=L4 modelname=llama":              "before 3.3.7-3.5.0",
		"GPU_TEMP 1 UUID=GPU-1 pci_bus_id=0 Hostname=n hostname=m":                   "3.3.7-3.5.0 or later",
		// Without a host label, pci_bus_id is the only label that depends on the version.
		"GPU_TEMP 1 UUID=GPU-1 pci_bus_id=0": "3.3.7-3.5.0 or later",
	} {
		assert.Equal(t, want, expose(t, row).Report().Exporter.Version, row)
	}
}

func TestWarnings(t *testing.T) {
	const pod = " pod=p namespace=ns container=c "
	const other = " pod=q namespace=ns container=c "
	for _, tt := range []struct {
		name string
		rows []string
		want []string
	}{
		{"nothing is odd", []string{"GPU_TEMP 30 " + l4, "HELP POWER_VIOLATION Throttling duration (in ns).", "TYPE PROF_PCIE_TX_BYTES gauge"}, nil},
		{"HELP says microseconds", []string{"GPU_TEMP 30 " + l4, "HELP POWER_VIOLATION Throttling duration due to power constraints (in us)."}, []string{"nanoseconds"}},
		{"TYPE says counter", []string{"GPU_TEMP 30 " + l4, "TYPE PROF_PCIE_TX_BYTES counter", "TYPE POWER_VIOLATION counter"}, []string{"rates_typed_counter"}},
		{"pods repeat a value", []string{"GPU_TEMP 30" + pod + l4, "GPU_TEMP 30" + other + l4}, []string{"repeated_rows"}},
		{"pods have values of their own", []string{"FB_USED 9 " + l4, "FB_USED 4" + pod + l4, "FB_USED 4" + other + l4}, nil},
		{"one pod with and without its uid", []string{"GPU_TEMP 30" + pod + l4, "GPU_TEMP 30 pod_uid=u" + pod + l4}, nil},
		{"activity is 0 under load", []string{"GPU_UTIL 90 " + l4, "PROF_GR_ENGINE_ACTIVE 0 " + l4, "PROF_DRAM_ACTIVE 0 " + l4}, []string{"false_zeros"}},
		{"activity is 0 under load, as a ratio", []string{"GPU_UTIL_RATIO 0.9 " + l4, "PROF_GR_ENGINE_ACTIVE 0 " + l4}, []string{"false_zeros"}},
		{"activity is 0 while idle", []string{"GPU_UTIL 9 " + l4, "PROF_GR_ENGINE_ACTIVE 0 " + l4}, nil},
		{"some activity", []string{"GPU_UTIL 90 " + l4, "PROF_GR_ENGINE_ACTIVE 0.9 " + l4, "PROF_SM_ACTIVE 0 " + l4}, nil},
		{"no use of tensor cores under load", []string{"GPU_UTIL 95 " + l4, "PROF_PIPE_TENSOR_ACTIVE 0 " + l4}, nil},
		{"no use of tensor cores and memory under load", []string{"GPU_UTIL 95 " + l4, "PROF_PIPE_TENSOR_ACTIVE 0 " + l4, "PROF_DRAM_ACTIVE 0 " + l4}, nil},
		{"no SM is active under load", []string{"GPU_UTIL 95 " + l4, "PROF_SM_ACTIVE 0 " + l4, "PROF_PIPE_TENSOR_ACTIVE 0 " + l4}, []string{"false_zeros"}},
		{"no SM is active, but the memory is", []string{"GPU_UTIL 95 " + l4, "PROF_SM_ACTIVE 0 " + l4, "PROF_DRAM_ACTIVE 0.1 " + l4}, nil},
		{"PCIe is 0 under load", []string{"PROF_GR_ENGINE_ACTIVE 0.9 " + l4, "PROF_PCIE_TX_BYTES 0 " + l4, "PROF_PCIE_RX_BYTES 0 " + l4}, []string{"false_zeros_pcie"}},
		{"PCIe is 0 in one direction", []string{"PROF_GR_ENGINE_ACTIVE 0.9 " + l4, "PROF_PCIE_TX_BYTES 0 " + l4, "PROF_PCIE_RX_BYTES 8 " + l4}, nil},
		{"sentinels leak", []string{"FB_USED 9223372036854775794 " + l4}, []string{"no_values"}},
		{"a Prometheus in between", []string{"GPU_TEMP 30 exported_pod=p pod=x job=j instance=10.0.0.1:9400 " + l4}, []string{"relayed"}},
		{"a Prometheus in between, and a free GPU", []string{"GPU_TEMP 30 exported_pod=p exported_namespace=ns pod=x namespace=mon job=j instance=10.0.0.1:9400 " + l4, "GPU_TEMP 30 pod=x namespace=mon UUID=GPU-2 Hostname=n"}, []string{"relayed", "exporter_as_holder"}},
		{"the exporter's own pod, which is called as its service", []string{"GPU_TEMP 30 job=j instance=10.0.0.1:9400 service=watch pod=watch-8x2kp namespace=mon " + l4}, []string{"exporter_as_holder"}},
		{"one exporter whose host another label hides, in both orders", []string{"GPU_TEMP 30 UUID=GPU-1 Hostname=a hostname=b", "GPU_UTIL 30 UUID=GPU-1 hostname=b Hostname=a"}, nil},
		{"the exporter's own pod", []string{"GPU_TEMP 30 job=dcgm pod=dcgm-exporter-8x namespace=mon " + l4}, []string{"exporter_as_holder"}},
		{"a workload that is called as the exporter", []string{"GPU_TEMP 30 pod=dcgm-exporter-8x namespace=team " + l4}, nil},
		{"a pod without its namespace", []string{"GPU_TEMP 30 pod=p " + l4}, nil},
		{"a placeholder's pod", []string{"GPU_TEMP 30 pod=x namespace=runai-reservation " + l4}, []string{"reservation_as_holder"}},
		{"the claim of an instance on a board", []string{"GPU_TEMP 30 dra_claim_name=c dra_driver_name=d dra_pool_name=n dra_device_name=g dra_mig_device_uuid=MIG-1 " + l4}, []string{"claim_on_board"}},
		{"the claim of an instance on the instance", []string{"GPU_TEMP 30 dra_mig_device_uuid=MIG-1 " + mig7}, nil},
		{"the host is a pod", []string{"GPU_TEMP 30 UUID=GPU-1 Hostname=nvidia-dcgm-exporter-8x"}, []string{"host_is_a_pod"}},
		{"the host is a container of Docker", []string{"GPU_TEMP 30 UUID=GPU-1 Hostname=4f1b2c3d9e8a"}, []string{"host_is_a_container"}},
		{"the host is a number", []string{"GPU_TEMP 30 UUID=GPU-1 Hostname=202611271200"}, nil},
		{"the host is localhost", []string{"GPU_TEMP 30 UUID=GPU-1 Hostname=localhost"}, []string{"host_is_localhost"}},
		{"no host", []string{"GPU_TEMP 30 UUID=GPU-1"}, []string{"no_host"}},
		{"two exporters by host", []string{"GPU_TEMP 30 UUID=GPU-1 Hostname=a", "GPU_TEMP 30 UUID=GPU-1 Hostname=b"}, []string{"two_exporters"}},
		{"two exporters by target", []string{"GPU_TEMP 30 instance=a:9400 " + l4, "GPU_TEMP 30 instance=b:9400 " + l4}, []string{"two_exporters"}},
		{"a series twice", []string{"GPU_TEMP 30 " + l4, "GPU_TEMP 31 " + l4}, []string{"duplicate_series"}},
		{"no UUID", []string{"GPU_TEMP 30 gpu=0"}, []string{"no_uuid"}},
		{"memory bandwidth that reads as occupancy", []string{"MEMORY_UTIL_RATIO 0.3 UUID=GPU-1 hostname=n"}, []string{"memory_util_is_bandwidth"}},
		{"another vendor's GPU", []string{"GPU_TEMP 30 UUID=1c8f hostname=n modelName=MTT-S4000"}, []string{"other_vendor"}},
		{"rows of CPUs and switches need no UUID", []string{"GPU_TEMP 30 " + l4, "DCGM_FI_DEV_CPU_UTIL_TOTAL 1 cpu=0", "DCGM_FI_DEV_NVSWITCH_X 1 nvswitch=nvswitch0"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, w := range expose(t, tt.rows...).Report().Warnings {
				got = append(got, w.Code)
				assert.NotContains(t, w.Text, "%!", "a wrong format")
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func TestLongDeviceListsAreAbbreviated(t *testing.T) {
	var rows []string
	for i := range 9 {
		rows = append(rows, fmt.Sprintf("GPU_TEMP 30 UUID=GPU-%d device=nvidia%d Hostname=a", i, i), fmt.Sprintf("GPU_TEMP 30 UUID=GPU-%d device=nvidia%d Hostname=b", i, i))
	}
	warnings := expose(t, rows...).Report().Warnings
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0].Text, "nvidia0, nvidia1, nvidia2, nvidia3 and 5 more: exposed")
}

func TestEmptyListsAreNotNullInJSON(t *testing.T) {
	text, err := json.Marshal((&Exposition{}).Report())
	require.NoError(t, err)
	assert.Contains(t, string(text), `"devices":[]`)
	assert.Contains(t, string(text), `"warnings":[]`)
	assert.Contains(t, string(text), `"csv":[]`)
	assert.Contains(t, string(text), `"newer_csv":[]`)
}

// For any exposition, each device has exactly one verdict for each signal, each missing signal has
// a reason, and the advice contains no CSV line for a field that is already present.
func TestVerdictsOfAllSignals(t *testing.T) {
	fields := dcgm.Exporter.Fields()
	rapid.Check(t, func(t *rapid.T) {
		var e Exposition
		for range rapid.IntRange(0, 40).Draw(t, "rows") {
			var labels []Label
			for _, name := range []string{"UUID", "GPU_I_ID", "pod", "Hostname", "modelName", "pci_bus_id", "nvlink"} {
				if v := rapid.SampledFrom([]string{"", "", "1", "2"}).Draw(t, name); v != "" || name == "UUID" {
					labels = append(labels, Label{Name: name, Value: v})
				}
			}
			e.Add(rapid.SampledFrom(fields).Draw(t, "field").Name, labels, rapid.Float64().Draw(t, "value"))
		}
		r := e.Report()
		for _, s := range r.Signals {
			n := 0
			for _, k := range s.Kinds {
				n += k.Available + k.Missing + k.Elsewhere
			}
			assert.Equal(t, len(r.Devices), n, s.Signal)
			for _, m := range s.Missing {
				assert.NotEmpty(t, m.Reason, s.Signal)
			}
		}
		for _, l := range lines(r) {
			assert.NotEmpty(t, l, "a line without a field")
			if sp, ok := dcgm.Exporter.Lookup("DCGM_FI_" + l); ok {
				assert.Less(t, e.scrape.best[sp.Field.ID], Blank, l)
			}
		}
	})
}
