package presets

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

func labels(text string) func(string) string {
	m := map[string]string{}
	for kv := range strings.FieldsSeq(text) {
		k, v, _ := strings.Cut(kv, "=")
		m[k] = v
	}
	return func(name string) string { return m[name] }
}

// find returns the series that reads a metric, nil when none does.
func find(metric string) *Series {
	all := Builtin()
	if i := slices.IndexFunc(all, func(s Series) bool { return s.Metric == metric }); i >= 0 {
		return &all[i]
	}
	return nil
}

func TestEveryMetricIsReadOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Builtin() {
		assert.False(t, seen[s.Metric], s.Metric)
		seen[s.Metric] = true
	}
}

func TestEveryForeignMetricIsReadAsItsExporterMeansIt(t *testing.T) {
	const container = "namespace=ns pod=p container=c"
	of := Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: "c"}}
	with := func(f func(*Row)) Row {
		r := of
		f(&r)
		return r
	}
	on := func(slot string) Row { return with(func(r *Row) { r.GPU, r.Slot = "GPU-1", slot }) }
	for _, tt := range []struct {
		metric, labels string
		scope          Scope
		want           Row
	}{
		{"gpu_pod_memory_used_bytes", container + " process_name=python pid=7", Process, with(func(r *Row) { r.Slot = "7" })},
		{"hami_vgpu_memory_used_bytes", container + " vdevice_index=0 device_uuid=GPU-1 zone=vGPU", Pod, on("0")},
		{"hami_vgpu_memory_limit_bytes", container + " vdevice_index=0 device_uuid=GPU-1", Budget, on("0")},
		{
			"hami_mig_device_info", container + " device_uuid=GPU-1 mig_uuid=MIG-2 profile=1g.10gb gpu_instance_id=7 compute_instance_id=0", MIGInfo,
			Row{GPU: "GPU-1", MIGUUID: "MIG-2", Instance: "7"},
		},
		{"vGPU_device_memory_usage_in_bytes", "podnamespace=ns podname=p ctrname=c vdeviceid=1 deviceuuid=GPU-1", Pod, on("1")},
		{"vGPU_device_memory_limit_in_bytes", "podnamespace=ns podname=p ctrname=c vdeviceid=1 deviceuuid=GPU-1", Budget, on("1")},
		{
			"hami_vgpu_memory_allocated_bytes", "namespace=ns node=n1 pod=p container_index=1 device_uuid=GPU-1", Budget,
			Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "p"}, GPU: "GPU-1", Slot: "1"},
		},
		{"nvidia_smi_compute_app_used_memory_bytes", "uuid=1 pid=7 process_name=python", Process, Row{GPU: "GPU-1", Slot: "7"}},
		{"container_accelerator_memory_used_bytes", container + " make=nvidia model=T4 acc_id=GPU-1", DeviceDuplicate, of},
	} {
		t.Run(tt.metric, func(t *testing.T) {
			s := find(tt.metric)
			require.NotNil(t, s)
			assert.Equal(t, tt.scope, s.Scope)
			assert.InDelta(t, 1, s.Bytes, 0)
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
		"hami_vgpu_memory_context_bytes", "hami_vgpu_memory_module_bytes",
		"hami_vgpu_memory_buffer_bytes",
		// Not memory.
		"hami_container_last_kernel_elapsed_seconds", "Device_last_kernel_of_container",
		// Of devices.
		"hami_host_gpu_memory_used_bytes", "hami_host_gpu_utilization_ratio", "HostGPUMemoryUsage", "HostCoreUtilization",
		"hami_gpu_memory_limit_bytes", "hami_gpu_memory_allocated_bytes", "hami_node_gpu_overview",
		"GPUDeviceMemoryLimit", "GPUDeviceMemoryAllocated", "nodeGPUMemoryPercentage",
		// Counts.
		"nvidia_smi_compute_apps", "hami_gpu_shared_count",
	} {
		s := find(metric)
		assert.Nil(t, s, metric)
	}
}

func TestAnExportersOwnPodIsNotTheWorkload(t *testing.T) {
	s := find("hami_vgpu_memory_used_bytes")
	r, ok := s.Row(labels("namespace=kube-system pod=hami-monitor container=monitor exported_namespace=ns exported_pod=p exported_container=c device_uuid=GPU-1"))
	require.True(t, ok)
	assert.Equal(t, Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: "c"}, GPU: "GPU-1"}, r)
}

func TestATextThatStandsForNoDeviceNamesNone(t *testing.T) {
	s := find("hami_vgpu_memory_used_bytes")
	for _, gpu := range []string{"N/A", " "} {
		r, ok := s.Row(func(name string) string {
			return map[string]string{"namespace": "ns", "pod": "p", "container": "c", "device_uuid": gpu}[name]
		})
		require.True(t, ok)
		assert.Equal(t, Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: "c"}}, r, gpu)
	}
}

func TestAProcessOfNoPodIsNobodys(t *testing.T) {
	s := find("gpu_pod_memory_used_bytes")
	r, ok := s.Row(labels("namespace=unknown pod=unknown container=host pid=9"))
	require.True(t, ok)
	assert.Equal(t, Row{Slot: "9"}, r)
}

func TestRowsThatSayNothingAreRefused(t *testing.T) {
	for metric, text := range map[string]string{
		"hami_vgpu_memory_used_bytes": "zone=vGPU",
		"hami_mig_device_info":        "device_uuid=GPU-1 mig_uuid=MIG-2",
	} {
		s := find(metric)
		_, ok := s.Row(labels(text))
		assert.False(t, ok, metric)
	}
}

func TestScopesThatCanBeConfigured(t *testing.T) {
	assert.Equal(t, []Scope{"process", "pod", "device_duplicate", "budget"}, Scopes)
}
