package presets

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func labels(text string) func(string) string {
	m := map[string]string{}
	for kv := range strings.FieldsSeq(text) {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return func(name string) string { return m[name] }
}

// find returns the one preset and series that read a metric.
func find(t *testing.T, metric string) (string, *Series) {
	t.Helper()
	var preset string
	var found *Series
	for _, name := range Names() {
		series, ok := Lookup(name)
		require.True(t, ok, name)
		for i := range series {
			if series[i].Metric == metric {
				require.Nil(t, found, "%s is read twice", metric)
				preset, found = name, &series[i]
			}
		}
	}
	return preset, found
}

func TestEveryForeignMetricIsReadAsItsExporterMeansIt(t *testing.T) {
	const container = "namespace=ns pod=p container=c"
	of := Row{Namespace: "ns", Pod: "p", Container: "c", Index: -1}
	with := func(f func(*Row)) Row {
		r := of
		f(&r)
		return r
	}
	on := func(slot string) Row { return with(func(r *Row) { r.GPU, r.Slot = "GPU-1", slot }) }
	for _, tt := range []struct {
		metric, labels, preset string
		scope                  Scope
		bytes                  float64
		want                   Row
	}{
		{"gpu_pod_memory_used_bytes", container + " process_name=python pid=7", "gpu_pod_exporter", Process, 1, with(func(r *Row) { r.Slot = "7" })},
		{"hami_vgpu_memory_used_bytes", container + " vdevice_index=0 device_uuid=GPU-1 zone=vGPU", "hami", Pod, 1, on("0")},
		{"hami_vgpu_memory_limit_bytes", container + " vdevice_index=0 device_uuid=GPU-1", "hami", Budget, 1, on("0")},
		{
			"hami_mig_device_info", container + " device_uuid=GPU-1 mig_uuid=MIG-2 profile=1g.10gb gpu_instance_id=7 compute_instance_id=0", "hami", MIGInfo, 1,
			Row{GPU: "GPU-1", Index: -1, MIGUUID: "MIG-2", Instance: "7"},
		},
		{"vGPU_device_memory_usage_in_bytes", "podnamespace=ns podname=p ctrname=c vdeviceid=1 deviceuuid=GPU-1", "hami_legacy", Pod, 1, on("1")},
		{"vGPU_device_memory_limit_in_bytes", "podnamespace=ns podname=p ctrname=c vdeviceid=1 deviceuuid=GPU-1", "hami_legacy", Budget, 1, on("1")},
		{
			"hami_vgpu_memory_allocated_bytes", "namespace=ns node=n1 pod=p container_index=1 device_uuid=GPU-1", "hami_scheduler", Budget, 1,
			Row{Namespace: "ns", Pod: "p", GPU: "GPU-1", Index: -1, Slot: "1"},
		},
		{"nvidia_smi_compute_app_used_memory_bytes", "uuid=1 pid=7 process_name=python", "nvidia_gpu_exporter", Process, 1, Row{GPU: "GPU-1", Index: -1, Slot: "7"}},
		{"container_gpu_memory_total", "container_name=c gpu_memory=gpu0 namespace=ns node=n1 pod_name=p", "gpu_manager", Pod, 1 << 20, with(func(r *Row) { r.Index = 0 })},
		{"container_request_gpu_memory", "container_name=c namespace=ns node=n1 pod_name=p", "gpu_manager", Budget, 1 << 20, of},
		{"volcano_vgpu_device_memory_allocation_for_a_certain_pod", "NodeName=n1 devID=GPU-1 podName=p", "volcano", Budget, 1 << 20, Row{Pod: "p", GPU: "GPU-1", Index: -1}},
		{"nvidia_gpu_process_memory_used_bytes", container + " pid=7 gpu_uuid=GPU-1", "in_house", Process, 1, on("7")},
		{"gpu_process_memory_used_bytes", container + " pid=7 uuid=1", "in_house", Process, 1, on("7")},
		{"my_gpu_process_memory_used_bytes", container + " pid=7 UUID=GPU-1", "in_house", Process, 1, on("7")},
		{"pod_gpu_memory_usage", "pid=7 pod=p", "in_house", Process, 1, Row{Pod: "p", Index: -1, Slot: "7"}},
		{"container_gpu_memory_bytes", container + " gpu_uuid=GPU-1", "in_house", Pod, 1, on("")},
		{"CM_PURPLEPILL_GPU_MEMORY_USED_POD_MIB", container, "in_house", Pod, 1 << 20, of},
		{"container_accelerator_memory_used_bytes", container + " make=nvidia model=T4 acc_id=GPU-1", "cadvisor", DeviceDuplicate, 1, of},
	} {
		t.Run(tt.metric, func(t *testing.T) {
			preset, s := find(t, tt.metric)
			require.NotNil(t, s)
			assert.Equal(t, tt.preset, preset)
			assert.Equal(t, tt.scope, s.Scope)
			assert.InDelta(t, tt.bytes, s.Bytes, 0)
			r, ok := s.Row(labels(tt.labels))
			assert.True(t, ok)
			assert.Equal(t, tt.want, r)
		})
	}
}

func TestWhatWouldCountTwiceOrIsNoMemoryOfAContainerIsNotRead(t *testing.T) {
	for _, metric := range []string{
		// Read by the synthesizer, which tells usage from copies.
		"DCGM_FI_DEV_FB_USED",
		// Parts of hami_vgpu_memory_used_bytes, and the same again.
		"hami_container_device_memory_bytes", "hami_vgpu_memory_context_bytes", "hami_vgpu_memory_module_bytes",
		"hami_vgpu_memory_buffer_bytes", "Device_memory_desc_of_container",
		// Not memory.
		"hami_container_device_utilization_ratio", "hami_container_last_kernel_elapsed_seconds",
		"Device_utilization_desc_of_container", "Device_last_kernel_of_container",
		// Of devices.
		"hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio", "HostGPUMemoryUsage", "HostCoreUtilization",
		"hami_gpu_memory_limit_bytes", "hami_gpu_memory_allocated_bytes", "hami_node_gpu_overview",
		"GPUDeviceMemoryLimit", "GPUDeviceMemoryAllocated", "nodeGPUMemoryPercentage",
		// Counts.
		"nvidia_smi_compute_apps", "hami_gpu_shared_count",
	} {
		_, s := find(t, metric)
		assert.Nil(t, s, metric)
	}
}

func TestAnExportersOwnPodIsNotTheWorkload(t *testing.T) {
	_, s := find(t, "hami_vgpu_memory_used_bytes")
	r, ok := s.Row(labels("namespace=kube-system pod=hami-monitor container=monitor exported_namespace=ns exported_pod=p exported_container=c device_uuid=GPU-1"))
	require.True(t, ok)
	assert.Equal(t, Row{Namespace: "ns", Pod: "p", Container: "c", GPU: "GPU-1", Index: -1}, r)
}

func TestAProcessOfNoPodIsNobodys(t *testing.T) {
	_, s := find(t, "gpu_pod_memory_used_bytes")
	r, ok := s.Row(labels("namespace=unknown pod=unknown container=host pid=9"))
	require.True(t, ok)
	assert.Equal(t, Row{Index: -1, Slot: "9"}, r)
}

func TestRowsThatSayNothingAreRefused(t *testing.T) {
	for metric, text := range map[string]string{
		"container_gpu_memory_total":  "container_name=c gpu_memory=total namespace=ns pod_name=p",
		"hami_vgpu_memory_used_bytes": "zone=vGPU",
		"hami_mig_device_info":        "device_uuid=GPU-1 mig_uuid=MIG-2",
	} {
		_, s := find(t, metric)
		_, ok := s.Row(labels(text))
		assert.False(t, ok, metric)
	}
}

func TestScopesReadAsTheyAreWritten(t *testing.T) {
	for _, s := range []Scope{Process, Pod, DeviceDuplicate, Budget} {
		got, err := ParseScope(s.String())
		require.NoError(t, err)
		assert.Equal(t, s, got)
	}
	_, err := ParseScope("mig_info")
	assert.EqualError(t, err, `is "mig_info": must be one of process, pod, device_duplicate, budget`)
}
