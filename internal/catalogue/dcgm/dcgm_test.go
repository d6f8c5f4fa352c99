package dcgm

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// dcgm-exporter accepts a line in the counters CSV file only if the line has exactly two commas.
// The name in the line must be a name that exposes the field in its oldest unit.
func TestLinesOfCountersAreAcceptedByExporters(t *testing.T) {
	for _, f := range Exporter.Fields() {
		if AdviceFor(f.ID).Help == "" {
			continue
		}
		line := Line(f, ListedName(f))
		assert.Equal(t, 2, strings.Count(line, ","), line)
		sp, ok := Exporter.Lookup(ListedName(f))
		require.True(t, ok, f.Name)
		assert.Same(t, f, sp.Field)
		assert.Equal(t, f.Unit, sp.Unit, f.Name)
	}
}

// The reference table lists the 328 fields that DCGM 4.6.0 renamed.
func TestEveryRenameOfDCGM46IsInTheTable(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "..", "shared", "reference", "dcgm_aliases_4.6.0.tsv"))
	if err != nil {
		t.Logf("NOT CHECKED against DCGM's own table of renames: %v", err)
		return
	}
	defer file.Close()
	renamed := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		cols := strings.Split(lines.Text(), "\t")
		require.Len(t, cols, 3)
		renamed[cols[1]] = cols[2]
	}
	require.NotEmpty(t, renamed)
	checked := 0
	for _, f := range Exporter.Fields() {
		to, ok := renamed[f.Name]
		if !ok {
			continue
		}
		got, ok := Exporter.Lookup(to)
		if assert.True(t, ok, "%s was renamed to %s", f.Name, to) {
			assert.Same(t, f, got.Field, to)
			checked++
		}
	}
	assert.Greater(t, checked, 20)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]struct {
		field string
		unit  catalogue.Unit
	}{
		"DCGM_FI_DEV_CLOCKS_EVENT_REASONS":    {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", catalogue.Mask},
		"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS":  {"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", catalogue.Mask},
		"DCGM_FI_DEV_FB_USED":                 {"DCGM_FI_DEV_FB_USED", catalogue.MiB},
		"DCGM_FI_DEV_FB_USED_BYTES":           {"DCGM_FI_DEV_FB_USED", catalogue.Byte},
		"DCGM_FI_DEV_GPU_UTIL":                {"DCGM_FI_DEV_GPU_UTIL", catalogue.Percent},
		"DCGM_FI_DEV_GPU_UTIL_RATIO":          {"DCGM_FI_DEV_GPU_UTIL", catalogue.RatioOrPercent},
		"DCGM_FI_DEV_SM_CLOCK_HERTZ":          {"DCGM_FI_DEV_SM_CLOCK", catalogue.Hz},
		"DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", catalogue.Joule},

		"DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL": {"DCGM_FI_DEV_POWER_VIOLATION", catalogue.Second},
		"DCGM_FI_DEV_GPU_LIMIT_THROTTLE_SECONDS_TOTAL": {"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", catalogue.Second},
		"DCGM_FI_PROF_DRAM_UTIL_RATIO":                 {"DCGM_FI_PROF_DRAM_ACTIVE", catalogue.Ratio},
		"DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL":            {"DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", catalogue.ByteCount},
		"DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL":       {"DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", catalogue.ThousandKiBPerSecond},
		"DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL":           {"DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", catalogue.None},
		"dcgm_fb_used":                                 {"DCGM_FI_DEV_FB_USED", catalogue.MiB},

		"DCGM_FI_DEV_GPU_UTIL_RATIO_V2":                       {"DCGM_FI_DEV_GPU_UTIL", catalogue.Ratio},
		"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_COUNT_NS": {"DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", catalogue.Nanosecond},
		"dcgm_fi_dev_gpu_util_ratio_v2":                       {"DCGM_FI_DEV_GPU_UTIL", catalogue.Ratio},
		"dcgm_fi_dev_fb_used_bytes":                           {"DCGM_FI_DEV_FB_USED", catalogue.Byte},
		"dcgm_fi_prof_pcie_tx_bytes":                          {"DCGM_FI_PROF_PCIE_TX_BYTES", catalogue.BytePerSecond},
		"Dcgm_Fi_Prof_Gr_Engine_Active":                       {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", catalogue.Ratio},
	} {
		got, ok := Exporter.Lookup(name)
		require.True(t, ok, name)
		assert.Equal(t, want.field, got.Field.Name, name)
		assert.Equal(t, want.unit, got.Unit, name)
	}
}

func TestOnlyNamesOfTheExporterAreOwned(t *testing.T) {
	for name, want := range map[string]bool{
		"DCGM_FI_DEV_FB_USED": true, "DCGM_FI_DEV_NOT_YET_KNOWN": true, "DCGM_EXP_P2P_STATUS": true,
		"dcgm_fb_used": true, "dcgm_fi_dev_not_yet_known": true, "dcgm_something_else": true, "dcgmi": false, "go_goroutines": false, "": false,
	} {
		_, known := Exporter.Lookup(name)
		assert.Equal(t, want, known || Exporter.OwnsName(name), name)
	}
}

func TestSaturationReasonsAreTheSixOfTheContract(t *testing.T) {
	want := map[string]uint64{
		"sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
		"sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80,
	}
	got := map[string]uint64{}
	for _, r := range SaturationReasons {
		got[r.Part] = r.Mask
	}
	assert.Equal(t, want, got)
}

func TestRowLabels(t *testing.T) {
	for _, tt := range []struct {
		name       string
		labels     map[string]string
		uuid, host string
		gpu, held  bool
		relayed    bool
		holder     catalogue.Holder
	}{
		{
			name:   "current",
			labels: map[string]string{"UUID": "GPU-1", "Hostname": "n1", "pod": "p", "namespace": "ns", "container": "c", "pod_uid": "u"},
			uuid:   "GPU-1", host: "n1", gpu: true, held: true, holder: catalogue.Holder{Namespace: "ns", Pod: "p", UID: "u", Container: "c"},
		},
		{
			name:   "old namespace",
			labels: map[string]string{"uuid": "GPU-1", "hostname": "n1", "pod_name": "p", "pod_namespace": "ns", "container_name": "c"},
			uuid:   "GPU-1", host: "n1", gpu: true, held: true, holder: catalogue.Holder{Namespace: "ns", Pod: "p", Container: "c"},
		},
		{
			name: "relayed by a Prometheus",
			labels: map[string]string{
				"UUID": "GPU-1", "pod": "dcgm-exporter-x", "namespace": "gpu-operator", "container": "exporter",
				"exported_pod": "p", "exported_namespace": "ns", "exported_container": "c",
				"job": "dcgm", "instance": "10.0.0.1:9400",
			},
			uuid: "GPU-1", gpu: true, held: true, relayed: true, holder: catalogue.Holder{Namespace: "ns", Pod: "p", Container: "c"},
		},
		{
			name:   "empty strings are no pod",
			labels: map[string]string{"UUID": "GPU-1", "pod": "", "namespace": "", "container": ""},
			uuid:   "GPU-1", gpu: true,
		},
		{
			name:   "a reservation pod is the pod that the label names",
			labels: map[string]string{"UUID": "GPU-1", "pod": "runai-reservation-gpu-1", "namespace": "runai-reservation", "container": "runai-reservation"},
			uuid:   "GPU-1", gpu: true, held: true, holder: catalogue.Holder{Namespace: "runai-reservation", Pod: "runai-reservation-gpu-1", Container: "runai-reservation"},
		},
		{
			name:   "a container without a pod",
			labels: map[string]string{"UUID": "GPU-1", "container": "trainer"},
			uuid:   "GPU-1", gpu: true, held: true, holder: catalogue.Holder{Name: "trainer"},
		},
		{
			name:   "a container without a pod, relayed by a Prometheus",
			labels: map[string]string{"UUID": "GPU-1", "pod": "dcgm-exporter-x", "namespace": "gpu", "container": "exporter", "exported_container": "trainer", "job": "dcgm", "instance": "10.0.0.1:9400"},
			uuid:   "GPU-1", gpu: true, held: true, relayed: true, holder: catalogue.Holder{Name: "trainer"},
		},
		{
			name:   "a batch job",
			labels: map[string]string{"UUID": "GPU-1", "hpc_job": "4711"},
			uuid:   "GPU-1", gpu: true, held: true, holder: catalogue.Holder{Job: "4711"},
		},
		{
			name:   "a job beside a pod is the pod's",
			labels: map[string]string{"UUID": "GPU-1", "hpc_job": "4711", "pod": "p", "namespace": "ns"},
			uuid:   "GPU-1", gpu: true, held: true, holder: catalogue.Holder{Namespace: "ns", Pod: "p"},
		},
		{
			name:   "a pod without its namespace is nobody",
			labels: map[string]string{"UUID": "GPU-1", "pod": "p", "container": "c"},
			uuid:   "GPU-1", gpu: true,
		},
		{name: "link rows are about a link", labels: map[string]string{"gpu_uuid": "GPU-1", "nvlink": "1"}},
		{name: "switch rows", labels: map[string]string{"nvswitch": "0", "Hostname": "n1"}, host: "n1"},
		{name: "CPU rows reuse the GPU layout", labels: map[string]string{"cpu": "0", "cpucore": "3"}},
		{name: "a UUID of N/A is none", labels: map[string]string{"UUID": "N/A", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": "n1"}, host: "n1"},
		{name: "nor is one of blanks", labels: map[string]string{"UUID": " \t", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": " "}},
		{name: "sentinel texts are no value", labels: map[string]string{"UUID": "<<<NULL>>>", "Hostname": "<<<NOT_FOUND>>>"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := catalogue.NewRow(Exporter)
			for k, v := range tt.labels {
				r.Set(k, v)
			}
			assert.Equal(t, tt.uuid, r.Get(catalogue.RoleUUID))
			assert.Equal(t, tt.host, r.Get(catalogue.RoleHost))
			_, refusal := identify(r)
			assert.Equal(t, tt.gpu, refusal == catalogue.Accepted)
			assert.Equal(t, tt.relayed, r.Relayed())
			h, held := r.Named()
			assert.Equal(t, tt.held, held)
			assert.Equal(t, tt.holder, h)
		})
	}
}

func TestContainersWithTheNameOfAnExporterAreRecognized(t *testing.T) {
	for h, called := range map[catalogue.Holder]bool{
		{Namespace: "gpu-operator", Pod: "nvidia-dcgm-exporter-8x2kq", Container: "nvidia-dcgm-exporter"}: true,
		{Namespace: "mon", Pod: "my-dcgm-exporter-8x2kq", Container: "exporter"}:                          true,
		{Namespace: "mon", Pod: "metrics-8x2kq", Container: "dcgm-exporter"}:                              true,
		{Container: "my-dcgm-exporter-1"}:                                                                 true,
		{Namespace: "ns", Pod: "p", Container: "my-dcgm-exporter-1"}:                                      false,
		{Namespace: "ns", Pod: "p", Container: "exporter"}:                                                false,
		{Namespace: "dcgm-exporter", Pod: "p", Container: "container"}:                                    false,
		{Container: "trainer"}: false,
		{Job: "dcgm-exporter"}: false,
		{}:                     false,
	} {
		assert.Equal(t, called, IsExporter(h), h)
	}
}

func TestOtherVendorsUseTheSameNames(t *testing.T) {
	for _, tt := range []struct {
		uuid, model string
		nvidia      bool
	}{
		{"GPU-c2f76b33-7953-256e-8f33-1343419b1a1c", "NVIDIA L4", true},
		{"GPU-c2f76b33-7953-256e-8f33-1343419b1a1c", "", true},
		{"GPU-c2f76b33-7953-256e-8f33-1343419b1a1c", "Graphics Device", true},
		{"MIG-c2f76b33-7953-256e-8f33-1343419b1a1c", "", true},
		{"c2f76b33-7953-256e-8f33-1343419b1a1c", "Tesla T4", true},
		{"c2f76b33-7953-256e-8f33-1343419b1a1c", "GRID-A100-10C", true},
		{"c2f76b33-7953-256e-8f33-1343419b1a1c", "A100-SXM4-40GB", true},
		{"c2f76b33-7953-256e-8f33-1343419b1a1c", "", false},
		{"c2f76b33-7953-256e-8f33-1343419b1a1c", "MTT S4000", false},
		{"GPU-c2f76b33-7953-256e-8f33-1343419b1a1c", "MTT-S4000", false},
		{"GPU-c2f76b33-7953-256e-8f33-1343419b1a1c", "AMD Instinct MI300X", false},
	} {
		assert.Equal(t, tt.nvidia, isNVIDIA(tt.uuid, tt.model), "%s %s", tt.uuid, tt.model)
	}
}

func TestMIGProfiles(t *testing.T) {
	for name, compute := range map[string]int{
		"1g.10gb": 1, "7g.141gb": 7, "1g.5gb+me": 1, "1c.3g.40gb": 3, "1g.24gb-me": 1, "1g.24gb+me.all": 1,
	} {
		assert.Equal(t, compute, ProfileSlices(name), name)
	}
	for _, name := range []string{"", "1g", "<<<NULL>>>", "0g.5gb", "9g.5gb", "12g.5gb", "1g.5gb+x", "g.gb", "1g.99999999999999999999gb"} {
		assert.Zero(t, ProfileSlices(name), name)
	}
}

func TestTheModelDeterminesTheNumberOfSlices(t *testing.T) {
	for model, compute := range map[string]int{
		"NVIDIA A100-SXM4-40GB": 7, "NVIDIA-A100-SXM4-80GB": 7, "NVIDIA A30": 4, "NVIDIA GH200 144G HBM3e": 7,
		"NVIDIA H100 80GB HBM3": 7, "NVIDIA H100 NVL": 7, "NVIDIA RTX PRO 6000 Blackwell Server Edition": 4,
	} {
		got, ok := ModelSlices(model)
		assert.True(t, ok, model)
		assert.Equal(t, compute, got, model)
	}
	for _, model := range []string{"Tesla T4", "NVIDIA A10", "NVIDIA L40S"} {
		_, ok := ModelSlices(model)
		assert.False(t, ok, model)
	}
}

func TestPropertiesOfModels(t *testing.T) {
	for want, names := range map[Model][]string{
		{Capacities: catalogue.Capacities{PCIe: 63.008e9, NVLink: 450e9}, NVLinkGeneration: 4}: {"NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3", "NVIDIA H200"},
		{Capacities: catalogue.Capacities{PCIe: 63.008e9}, NVLinkGeneration: 4, NVLinkByBridge: true}: {
			"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL",
		},
		{NVLinkGeneration: 4}: {"NVIDIA H20", "NVIDIA H800", "NVIDIA H800 PCIe", "NVIDIA GH200 96GB HBM3"},
		{Capacities: catalogue.Capacities{PCIe: 63.008e9, NVLink: 900e9}, NVLinkGeneration: 5}: {"NVIDIA B200"},
		{Capacities: catalogue.Capacities{NVLink: 900e9}, NVLinkGeneration: 5}:                 {"NVIDIA GB200"},
		{NVLinkGeneration: 5}: {"NVIDIA B300 SXM6 AC", "NVIDIA GB300"},
		{Capacities: catalogue.Capacities{PCIe: 31.504e9, NVLink: 300e9}}:        {"NVIDIA A100-SXM4-40GB"},
		{Capacities: catalogue.Capacities{PCIe: 31.504e9}, NVLinkByBridge: true}: {"NVIDIA A100 80GB PCIe", "NVIDIA A100-PCIE-40GB"},
		{Capacities: catalogue.Capacities{PCIe: 15.76e9, NVLink: 150e9}}:         {"Tesla V100-SXM2-16GB", "Tesla V100-SXM3-32GB"},
		{Capacities: catalogue.Capacities{PCIe: 15.76e9}}:                        {"Tesla V100-DGXS-32GB"},
		{Capacities: catalogue.Capacities{PCIe: 15.76e9}, WithoutNVLink: true}:   {"Tesla T4", "NVIDIA T4", "Tesla V100-PCIE-32GB"},
		{Capacities: catalogue.Capacities{PCIe: 31.504e9}, WithoutNVLink: true}:  {"NVIDIA L40S", "NVIDIA L40"},
		{}: {"NVIDIA A800-SXM4-80GB", "NVIDIA GB10", "NVIDIA TITAN V", "something new", ""},
		{NVLinkByBridge: true}: {
			"NVIDIA A30", "NVIDIA A40", "NVIDIA RTX A4500", "NVIDIA RTX A5000", "NVIDIA RTX A5500", "NVIDIA RTX A6000",
			"Quadro RTX 6000", "Quadro RTX 8000", "Quadro GV100", "NVIDIA TITAN RTX",
		},
		{WithoutNVLink: true}: {
			"NVIDIA A2", "NVIDIA A10", "NVIDIA A10G", "NVIDIA A16", "NVIDIA L4", "NVIDIA L20", "NVIDIA L2", "Tesla V100S-PCIE-32GB",
			"NVIDIA RTX 2000 Ada Generation", "NVIDIA RTX 4000 SFF Ada Generation", "NVIDIA RTX 5880 Ada Generation",
			"NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "NVIDIA RTX PRO 4500 Blackwell",
			"NVIDIA RTX A2000 12GB", "NVIDIA RTX A4000", "NVIDIA T1000 8GB", "Quadro RTX 4000",
			"NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090 D", "NVIDIA GeForce RTX 5070 Ti",
		},
		{WithoutNVLink: true, WithoutProfiling: true}: {
			"NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3080 Ti", "NVIDIA GeForce RTX 2070", "NVIDIA GeForce GTX 1080 Ti",
			"Tesla P40", "Tesla P4", "Tesla P100-PCIE-16GB", "Tesla M60", "Tesla K80",
		},
		{WithoutProfiling: true, NVLinkByBridge: true}: {
			"NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 2080 Ti", "NVIDIA GeForce RTX 2070 SUPER",
		},
		{WithoutProfiling: true}: {"Tesla P100-SXM2-16GB"},
		{Virtual: true}: {
			"GRID A100-10C", "GRID-A100-10C", "GRID T4-1Q", "GRID A100-1-5CME", "GRID M60-0B", "NVIDIA A100-1-5C",
			"NVIDIA H100-20C", "NVIDIA-H100-20C", "NVIDIA H100XM-80C", "NVIDIA H100-1-10CME", "NVIDIA A40-48Q", "NVIDIA A16-2B", "NVIDIA L40S-1A",
			"NVIDIA RTX6000-Ada-48Q", "NVIDIA RTX Pro 6000 Blackwell DC-48Q",
		},
	} {
		for _, name := range names {
			assert.Equal(t, want, LookupModel(name), name)
		}
	}
}

// The expected values are the immediate actions that NVIDIA's catalog recommends.
func TestXIDActionsAreThoseOfNVIDIAsCatalogue(t *testing.T) {
	for action, codes := range map[Action][]int{
		ActionRestartApp: {
			8, 11, 13, 25, 31, 32, 39, 40, 41, 60, 68, 69, 70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 85, 86, 88, 89, 94, 96, 97, 98,
			99, 100, 101, 102, 103, 104, 105, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135, 139,
		},
		ActionContactSupport: {
			1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27, 28, 29, 30, 33, 34, 35, 36, 42, 47, 49, 50,
			51, 52, 53, 55, 56, 57, 58, 59, 61, 65, 73, 81, 87, 90, 91, 111, 112, 113, 114, 115, 116, 117, 118, 122, 123, 124, 125, 138, 142,
		},
		ActionResetGPU:         {46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158},
		ActionRebootNode:       {79},
		ActionRestartVM:        {151},
		ActionCheckConnections: {54},
		ActionUpdateSoftware:   {78},
		ActionWorkflow:         {45, 48, 74, 144, 145, 146, 147, 148, 149, 150, 154, 159},
		ActionNone:             {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161},
		ActionUnstated:         {162, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172},
	} {
		var got []int
		for _, x := range XIDs() {
			if x.Action == action {
				got = append(got, x.Code)
			}
		}
		assert.Equal(t, codes, got, action)
	}
}

func TestXIDsThatOnlyAResetOrARebootClearsAreFatal(t *testing.T) {
	var fatal []int
	for _, x := range XIDs() {
		if x.Fatal {
			fatal = append(fatal, x.Code)
		}
	}
	assert.Equal(t, []int{46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 150, 155, 156, 158}, fatal)
}

func TestXIDsWhoseCodeDoesNotDetermineAResetAreUndecided(t *testing.T) {
	var undecided []int
	for _, x := range XIDs() {
		if x.Undecided {
			undecided = append(undecided, x.Code)
			assert.False(t, x.Fatal, "%d", x.Code)
		}
	}
	assert.Equal(t, []int{144, 145, 146, 149, 154, 159, 167, 169}, undecided)
}

func TestEveryXIDOfTheCatalogueHasAMeaningAndAnAction(t *testing.T) {
	listed := 0
	for _, r := range xidRows {
		listed += len(r.codes)
	}
	assert.Equal(t, lastXID, listed, "each code is in one row")
	for i, x := range XIDs() {
		assert.Equal(t, i+1, x.Code)
		assert.NotEmpty(t, x.Meaning, "%d", x.Code)
		assert.False(t, x.Action == ActionWorkflow && x.Note == "", "%d: Note must state what the workflow depends on", x.Code)
		again, ok := XIDByCode(x.Code)
		assert.True(t, ok)
		assert.Equal(t, x, again)
	}
	for _, code := range []int{-1, 0, lastXID + 1, catalogue.MaxCode} {
		_, ok := XIDByCode(code)
		assert.False(t, ok, "%d", code)
	}
}

func TestTheAdviceOfAnXIDIsShort(t *testing.T) {
	for code, want := range map[int]string{
		79:  "reboot the node; if the error occurs again, contact support",
		109: "reset the GPU",
		162: "the catalogue names no action",
		159: "reset the GPU if it uses unified memory or vGPU, otherwise nothing",
		168: "enable ECC",
		149: "the message decides: nothing, or reset the GPU",
		148: "nothing, regardless of the message",
		150: "always reset the GPU, regardless of the message",
		154: "the message names the action, which covers the adjacent XIDs",
	} {
		x, _ := XIDByCode(code)
		assert.Equal(t, want, x.Advice(), "%d", code)
	}
	assert.Equal(t, "reset_gpu", ActionResetGPU.String())
}

func FuzzRow(f *testing.F) {
	f.Add("UUID", "GPU-1", "pod", "p", "exported_pod", "")
	f.Add("Hostname", "a", "hostname", "b", "HOSTNAME", "c")
	f.Add("gpu_uuid", "<<<NULL>>>", "nvlink", "1", "GPU_I_PROFILE", "1g.5gb")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2, k3, v3 string) {
		a, b := catalogue.NewRow(Exporter), catalogue.NewRow(Exporter)
		a.Set(k1, v1)
		a.Set(k2, v2)
		a.Set(k3, v3)
		if k1 != k2 && k2 != k3 && k1 != k3 {
			b.Set(k3, v3)
			b.Set(k1, v1)
			b.Set(k2, v2)
			if *a != *b {
				t.Fatalf("the order of labels matters: %v, %v", a, b)
			}
		}
		if h, ok := a.Named(); ok && h.Container == "" && h.Job == "" && (h.Pod == "" || h.Namespace == "") {
			t.Fatal("the row has no label of the holder")
		}
		ProfileSlices(v1)
		LookupModel(v1)
		ModelSlices(v2)
	})
}

// DCGM 4.7 exposes fields 1613 to 1650 in base units. The signals computed from the fields in base
// units are the same as those computed from the older fields.
func TestTheFieldsInBaseUnitsOfDCGM47AreInTheTable(t *testing.T) {
	for name, want := range map[string]struct {
		field string
		unit  catalogue.Unit
	}{
		"GPU_UTIL_RATIO_V2": {"GPU_UTIL", catalogue.Ratio}, "ENC_UTIL_RATIO": {"ENC_UTIL", catalogue.RatioOrPercent}, "DEC_UTIL_RATIO": {"DEC_UTIL", catalogue.RatioOrPercent},
		"GPU_POWER_THROTTLE_SECONDS_TOTAL":      {"POWER_VIOLATION", catalogue.Second},
		"GPU_THERMAL_THROTTLE_SECONDS_TOTAL":    {"THERMAL_VIOLATION", catalogue.Second},
		"GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL": {"SYNC_BOOST_VIOLATION", catalogue.Second},
		"GPU_LIMIT_THROTTLE_SECONDS_TOTAL":      {"BOARD_LIMIT_VIOLATION", catalogue.Second},
		"FB_CAPACITY_BYTES":                     {"FB_TOTAL", catalogue.Byte}, "FB_FREE_BYTES": {"FB_FREE", catalogue.Byte},
		"FB_USED_BYTES": {"FB_USED", catalogue.Byte}, "FB_RESERVED_BYTES": {"FB_RESERVED", catalogue.Byte},
	} {
		got, ok := Exporter.Lookup("DCGM_FI_DEV_" + name)
		require.True(t, ok, name)
		assert.Equal(t, "DCGM_FI_DEV_"+want.field, got.Field.Name, name)
		assert.Equal(t, want.unit, got.Unit, name)
	}
	for _, name := range []string{
		"MEMORY_UTIL_RATIO", "GPU_LOW_UTIL_THROTTLE_SECONDS_TOTAL", "GPU_RELIABILITY_THROTTLE_SECONDS_TOTAL", "NVLINK_THROUGHPUT_BYTES_PER_SECOND",
		"GPU_TEMP_LIMIT", "GPU_TEMP_MARGIN_CELSIUS", "GPU_TEMP_TLIMIT", // field 153 contains the margin to a temperature limit
	} {
		_, known := Exporter.Lookup("DCGM_FI_DEV_" + name)
		assert.False(t, known, name)
		assert.True(t, Exporter.OwnsName("DCGM_FI_DEV_"+name), name)
	}
}
