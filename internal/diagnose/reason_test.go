package diagnose

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReasons(t *testing.T) {
	const (
		gpu      = " " + l4
		boardPod = h100 + " pod=p namespace=ns container=c"
		geforce  = " UUID=GPU-1 pci_bus_id=0 modelName=NVIDIA_GeForce_RTX_4090 Hostname=n"
		rtx50    = " UUID=GPU-1 pci_bus_id=0 modelName=NVIDIA_GeForce_RTX_5090 Hostname=n"
		guest    = " UUID=GPU-1 pci_bus_id=0 modelName=GRID_A100-10C Hostname=n"
		guestH   = " UUID=GPU-1 pci_bus_id=0 modelName=NVIDIA_H100-20C Hostname=n"
		a40      = "UUID=GPU-1 pci_bus_id=0 modelName=NVIDIA_A40 Hostname=n"
		b200     = " UUID=GPU-1 pci_bus_id=0 modelName=NVIDIA_B200 Hostname=n"
		old      = " UUID=GPU-1 modelName=Tesla_T4 Hostname=n"
		new483   = " UUID=GPU-1 pci_bus_id=0 modelName=NVIDIA_H100_80GB_HBM3 hostname=n"
	)
	for _, tt := range []struct {
		name   string
		rows   []string
		signal string
		want   string
	}{
		{"a value is a signal", []string{"POWER_USAGE 16" + gpu}, "hw.power", "gpu: yes"},
		{"0 is a value", []string{"GPU_UTIL 0" + gpu}, "hw.gpu.utilization{general}", "gpu: yes"},
		{"0 W is none", []string{"POWER_USAGE 0" + gpu}, "hw.power", "gpu: no_value"},
		{"nor is 0 °C, which every board has a sensor for", []string{"GPU_TEMP 0" + gpu}, "hw.temperature{gpu}", "gpu: no_value"},
		{"a memory of which nothing is used or free is not read", []string{"FB_USED 0" + gpu, "FB_FREE 0" + gpu}, "hw.gpu.memory.usage", "gpu: no_value"},
		{"nor is anything of a board without power, heat and clock", []string{"POWER_USAGE 0" + gpu, "GPU_TEMP 0" + gpu, "SM_CLOCK 0" + gpu, "GPU_UTIL 7" + gpu}, "hw.gpu.utilization{general}", "gpu: unread"},
		{"not even that no error came", []string{"POWER_USAGE 0" + gpu, "GPU_TEMP 0" + gpu, "SM_CLOCK 0" + gpu, "XID_ERRORS 0" + gpu}, "hw.status", "gpu: unread"},
		{"one of the three does not stand for the others", []string{"POWER_USAGE 0" + gpu, "GPU_TEMP 30" + gpu, "SM_CLOCK 0" + gpu, "GPU_UTIL 7" + gpu}, "hw.gpu.utilization{general}", "gpu: yes"},

		{"a profiler that has stopped", []string{"GPU_UTIL 10" + gpu, "PROF_GR_ENGINE_ACTIVE 0" + gpu, "PROF_DRAM_ACTIVE 0" + gpu}, "gpu.dram.active", "gpu: frozen"},
		{"with all its zeros", []string{"GPU_UTIL 10" + gpu, "PROF_GR_ENGINE_ACTIVE 0" + gpu, "PROF_PCIE_TX_BYTES 0" + gpu}, "gpu.pcie.throughput{transmit}", "gpu: frozen"},
		{"leaves the utilization", []string{"GPU_UTIL 10" + gpu, "PROF_GR_ENGINE_ACTIVE 0" + gpu}, "hw.gpu.utilization{general}", "gpu: yes"},
		{"and what is not 0", []string{"GPU_UTIL 10" + gpu, "PROF_GR_ENGINE_ACTIVE 0" + gpu, "PROF_DRAM_ACTIVE 0.1" + gpu}, "gpu.dram.active", "gpu: yes"},
		{"also where a pod holds the GPU", []string{"GPU_UTIL 90 pod=p namespace=ns container=c" + gpu, "PROF_GR_ENGINE_ACTIVE 0 pod=p namespace=ns container=c" + gpu}, "gpu.engine.active", "gpu: frozen"},
		{"a GPU that hardly works may show zeros", []string{"GPU_UTIL 9" + gpu, "PROF_GR_ENGINE_ACTIVE 0" + gpu}, "gpu.engine.active", "gpu: yes"},
		{"zeros of instances are believed", []string{"GPU_UTIL 100 " + mig7, "PROF_GR_ENGINE_ACTIVE 0 " + mig7}, "gpu.engine.active", "mig_board: elsewhere, mig_instance: yes"},

		{"a rate above what the link can carry is no value", []string{"PROF_PCIE_TX_BYTES 9.6e10 " + h100}, "gpu.pcie.throughput{transmit}", "gpu: no_value"},
		{"a little above it is one", []string{"PROF_PCIE_TX_BYTES 9.4e10 " + h100}, "gpu.pcie.throughput{transmit}", "gpu: yes"},
		{"a field that nothing shows is likely not listed", []string{"GPU_TEMP 30" + gpu}, "hw.power", "gpu: likely not_in_csv"},
		{"a sentinel is no value", []string{"POWER_USAGE 9223372036854775794" + gpu}, "hw.power", "gpu: no_value"},
		{"NaN is no value", []string{"POWER_USAGE NaN" + gpu}, "hw.power", "gpu: no_value"},
		{"what cannot be true is no value", []string{"GPU_TEMP 65535" + gpu}, "hw.temperature{gpu}", "gpu: no_value"},
		{"nor is a ratio that no rounding explains", []string{"PROF_DRAM_ACTIVE 14073748835532800" + gpu, "PROF_SM_ACTIVE 0" + gpu}, "gpu.dram.active", "gpu: no_value"},
		{"on no scale", []string{"ENC_UTIL_RATIO 4294967295" + gpu, "FB_USED_BYTES 1" + gpu}, "hw.gpu.utilization{encoder}", "gpu: no_value"},
		{"HELP without a row shows that the field is listed", []string{"HELP POWER_USAGE Power draw (in W).", "GPU_TEMP 30" + gpu}, "hw.power", "gpu: likely no_value"},
		{"of two GPUs of a model one has no value", []string{"POWER_USAGE 16" + gpu, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 modelName=NVIDIA_L4"}, "hw.power", "gpu: yes, gpu: likely no_value"},
		{"only another model shows the field", []string{"POWER_USAGE 16" + gpu, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 modelName=NVIDIA_H100"}, "hw.power", "gpu: yes, gpu: likely others_only"},
		{"a row of a link shows that the field is listed", []string{"NVLINK_ERROR_DL_REPLAY 0 nvlink=1 gpu_uuid=GPU-1", "GPU_TEMP 30 " + h100}, "hw.errors{nvlink_replay}", "gpu: likely no_value"},

		{"a memory temperature of 0 is no sensor", []string{"MEMORY_TEMP 0" + gpu}, "hw.temperature{memory}", "gpu: sensor"},
		{"half of a memory makes no ratio", []string{"FB_USED 1" + gpu}, "hw.gpu.memory.utilization", "gpu: likely not_in_csv"},
		{"half of a memory is usage", []string{"FB_USED 1" + gpu}, "hw.gpu.memory.usage", "gpu: yes"},
		{"a memory of no size makes no ratio", []string{"FB_USED 0" + gpu, "FB_FREE 0" + gpu}, "hw.gpu.memory.utilization", "gpu: no_value"},
		{"a total is a limit", []string{"FB_TOTAL 23034" + gpu}, "hw.gpu.memory.limit", "gpu: yes"},

		{"GPU_UTIL stands in for the engine", []string{"GPU_UTIL 5" + gpu}, "hw.gpu.utilization{general}", "gpu: yes"},
		{"but it is not the engine's activity", []string{"GPU_UTIL 5" + gpu}, "gpu.engine.active", "gpu: likely not_in_csv"},
		{"a ratio of unknown scale is ambiguous", []string{"GPU_UTIL_RATIO 1" + gpu}, "hw.gpu.utilization{general}", "gpu: likely not_in_csv"},
		{"and said to be so where it is the only source", []string{"ENC_UTIL_RATIO 1" + gpu}, "hw.gpu.utilization{encoder}", "gpu: unit"},
		{"another ratio settles the scale", []string{"ENC_UTIL_RATIO 1" + gpu, "DEC_UTIL_RATIO 0.5" + gpu}, "hw.gpu.utilization{encoder}", "gpu: yes"},
		{"a name in base units settles the scale", []string{"ENC_UTIL_RATIO 1" + gpu, "FB_USED_BYTES 1" + gpu}, "hw.gpu.utilization{encoder}", "gpu: yes"},

		{"a job may use no tensor cores", []string{"GPU_UTIL 95" + gpu, "PROF_PIPE_TENSOR_ACTIVE 0" + gpu}, "gpu.pipe.active{tensor}", "gpu: yes"},
		{"also beside an active engine", []string{"GPU_UTIL 95" + gpu, "PROF_PIPE_TENSOR_ACTIVE 0" + gpu, "PROF_GR_ENGINE_ACTIVE 0.9" + gpu}, "gpu.pipe.active{tensor}", "gpu: yes"},
		{"but not if the engine is 0", []string{"GPU_UTIL 95" + gpu, "PROF_PIPE_TENSOR_ACTIVE 0" + gpu, "PROF_GR_ENGINE_ACTIVE 0" + gpu}, "gpu.pipe.active{tensor}", "gpu: frozen"},
		{"some profiling works, so the field is not listed", []string{"PROF_DRAM_ACTIVE 0" + gpu, "FB_RESERVED 1" + gpu}, "gpu.sm.active", "gpu: likely not_in_csv"},
		{"a short list proves nothing about profiling", []string{"GPU_TEMP 30" + gpu, "FB_RESERVED 1" + gpu}, "gpu.dram.active", "gpu: likely not_in_csv"},
		{"nor does one of a new exporter", []string{"GPU_TEMP 30" + new483}, "gpu.dram.active", "gpu: likely not_in_csv"},
		{"a profiling row without a value does, where none has one", []string{"PROF_DRAM_ACTIVE NaN" + gpu}, "gpu.dram.active", "gpu: likely no_profiling"},
		{"also about a field that is not listed", []string{"PROF_DRAM_ACTIVE NaN" + gpu}, "gpu.sm.active", "gpu: likely no_profiling"},
		{"so does HELP without a row", []string{"HELP PROF_DRAM_ACTIVE Ratio.", "GPU_TEMP 30" + gpu}, "gpu.dram.active", "gpu: likely no_profiling"},
		{"but not beside another field that has a value", []string{"PROF_DRAM_ACTIVE NaN" + gpu, "PROF_SM_ACTIVE 0" + gpu}, "gpu.dram.active", "gpu: no_value"},
		{"nor beside another GPU that has one", []string{"PROF_DRAM_ACTIVE NaN" + gpu, "PROF_DRAM_ACTIVE 0 UUID=GPU-2 pci_bus_id=1 modelName=NVIDIA_H100"}, "gpu.dram.active", "gpu: yes, gpu: no_value"},
		{"nothing can be asked for in place of NVLink's profiling", []string{"PROF_DRAM_ACTIVE NaN " + h100}, "gpu.nvlink.throughput{transmit}", "gpu: likely no_profiling"},
		{"a list of one's own may lack profiling", []string{"GPU_TEMP 30" + gpu, "FB_RESERVED 1" + gpu, "POWER_VIOLATION 0" + gpu}, "gpu.dram.active", "gpu: likely not_in_csv"},
		{"exporters before 4.x list no profiling", []string{"GPU_TEMP 30" + old}, "gpu.dram.active", "gpu: likely not_in_csv"},
		{"a consumer GPU has no profiling", []string{"POWER_VIOLATION 30" + geforce}, "gpu.dram.active", "gpu: likely unprofiled"},
		{"a sentinel in its place says no more", []string{"PROF_DRAM_ACTIVE NaN" + geforce}, "gpu.dram.active", "gpu: likely unprofiled"},
		{"but a value does", []string{"PROF_DRAM_ACTIVE 0" + geforce}, "gpu.dram.active", "gpu: yes"},
		{"consumer GPUs from RTX 50 on have it", []string{"POWER_VIOLATION 30" + rtx50}, "gpu.dram.active", "gpu: likely not_in_csv"},
		{"without profiling GPU_UTIL is what to ask for", []string{"POWER_VIOLATION 30" + geforce}, "hw.gpu.utilization{general}", "gpu: likely not_in_csv"},

		{"also in a guest", []string{"GPU_TEMP 30" + guestH}, "hw.gpu.utilization{general}", "gpu: likely not_in_csv"},
		{"which has a utilization then", []string{"GPU_UTIL 5" + guestH}, "hw.gpu.utilization{general}", "gpu: yes"},

		{"a guest has no power", []string{"GPU_UTIL 5" + guest}, "hw.power", "gpu: likely vgpu"},
		{"a guest has no profiling", []string{"GPU_UTIL 5" + guest, "FB_RESERVED 1" + guest}, "gpu.dram.active", "gpu: likely vgpu"},
		{"a guest without GRID in its name has none either", []string{"GPU_UTIL 5" + guestH}, "hw.power", "gpu: likely vgpu"},
		{"a guest's sentinel is the guest's", []string{"POWER_USAGE 9223372036854775794" + guestH}, "hw.power", "gpu: likely vgpu"},
		{"a guest has no NVLink of its own", []string{"GPU_UTIL 5" + guestH}, "gpu.nvlink.throughput{transmit}", "gpu: likely vgpu"},
		{"a guest has no link whose capacity is known", []string{"PROF_PCIE_TX_BYTES 1" + guestH}, "gpu.pcie.utilization{transmit}", "gpu: capacity"},
		{"a guest may have XIDs", []string{"GPU_UTIL 5" + guest}, "hw.errors{xid}", "gpu: likely no_event"},
		{"and then has them", []string{"XID_ERRORS 31" + guestH}, "hw.errors{xid}", "gpu: yes"},
		{"a guest may have violations", []string{"GPU_UTIL 5" + guest}, "gpu.clock.throttle.time{power}", "gpu: likely not_in_csv"},

		{"an XID row comes with the first error", []string{"GPU_TEMP 30" + gpu}, "hw.errors{xid}", "gpu: likely no_event"},
		{"also where another GPU has had one", []string{"XID_ERRORS 31" + gpu, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 modelName=NVIDIA_L4"}, "hw.errors{xid}", "gpu: yes, gpu: likely no_event"},
		{"also on an instance", []string{"XID_ERRORS 31 UUID=GPU-2 pci_bus_id=1", "PROF_SM_ACTIVE 1 " + mig7}, "hw.errors{xid}", "gpu: yes, mig_board: elsewhere, mig_instance: likely no_event"},
		{"but no XID is a value where another GPU shows 0", []string{"XID_ERRORS 0" + gpu, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 modelName=NVIDIA_L4"}, "hw.errors{xid}", "gpu: yes, gpu: likely no_value"},
		{"old exporters show it at once", []string{"GPU_TEMP 30" + old}, "hw.errors{xid}", "gpu: likely not_in_csv"},
		{"a sliding count without a code watches XIDs", []string{"EXP_XID_ERRORS_COUNT 0 window_size_in_ms=300000" + gpu}, "hw.errors{xid}", "gpu: yes"},
		{"a counter of XIDs counts XIDs", []string{"EXP_XID_ERRORS_TOTAL 3 xid=31" + new483}, "hw.errors{xid}", "gpu: yes"},
		{"what is no code is no value", []string{"XID_ERRORS 31.5" + gpu}, "hw.errors{xid}", "gpu: no_value"},

		{"exact times need a newer exporter", []string{"GPU_TEMP 30" + old}, "gpu.clock.event.time{sw_power_cap}", "gpu: likely exporter"},
		{"exact times are not listed", []string{"GPU_TEMP 30" + gpu}, "gpu.clock.event.time{sw_power_cap}", "gpu: likely not_in_csv"},

		{"an L4 has no NVLink", []string{"GPU_TEMP 30" + gpu}, "gpu.nvlink.throughput{transmit}", "gpu: likely link"},
		{"a sentinel does not make one", []string{"PROF_NVLINK_TX_BYTES NaN" + gpu, "PROF_DRAM_ACTIVE 1" + gpu}, "gpu.nvlink.throughput{transmit}", "gpu: likely link"},
		{"an A40 has one where there is a bridge", []string{"GPU_TEMP 30 " + a40}, "gpu.nvlink.throughput{transmit}", "gpu: likely bridge"},
		{"which no sentinel shows", []string{"GPU_TEMP 30 " + a40, "PROF_NVLINK_TX_BYTES NaN " + a40}, "gpu.nvlink.throughput{transmit}", "gpu: likely bridge"},
		{"and no zero", []string{"GPU_TEMP 30 " + a40, "PROF_NVLINK_RX_BYTES 0 " + a40}, "gpu.nvlink.throughput{transmit}", "gpu: likely bridge"},
		{"but bytes do", []string{"GPU_TEMP 30 " + a40, "PROF_NVLINK_RX_BYTES 7 " + a40}, "gpu.nvlink.throughput{transmit}", "gpu: likely not_in_csv"},
		{"an H100 has", []string{"GPU_TEMP 30 " + h100}, "gpu.nvlink.throughput{transmit}", "gpu: likely not_in_csv"},
		{"a Hopper has errors of links that are not listed", []string{"GPU_TEMP 30 " + h100}, "hw.errors{nvlink_replay}", "gpu: likely not_in_csv"},
		{"without the sums over lanes", []string{"NVLINK_REPLAY_ERROR_COUNT_TOTAL NaN " + h100}, "hw.errors{nvlink_replay}", "gpu: likely not_in_csv"},
		{"a sentinel of its own counters is one", []string{"NVLINK_ERROR_DL_CRC NaN " + h100}, "hw.errors{nvlink_crc}", "gpu: no_value"},
		{"an old exporter does not know them", []string{"GPU_TEMP 30 UUID=GPU-1 modelName=NVIDIA_H100_80GB_HBM3 Hostname=n"}, "hw.errors{nvlink_crc}", "gpu: likely exporter"},
		{"a Blackwell counts recoveries", []string{"GPU_TEMP 30" + b200}, "hw.errors{nvlink_recovery}", "gpu: likely not_in_csv"},
		{"and no CRC errors", []string{"GPU_TEMP 30" + b200}, "hw.errors{nvlink_crc}", "gpu: likely no_counter"},
		{"whatever is listed", []string{"NVLINK_REPLAY_ERROR_COUNT_TOTAL NaN" + b200, "NVLINK_ERROR_DL_REPLAY NaN" + b200}, "hw.errors{nvlink_replay}", "gpu: likely no_counter"},
		{"but a value is one", []string{"NVLINK_ERROR_DL_REPLAY 0" + b200}, "hw.errors{nvlink_replay}", "gpu: yes"},
		{"one half of the outcomes makes no recoveries", []string{"NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS 0" + b200}, "hw.errors{nvlink_recovery}", "gpu: likely not_in_csv"},
		{"an unknown capacity makes no utilization", []string{"PROF_PCIE_TX_BYTES 1" + gpu}, "gpu.pcie.utilization{transmit}", "gpu: capacity"},
		{"fields tell the capacity", []string{"PROF_PCIE_TX_BYTES 1" + gpu, "PCIE_MAX_LINK_GEN 4" + gpu, "PCIE_MAX_LINK_WIDTH 16" + gpu}, "gpu.pcie.utilization{transmit}", "gpu: yes"},
		{"a model tells the capacity", []string{"PROF_PCIE_TX_BYTES 1 " + h100}, "gpu.pcie.utilization{transmit}", "gpu: yes"},
		{"a counter of bytes stands in for a rate", []string{"PROF_PCIE_TX_BYTES_TOTAL 1" + gpu}, "gpu.pcie.throughput{transmit}", "gpu: yes"},

		{"board fields of an instance's row are the board's", []string{"POWER_USAGE 90 " + mig7}, "hw.power", "mig_board: yes, mig_instance: elsewhere"},
		{"instance fields are the instance's", []string{"PROF_GR_ENGINE_ACTIVE 1 " + mig7}, "hw.gpu.utilization{general}", "mig_board: elsewhere, mig_instance: yes"},
		{"GPU_UTIL is not used under MIG", []string{"GPU_UTIL 5 " + h100, "POWER_USAGE 90 " + mig7}, "hw.gpu.utilization{general}", "mig_board: elsewhere, mig_instance: likely not_in_csv"},
		{"encoders are not measured under MIG", []string{"POWER_USAGE 90 " + mig7}, "hw.gpu.utilization{encoder}", "mig_instance: elsewhere, mig_board: mig"},
		{"of two instances one has no value", []string{"PROF_SM_ACTIVE 1 " + mig7, "PROF_GR_ENGINE_ACTIVE 1 " + mig8}, "gpu.sm.active", "mig_board: elsewhere, mig_instance: yes, mig_instance: likely no_value"},
		{"only whole GPUs show the field", []string{"PROF_SM_ACTIVE 1 UUID=GPU-2 pci_bus_id=1", "PROF_GR_ENGINE_ACTIVE 1 " + mig7}, "gpu.sm.active", "gpu: yes, mig_board: elsewhere, mig_instance: likely mig"},
		{"driver 535 has no memory of instances", []string{"PROF_GR_ENGINE_ACTIVE 1 DCGM_FI_DRIVER_VERSION=535.129.03 " + mig7}, "hw.gpu.memory.usage", "mig_board: elsewhere, mig_instance: likely driver"},
		{"other drivers have", []string{"PROF_GR_ENGINE_ACTIVE 1 DCGM_FI_DRIVER_VERSION=580.105.08 " + mig7}, "hw.gpu.memory.usage", "mig_board: elsewhere, mig_instance: likely not_in_csv"},

		{"a pod's name is a holder", []string{"GPU_TEMP 30 " + boardPod}, "gpu.device.holder", "gpu: yes"},
		{"no pod anywhere", []string{"GPU_TEMP 30" + gpu}, "gpu.device.holder", "gpu: likely no_pod_labels"},
		{"the exporter itself names no pod of its own, whatever it is called", []string{"GPU_TEMP 30 pod=load-dcgm-exporter-x7 namespace=team" + gpu}, "gpu.device.holder", "gpu: yes"},
		{"a Prometheus names the exporter's", []string{"GPU_TEMP 30 job=dcgm pod=nvidia-dcgm-exporter-x7 namespace=gpu-operator" + gpu}, "gpu.device.holder", "gpu: likely no_pod_labels"},
		{"which its instance label shows as well", []string{"GPU_TEMP 30 instance=10.0.0.1:9400 pod=nvidia-dcgm-exporter-x7 namespace=gpu-operator" + gpu}, "gpu.device.holder", "gpu: likely no_pod_labels"},
		{"but not a pod that is called otherwise", []string{"GPU_TEMP 30 job=dcgm pod=p namespace=ns" + gpu}, "gpu.device.holder", "gpu: yes"},
		{"the use of a pod that is called as exporters are", []string{"FB_USED 9 " + h100, "FB_USED 4 pod=load-dcgm-exporter-x7 namespace=team " + h100}, "k8s.container.gpu.memory.usage", "gpu: yes"},
		{"an empty pod label is a free device", []string{"GPU_TEMP 30 pod=- namespace=- container=-" + gpu}, "gpu.device.holder", "gpu: likely free"},
		{"an empty pod uid says nothing", []string{"GPU_TEMP 30 pod_uid=-" + gpu}, "gpu.device.holder", "gpu: likely no_pod_labels"},
		{"a free device beside a held one", []string{"GPU_TEMP 30 " + boardPod, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 Hostname=n"}, "gpu.device.holder", "gpu: yes, gpu: likely free"},
		{"a free device of another host, which may not map pods", []string{"GPU_TEMP 30 " + boardPod, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 Hostname=n2"}, "gpu.device.holder", "gpu: yes, gpu: likely no_pod_labels"},
		{"the exporter of a host where nobody holds a device, through a Prometheus", []string{
			"GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 Hostname=n2 pod=watch-x7k2p namespace=mon container=c job=watch instance=10.0.0.1:9400",
		}, "gpu.device.holder", "gpu: likely no_pod_labels"},
		{"a relaying Prometheus' target is no holder", []string{
			"GPU_TEMP 30 pod=exp namespace=ns exported_pod=p exported_namespace=ns job=j instance=10.0.0.1:9400" + gpu, "GPU_TEMP 30 UUID=GPU-2 pci_bus_id=1 Hostname=n pod=exp namespace=ns",
		}, "gpu.device.holder", "gpu: yes, gpu: likely free"},
		{"a pod's row beside the device's is its own use", []string{"FB_USED 9 " + h100, "FB_USED 4 " + boardPod}, "k8s.container.gpu.memory.usage", "gpu: yes"},
		{"a pod's row alone is the device's", []string{"FB_USED 9 " + boardPod}, "k8s.container.gpu.memory.usage", "gpu: no_process_rows"},
		{"the device's row has no value, so there is none", []string{"FB_USED NaN " + h100, "FB_USED 4 " + boardPod}, "hw.gpu.memory.usage", "gpu: no_value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, verdictTexts(t, expose(t, tt.rows...).Report(), tt.signal))
		})
	}
}

func TestEveryReasonHasACodeAndAText(t *testing.T) {
	codes := map[string]bool{"": true}
	for r := None + 1; r < NumReasons; r++ {
		assert.False(t, codes[r.String()], "%q", r)
		codes[r.String()] = true
		assert.NotEmpty(t, r.Text(), r)
		got, ok := ParseReason(r.String())
		assert.True(t, ok, r)
		assert.Equal(t, r, got)
	}
	for _, code := range []string{"", "bored"} {
		_, ok := ParseReason(code)
		assert.False(t, ok, code)
	}
}

func TestEveryCauseHasAReasonAndADistinctText(t *testing.T) {
	texts := map[string]cause{}
	for c := noCause + 1; c < numCauses; c++ {
		assert.NotEqual(t, None, causes[c].reason, c)
		assert.NotEmpty(t, c.text(), c)
		other, taken := texts[c.text()]
		assert.False(t, taken, "%q is the text of %d and %d", c.text(), c, other)
		texts[c.text()] = c
	}
}

func TestSignalListsItsUsualFields(t *testing.T) {
	for _, s := range Signals() {
		switch s.Name() {
		case "hw.gpu.utilization{general}":
			assert.Equal(t, []string{"DCGM_FI_PROF_GR_ENGINE_ACTIVE"}, s.Fields())
		case "hw.gpu.memory.utilization":
			assert.Equal(t, []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"}, s.Fields())
		case "gpu.device.holder":
			assert.Empty(t, s.Fields(), "labels")
		default:
			require.NotEmpty(t, s.Fields(), s.Name())
			assert.NotContains(t, s.Fields(), "", s.Name())
		}
	}
}
