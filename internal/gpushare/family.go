package gpushare

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Requests are quantities by resource name: one container's requests, a pod's
// effective requests or a node's capacity. Names that this package does not
// know are allowed and passed over, so a ResourceList can be handed over whole.
type Requests map[string]resource.Quantity

// extended reports whether an extended resource is requested: one with a domain in its name.
func (r Requests) extended() bool {
	for name, q := range r {
		if strings.Contains(name, "/") && q.Sign() > 0 {
			return true
		}
	}
	return false
}

// Family is a system of resource names or annotations that share a meaning, as far as it matters
// here.
type Family string

// The families.
const (
	// Vendor are the names of a vendor's device plugin or DRA driver that Koordinator's share rules
	// know as GPUs, those that the user added, and vendors that only HAMi's texts name.
	Vendor Family = "vendor"
	// Other are accelerators and shares that these rules do not know.
	Other Family = "other"
	// Koordinator is koordinator.sh/gpu and the GPU share API.
	Koordinator Family = "koordinator"
	// HAMi is the memory and core requests that go with a vendor's count.
	HAMi Family = "hami"
	// KAI is KAI's annotations; it has no resource name of its own.
	KAI Family = "kai"
)

// deviceClassPrefix precedes a DeviceClass's name in its implicit extended resource.
const deviceClassPrefix = "deviceclass.resource.kubernetes.io/"

// Koordinator's names, and those of its NPU support that share its rules.
const (
	koordGPU    = "koordinator.sh/gpu"
	koordShared = "koordinator.sh/gpu.shared"
	koordCore   = "koordinator.sh/gpu-core"
	koordMemory = "koordinator.sh/gpu-memory"
	koordRatio  = "koordinator.sh/gpu-memory-ratio"
	npuCore     = "huawei.com/npu-core"
	npuCPU      = "huawei.com/npu-cpu"
	npuDVPP     = "huawei.com/npu-dvpp"
)

// named are the families of the resources with a fixed name.
var named = map[string]Family{
	"nvidia.com/gpu":               Vendor,
	"nvidia.com/gpu.shared":        Vendor,
	"amd.com/gpu":                  Vendor,
	"dcu.com/gpu":                  Vendor,
	"hygon.com/dcunum":             Vendor,
	"gpu.intel.com/i915":           Vendor,
	"gpu.intel.com/xe":             Vendor,
	"habana.ai/gaudi":              Other,
	"google.com/tpu":               Other,
	"aws.amazon.com/neuron":        Other,
	"aws.amazon.com/neuroncore":    Other,
	"aws.amazon.com/neurondevice":  Other,
	koordGPU:                       Koordinator,
	koordShared:                    Koordinator,
	koordCore:                      Koordinator,
	koordMemory:                    Koordinator,
	koordRatio:                     Koordinator,
	"nvidia.com/gpumem":            HAMi,
	"nvidia.com/gpumem-percentage": HAMi,
	"nvidia.com/gpucores":          HAMi,
	"amd.com/gpumem":               HAMi,
	"amd.com/gpucores":             HAMi,
	"hygon.com/dcumem":             HAMi,
	"hygon.com/dcucores":           HAMi,
	"metax-tech.com/sgpu":          Vendor,
	"mthreads.com/vgpu":            Vendor,
	"birentech.com/gpu":            Vendor,
	"volcano.sh/vgpu-number":       Other,
	"k8s.amazonaws.com/vgpu":       Other,
	// Of Aliyun's and Tencent's no source was read: they are general knowledge.
	"aliyun.com/gpu-mem":       Other,
	"tencent.com/vcuda-core":   Other,
	"tencent.com/vcuda-memory": Other,
}

// amounts are the resources with a fixed name whose unit is no device and no slot.
var amounts = map[string]bool{
	koordGPU:                       true, // percent points
	koordCore:                      true, // percent points
	koordMemory:                    true, // bytes
	koordRatio:                     true, // percent points
	"nvidia.com/gpumem":            true, // MiB
	"nvidia.com/gpumem-percentage": true,
	"nvidia.com/gpucores":          true, // percent points
	"amd.com/gpumem":               true, // MiB
	"amd.com/gpucores":             true, // percent points
	"hygon.com/dcumem":             true, // MiB
	"hygon.com/dcucores":           true, // percent points
	"aliyun.com/gpu-mem":           true, // GiB
	"tencent.com/vcuda-core":       true, // percent points
	"tencent.com/vcuda-memory":     true, // blocks of 256 MiB
}

// IsAmount reports whether a quantity of the resource is an amount of memory or compute, and not
// a number of devices or slots. Resources that a user added count as numbers.
func IsAmount(resourceName string) bool { return amounts[resourceName] }

// Names with a variable part. HAMi's huawei.com/Ascend910B-memory is an amount of memory beside
// a count, Volcano's huawei.com/Ascend910-2c a virtual NPU of two cores.
var (
	amdForm    = regexp.MustCompile(`^amd\.com/[sdqc]px_nps[124]$`)
	ascendForm = regexp.MustCompile(`^huawei\.com/Ascend[0-9]+[A-Z]*[0-9]*(-[0-9]+c(\.[0-9]+cpu)?(\.[0-9]+g)?)?$`)
)

// Names are resource names that a user listed, each a full name or a prefix that
// ends in *.
type Names []string

// Has reports whether a resource is one of the names.
func (n Names) Has(name string) bool {
	return slices.ContainsFunc(n, func(listed string) bool {
		prefix, wild := strings.CutSuffix(listed, "*")
		return name == listed || wild && strings.HasPrefix(name, prefix)
	})
}

// Check returns an error for each entry of a setting that is no such name.
func (n Names) Check(setting string) []error {
	var errs []error
	for i, name := range n {
		prefix, wild := strings.CutSuffix(name, "*")
		one := prefix // a name that it stands for
		if wild {
			one += "x"
		}
		if !strings.Contains(prefix, "/") || len(validation.IsQualifiedName(one)) > 0 {
			errs = append(errs, fmt.Errorf("%s[%d] is %q: must be <domain>/<name>, or a prefix <domain>/<start>*", setting, i, name))
		}
	}
	return errs
}

// Families knows the built-in resource names and those that were added. The
// zero value knows the built-in ones alone. It is immutable.
type Families struct {
	extra   Names
	classes []string
}

// NewFamilies returns the built-in families with further names of GPUs (a
// renamed nvidia.com/gpu, an extendedResourceName), and with the DeviceClasses whose
// implicit extended resource is a GPU. The error names the entries that are wrong.
func NewFamilies(resources Names, deviceClasses []string) (Families, error) {
	if errs := resources.Check("resources"); len(errs) > 0 {
		return Families{}, errors.Join(errs...)
	}
	for i, class := range deviceClasses {
		if class == "" || strings.Contains(class, "/") {
			return Families{}, fmt.Errorf("device_classes[%d] is %q: must be the name of a DeviceClass", i, class)
		}
	}
	return Families{resources, deviceClasses}, nil
}

// DefaultDeviceClasses returns the DeviceClasses of NVIDIA's DRA driver.
func DefaultDeviceClasses() []string {
	return []string{"gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"}
}

// Lookup returns the family of a resource name. It reports false for names that
// are no GPU's, among them gpu.intel.com/*_monitoring, which gives access to
// every GPU and takes none.
func (f Families) Lookup(name string) (Family, bool) {
	if family, ok := named[name]; ok {
		return family, true
	}
	if profile, ok := strings.CutPrefix(name, "nvidia.com/mig-"); ok && profile != "" || amdForm.MatchString(name) {
		return Vendor, true
	}
	if ascendForm.MatchString(name) {
		return Other, true
	}
	if class, ok := strings.CutPrefix(name, deviceClassPrefix); ok {
		return Vendor, slices.Contains(f.classes, class)
	}
	return Vendor, f.extra.Has(name)
}

// IsGPU reports whether the resource name belongs to a GPU family.
func (f Families) IsGPU(resourceName string) bool {
	_, ok := f.Lookup(resourceName)
	return ok
}

// IsGPU reports whether the resource name belongs to a built-in GPU family.
func IsGPU(resourceName string) bool { return Families{}.IsGPU(resourceName) }
