package expositiontest

import (
	"fmt"
	"strconv"
)

// field is one metric in a generated body.
type field struct {
	name, kind, help string
	value            func(row int) string
}

func integer(base, step int) func(int) string {
	return func(row int) string { return strconv.Itoa(base + step*row) }
}

func ratio(row int) string { return fmt.Sprintf("%f", float64(row%61)/61) }

// fields lists the 29 metrics that dcgm-exporter exposes for a MIG instance if its counters file
// enables every saturation signal. The metrics are in the exporter's order.
var fields = []field{
	{"DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", integer(1410, 0)},
	{"DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", integer(1593, 0)},
	{"DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Current clock event reasons.", integer(4, 0)},
	{"DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", integer(41, 1)},
	{"DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", integer(39, 1)},
	{"DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", func(row int) string { return fmt.Sprintf("%f", 112.252+float64(row)) }},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).", integer(288001234567, 977)},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.", integer(0, 0)},
	{"DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", integer(0, 0)},
	{"DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns).", integer(71234567890, 1234567)},
	{"DCGM_FI_DEV_THERMAL_VIOLATION", "counter", "Throttling duration due to thermal constraints (in ns).", integer(51234567, 31)},
	{"DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "counter", "Throttling duration due to sync-boost constraints (in ns).", integer(0, 0)},
	{"DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "counter", "Throttling duration due to board limit constraints (in ns).", integer(0, 0)},
	{"DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", integer(4096, 3)},
	{"DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", integer(5760, -3)},
	{"DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", integer(20, 0)},
	{"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", integer(0, 0)},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for uncorrectable errors", integer(0, 0)},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors", integer(0, 0)},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", integer(0, 0)},
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", ratio},
	{"DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned.", ratio},
	{"DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "The ratio of number of warps resident on an SM.", ratio},
	{"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", "Ratio of cycles the tensor (HMMA) pipe is active.", ratio},
	{"DCGM_FI_PROF_DRAM_ACTIVE", "gauge", "Ratio of cycles the device memory interface is active sending or receiving data.", ratio},
	{"DCGM_FI_PROF_PIPE_FP64_ACTIVE", "gauge", "Ratio of cycles the fp64 pipes are active.", ratio},
	{"DCGM_FI_PROF_PIPE_FP32_ACTIVE", "gauge", "Ratio of cycles the fp32 pipes are active.", ratio},
	{"DCGM_FI_PROF_PCIE_TX_BYTES", "gauge", "The rate of data transmitted over the PCIe bus in bytes per second.", integer(1234567890, 65537)},
	{"DCGM_FI_PROF_PCIE_RX_BYTES", "gauge", "The rate of data received over the PCIe bus in bytes per second.", integer(987654321, 65539)},
}

// FieldCount is the number of samples per instance in a body that Node returns.
var FieldCount = len(fields)

// Node returns the response of dcgm-exporter 4.5 on a node with the given number of GPUs. Each GPU
// is partitioned into the given number of MIG instances, and each instance is held by a pod.
// Node(8, 7) is the reference load of the benchmarks, which has 1,624 samples in about 550 kB.
func Node(gpus, instances int) []byte {
	var b []byte
	for i, f := range fields {
		if i > 0 {
			b = append(b, '\n')
		}
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for g := range gpus {
			for gi := range instances {
				b = fmt.Appendf(b, `%s{gpu="%d",UUID="GPU-%08x-7715-3560-dcea-7238b9611a45",pci_bus_id="00000000:%02X:00.0",device="nvidia%d",`+
					`modelName="NVIDIA H100 80GB HBM3",GPU_I_PROFILE="1g.10gb",GPU_I_ID="%d",Hostname="gpu-node-1",`+
					`DCGM_FI_DRIVER_VERSION="580.105.08",container="main",namespace="inference",pod="llm-%d-%d-5d9f7b8c6-x%03d"} %s`+"\n",
					f.name, g, 0xa4f34abc+g, 0x1a+g, g, 7+gi, g, gi, g*instances+gi, f.value(g*instances+gi))
			}
		}
	}
	return b
}
