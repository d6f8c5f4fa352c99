package gpushare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResourceNames(t *testing.T) {
	for name, want := range map[string]Family{
		"nvidia.com/gpu":                   Vendor,
		"nvidia.com/gpu.shared":            Vendor,
		"nvidia.com/mig-1g.10gb":           Vendor,
		"nvidia.com/mig-1g.10gb.me":        Vendor,
		"nvidia.com/mig-1g.5gb.me.all":     Vendor,
		"nvidia.com/mig-1c.3g.40gb":        Vendor,
		"nvidia.com/mig-1g.24gb.gfx":       Vendor,
		"nvidia.com/mig-1g.10gb.shared":    Vendor,
		"nvidia.com/mig-1g.10gb.me.shared": Vendor,
		"nvidia.com/mig-custom":            Vendor,
		"amd.com/gpu":                      Vendor,
		"amd.com/spx_nps1":                 Vendor,
		"amd.com/dpx_nps2":                 Vendor,
		"amd.com/qpx_nps4":                 Vendor,
		"amd.com/cpx_nps4":                 Vendor,
		"dcu.com/gpu":                      Vendor,
		"hygon.com/dcunum":                 Vendor,
		"gpu.intel.com/i915":               Vendor,
		"gpu.intel.com/xe":                 Vendor,
		"habana.ai/gaudi":                  Other,
		"google.com/tpu":                   Other,
		"aws.amazon.com/neuron":            Other,
		"aws.amazon.com/neuroncore":        Other,
		"aws.amazon.com/neurondevice":      Other,
		"huawei.com/Ascend910":             Other,
		"huawei.com/Ascend910B4":           Other,
		"huawei.com/Ascend310P":            Other,
		"huawei.com/Ascend910-2c":          Other,
		"huawei.com/Ascend310P-2c.1cpu":    Other,
		"huawei.com/Ascend910-5c.1cpu.8g":  Other,
		"koordinator.sh/gpu":               Koordinator,
		"koordinator.sh/gpu.shared":        Koordinator,
		"koordinator.sh/gpu-core":          Koordinator,
		"koordinator.sh/gpu-memory":        Koordinator,
		"koordinator.sh/gpu-memory-ratio":  Koordinator,
		"nvidia.com/gpumem":                HAMi,
		"nvidia.com/gpumem-percentage":     HAMi,
		"nvidia.com/gpucores":              HAMi,
		"amd.com/gpumem":                   HAMi,
		"amd.com/gpucores":                 HAMi,
		"hygon.com/dcumem":                 HAMi,
		"hygon.com/dcucores":               HAMi,
		"metax-tech.com/sgpu":              Vendor,
		"mthreads.com/vgpu":                Vendor,
		"birentech.com/gpu":                Vendor,
		"volcano.sh/vgpu-number":           Other,
		"k8s.amazonaws.com/vgpu":           Other,
		"aliyun.com/gpu-mem":               Other,
		"tencent.com/vcuda-core":           Other,
		"tencent.com/vcuda-memory":         Other,
	} {
		got, ok := builtin.Lookup(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, got, name)
		assert.True(t, IsGPU(name), name)
	}
}

func TestAmountsAreDistinguishedFromCounts(t *testing.T) {
	for name, family := range familyByName {
		want := family == HAMi || family == Koordinator && name != koordShared ||
			name == "aliyun.com/gpu-mem" || strings.HasPrefix(name, "tencent.com/")
		assert.Equal(t, want, IsAmount(name), name)
	}
	for name := range amounts {
		assert.True(t, IsGPU(name), name)
	}
	for _, name := range []string{"nvidia.com/mig-1g.10gb", "amd.com/cpx_nps4", "huawei.com/Ascend910-2c", "example.com/gpumem"} {
		assert.False(t, IsAmount(name), name)
	}
}

func TestNamesThatAreNotGPUs(t *testing.T) {
	for _, name := range []string{
		"", "cpu", "memory", "nvidia.com/", "nvidia.com/mig-", "nvidia.com/priority", "nvidia.com/gpu.count",
		"gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring", "gpu.intel.com/tiles",
		"koordinator.sh/rdma", "koordinator.sh/fpga", "huawei.com/npu-core", "huawei.com/Ascend910B-memory", "huawei.com/Ascend",
		"amd.com/spx_nps8", "amd.com/xpx_nps1", "cambricon.com/vmlu", "kunlunxin.com/xpu", "enflame.com/gcu",
		"aws.amazon.com/vgpu", "google.com/gpu", "metax-tech.com/vmemory", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores", "example.com/gpu", "gpu-fraction",
	} {
		assert.False(t, IsGPU(name), name)
	}
}

func TestADeviceClassIsAGPUOnlyIfItIsConfigured(t *testing.T) {
	const name = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
	assert.False(t, IsGPU(name))

	f, err := NewFamilies(nil, []string{"gpu.nvidia.com"})
	require.NoError(t, err)
	got, ok := f.Lookup(name)
	assert.True(t, ok)
	assert.Equal(t, Vendor, got)
	assert.False(t, f.IsGPU("deviceclass.resource.kubernetes.io/compute-domain.nvidia.com"))
}

func TestAddedNamesAreGPUs(t *testing.T) {
	f, err := NewFamilies([]string{"example.com/gpu", "fleet.example.com/gpu-*", "vendor.example.com/*"}, nil)
	require.NoError(t, err)
	for _, name := range []string{"example.com/gpu", "fleet.example.com/gpu-large", "vendor.example.com/x"} {
		got, ok := f.Lookup(name)
		assert.True(t, ok, name)
		assert.Equal(t, Vendor, got)
	}
	assert.False(t, f.IsGPU("example.com/gpu2"))
	assert.False(t, f.IsGPU("fleet.example.com/cpu"))
	assert.True(t, f.IsGPU("nvidia.com/gpu"), "the built-in names are still GPUs")
}

func TestInvalidNamesAreErrors(t *testing.T) {
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
