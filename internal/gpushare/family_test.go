package gpushare

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The names of kubernetes.md 3.1, 3.5 and 3.6.
func TestResourceNames(t *testing.T) {
	for name, want := range map[string]Resource{
		"nvidia.com/gpu":                   {Family: NVIDIA, Unit: Devices},
		"nvidia.com/gpu.shared":            {Family: NVIDIA, Unit: Slots, Shared: true},
		"nvidia.com/mig-1g.10gb":           {Family: MIG, Unit: Instances, Profile: "1g.10gb"},
		"nvidia.com/mig-1g.10gb.me":        {Family: MIG, Unit: Instances, Profile: "1g.10gb+me"},
		"nvidia.com/mig-1g.5gb.me.all":     {Family: MIG, Unit: Instances, Profile: "1g.5gb+me.all"},
		"nvidia.com/mig-1c.3g.40gb":        {Family: MIG, Unit: Instances, Profile: "1c.3g.40gb"},
		"nvidia.com/mig-1g.24gb.gfx":       {Family: MIG, Unit: Instances, Profile: "1g.24gb+gfx"},
		"nvidia.com/mig-1g.10gb.shared":    {Family: MIG, Unit: Slots, Shared: true, Profile: "1g.10gb"},
		"nvidia.com/mig-1g.10gb.me.shared": {Family: MIG, Unit: Slots, Shared: true, Profile: "1g.10gb+me"},
		"nvidia.com/mig-custom":            {Family: MIG, Unit: Instances},
		"amd.com/gpu":                      {Family: AMD, Unit: Devices},
		"amd.com/spx_nps1":                 {Family: AMD, Unit: Instances},
		"amd.com/dpx_nps2":                 {Family: AMD, Unit: Instances},
		"amd.com/qpx_nps4":                 {Family: AMD, Unit: Instances},
		"amd.com/cpx_nps4":                 {Family: AMD, Unit: Instances},
		"dcu.com/gpu":                      {Family: Hygon, Unit: Devices},
		"hygon.com/dcunum":                 {Family: Hygon, Unit: Devices},
		"gpu.intel.com/i915":               {Family: Intel, Unit: Devices},
		"gpu.intel.com/xe":                 {Family: Intel, Unit: Devices},
		"koordinator.sh/gpu":               {Family: Koordinator, Unit: Percent},
		"koordinator.sh/gpu.shared":        {Family: Koordinator, Unit: Slots, Shared: true},
		"koordinator.sh/gpu-core":          {Family: Koordinator, Unit: Percent},
		"koordinator.sh/gpu-memory":        {Family: Koordinator, Unit: Bytes},
		"koordinator.sh/gpu-memory-ratio":  {Family: Koordinator, Unit: Percent},
		"nvidia.com/gpumem":                {Family: HAMi, Unit: Mebibytes, Shared: true},
		"nvidia.com/gpumem-percentage":     {Family: HAMi, Unit: Percent, Shared: true},
		"nvidia.com/gpucores":              {Family: HAMi, Unit: Percent, Shared: true},
		"amd.com/gpumem":                   {Family: HAMi, Unit: Mebibytes, Shared: true},
		"amd.com/gpucores":                 {Family: HAMi, Unit: Percent, Shared: true},
		"hygon.com/dcumem":                 {Family: HAMi, Unit: Mebibytes, Shared: true},
		"hygon.com/dcucores":               {Family: HAMi, Unit: Percent, Shared: true},
		"metax-tech.com/sgpu":              {Family: Other, Unit: Slots, Shared: true},
		"mthreads.com/vgpu":                {Family: Other, Unit: Slots, Shared: true},
		"birentech.com/gpu":                {Family: Other, Unit: Devices},
		"aliyun.com/gpu-mem":               {Family: Aliyun, Unit: Gibibytes, Shared: true},
		"tencent.com/vcuda-core":           {Family: Tencent, Unit: Percent, Shared: true},
		"tencent.com/vcuda-memory":         {Family: Tencent, Unit: MemoryBlocks, Shared: true},
	} {
		want.Name = name
		got, ok := Families{}.Lookup(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, got)
		assert.True(t, IsGPU(name), name)
	}
}

func TestNamesThatAreNoGPU(t *testing.T) {
	for _, name := range []string{
		"", "cpu", "memory", "nvidia.com/", "nvidia.com/mig-", "nvidia.com/priority", "nvidia.com/gpu.count",
		"gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring", "gpu.intel.com/tiles",
		"koordinator.sh/rdma", "koordinator.sh/fpga", "huawei.com/npu-core", "huawei.com/Ascend910",
		"amd.com/spx_nps8", "amd.com/xpx_nps1", "cambricon.com/vmlu", "kunlunxin.com/xpu", "enflame.com/gcu",
		"aws.amazon.com/neuron", "metax-tech.com/vmemory", "example.com/gpu", "gpu-fraction",
	} {
		assert.False(t, IsGPU(name), name)
	}
}

func TestADeviceClassIsAGPUOnlyIfItWasGiven(t *testing.T) {
	const name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
	assert.False(t, IsGPU(name))
	assert.Empty(t, Demands(requests(name+"=1")))

	f, err := NewFamilies(nil, []string{"gpu.nvidia.com"})
	require.NoError(t, err)
	got, ok := f.Lookup(name)
	assert.True(t, ok)
	assert.Equal(t, Resource{Name: name, Family: DRA, Unit: Devices, DeviceClass: "gpu.nvidia.com"}, got)
	assert.False(t, f.IsGPU("deviceclass.resource.kubernetes.io/compute-domain.nvidia.com"))
	assert.Equal(t, []Demand{{Family: DRA, Resource: name, Units: 2, Devices: 2, MemoryRatio: 1, Core: 1}}, f.Demands(requests(name+"=2")))
}

func TestAddedNamesCountDevices(t *testing.T) {
	f, err := NewFamilies([]string{"example.com/gpu", "fleet.example.com/gpu-*", "vendor.example.com/*"}, nil)
	require.NoError(t, err)
	for _, name := range []string{"example.com/gpu", "fleet.example.com/gpu-large", "vendor.example.com/x"} {
		got, ok := f.Lookup(name)
		assert.True(t, ok, name)
		assert.Equal(t, Resource{Name: name, Family: Other, Unit: Devices}, got)
	}
	assert.False(t, f.IsGPU("example.com/gpu2"))
	assert.False(t, f.IsGPU("fleet.example.com/cpu"))
	assert.True(t, f.IsGPU("nvidia.com/gpu"), "the built-in names stay")
}

func TestWrongNamesAreRefused(t *testing.T) {
	for _, name := range []string{
		"", "gpu", "*", "/gpu", "a.b/", "a.b/*/x", "a.b/gpu**", "a.*.b/gpu*", "a b/gpu", "a.b/x y", "a.b/c/gpu*",
	} {
		_, err := NewFamilies([]string{"a.b/c", name}, nil)
		assert.EqualError(t, err, fmt.Sprintf("resources[1] is %q: must be <domain>/<name>, or a prefix <domain>/<start>*", name))
	}
	for _, class := range []string{"", "a/b"} {
		_, err := NewFamilies(nil, []string{class})
		assert.EqualError(t, err, fmt.Sprintf("device_classes[0] is %q: must be the name of a DeviceClass", class))
	}
}
