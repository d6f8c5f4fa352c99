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

// Requests maps resource names to quantities. The map can contain the requests of a container, the
// effective requests of a pod, or the capacity of a node. Unknown names are ignored, so a
// ResourceList can be converted without filtering its entries.
type Requests map[string]resource.Quantity

// The extended method reports whether an extended resource is requested. The name of an extended
// resource contains a domain.
func (r Requests) extended() bool {
	for name, q := range r {
		if strings.Contains(name, "/") && q.Sign() > 0 {
			return true
		}
	}
	return false
}

// Family is a group of resource names or annotations to which the same rules apply.
type Family string

// The families.
const (
	// Vendor contains the resource names that Koordinator's share rules treat as GPUs: names from
	// vendors' device plugins and DRA drivers, names that the user added, and names that only
	// HAMi's documentation mentions.
	Vendor Family = "vendor"
	// Other contains resource names of accelerators, and of shares of accelerators, that
	// Koordinator's rules do not cover.
	Other Family = "other"
	// Koordinator contains koordinator.sh/gpu and the resource names in the GPU share API.
	Koordinator Family = "koordinator"
	// HAMi contains the resource names for the memory and cores of vGPUs. To request a number of
	// vGPUs, pods use a name in the Vendor family.
	HAMi Family = "hami"
	// KAI has annotations but no resource names.
	KAI Family = "kai"
)

// deviceClassPrefix is the prefix of the implicit extended resource of a DeviceClass. The rest of
// the resource's name is the name of the DeviceClass.
const deviceClassPrefix = "deviceclass.resource.kubernetes.io/"

// Koordinator's rules apply to these resource names, which include names for NPUs.
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

// familyByName maps resource names to families. Names that have a variable part are not in the map.
var familyByName = map[string]Family{
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
	// No source code was available for Aliyun and Tencent.
	"aliyun.com/gpu-mem":       Other,
	"tencent.com/vcuda-core":   Other,
	"tencent.com/vcuda-memory": Other,
}

// amounts contains the resource names whose unit is neither a device nor a slot.
var amounts = map[string]bool{
	koordGPU:                       true, // percentage points
	koordCore:                      true, // percentage points
	koordMemory:                    true, // bytes
	koordRatio:                     true, // percentage points
	"nvidia.com/gpumem":            true, // MiB
	"nvidia.com/gpumem-percentage": true,
	"nvidia.com/gpucores":          true, // percentage points
	"amd.com/gpumem":               true, // MiB
	"amd.com/gpucores":             true, // percentage points
	"hygon.com/dcumem":             true, // MiB
	"hygon.com/dcucores":           true, // percentage points
	"aliyun.com/gpu-mem":           true, // GiB
	"tencent.com/vcuda-core":       true, // percentage points
	"tencent.com/vcuda-memory":     true, // blocks of 256 MiB
}

// IsAmount reports whether a quantity of the resource is an amount of memory or compute. If
// IsAmount returns false, the quantity is a number of devices or slots. The quantity of a resource
// that a user added is always treated as a number of devices.
func IsAmount(resourceName string) bool { return amounts[resourceName] }

// Some resource names have a variable part. HAMi's huawei.com/Ascend910B-memory does not match,
// because its quantity is an amount of memory, which pods request together with a number of
// devices. Volcano's huawei.com/Ascend910-2c is a virtual NPU with two cores.
var (
	amdForm    = regexp.MustCompile(`^amd\.com/[sdqc]px_nps[124]$`)
	ascendForm = regexp.MustCompile(`^huawei\.com/Ascend[0-9]+[A-Z]*[0-9]*(-[0-9]+c(\.[0-9]+cpu)?(\.[0-9]+g)?)?$`)
)

// Names contains resource names from a configuration. Each entry is either a full name or a prefix
// followed by *.
type Names []string

// Has reports whether a resource matches one of the names.
func (n Names) Has(name string) bool {
	return slices.ContainsFunc(n, func(listed string) bool {
		prefix, wild := strings.CutSuffix(listed, "*")
		return name == listed || wild && strings.HasPrefix(name, prefix)
	})
}

// Check returns an error for each invalid entry. The setting parameter is the name of the setting
// that contains the entries.
func (n Names) Check(setting string) []error {
	var errs []error
	for i, name := range n {
		prefix, wild := strings.CutSuffix(name, "*")
		one := prefix // an example of a name that matches the entry
		if wild {
			one += "x"
		}
		if !strings.Contains(prefix, "/") || len(validation.IsQualifiedName(one)) > 0 {
			errs = append(errs, fmt.Errorf("%s[%d] is %q: must be <domain>/<name>, or a prefix <domain>/<start>*", setting, i, name))
		}
	}
	return errs
}

// Families contains the built-in resource names and any names that were added. The zero value
// contains only the built-in names. Families is immutable.
type Families struct {
	extra   Names
	classes []string
}

// NewFamilies returns the built-in families with two additions: the given names of GPU resources
// (such as a renamed nvidia.com/gpu or an extendedResourceName), and the given DeviceClasses, whose
// implicit extended resources are GPUs. If an entry is invalid, NewFamilies returns an error that
// contains the entry.
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

// DefaultDeviceClasses returns the names of the DeviceClasses from NVIDIA's DRA driver.
func DefaultDeviceClasses() []string {
	return []string{"gpu.nvidia.com", "mig.nvidia.com", "vfio.gpu.nvidia.com"}
}

// Lookup returns the family of a resource name. If the resource does not allocate GPUs, Lookup
// returns false. For example, gpu.intel.com/*_monitoring grants access to all GPUs but does not
// allocate a GPU.
func (f Families) Lookup(name string) (Family, bool) {
	if family, ok := familyByName[name]; ok {
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

// IsGPU reports whether the resource name is in a GPU family.
func (f Families) IsGPU(resourceName string) bool {
	_, ok := f.Lookup(resourceName)
	return ok
}

// IsGPU reports whether the resource name is in a built-in GPU family.
func IsGPU(resourceName string) bool { return Families{}.IsGPU(resourceName) }
