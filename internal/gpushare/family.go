package gpushare

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Requests are quantities by resource name: one container's requests, a pod's
// effective requests or a node's capacity. Names that this package does not
// know are allowed and passed over, so a ResourceList can be handed over whole.
type Requests map[string]resource.Quantity

// Family is a system of resource names or annotations that share a meaning.
type Family string

// The families.
const (
	// NVIDIA is nvidia.com/gpu and nvidia.com/gpu.shared of NVIDIA's device plugin.
	NVIDIA Family = "nvidia"
	// MIG is nvidia.com/mig-<profile> and its .shared form: the units are
	// instances, not boards.
	MIG Family = "nvidia_mig"
	// AMD is amd.com/gpu and the names of its partitions in the mixed strategy.
	AMD Family = "amd"
	// Hygon is dcu.com/gpu, which Koordinator knows, and HAMi's hygon.com/dcunum.
	Hygon Family = "hygon"
	// Intel is gpu.intel.com/i915 and gpu.intel.com/xe.
	Intel Family = "intel"
	// Other are vendors that only HAMi's texts name, and names that the user added.
	Other Family = "other"
	// Koordinator is koordinator.sh/gpu and the GPU share API.
	Koordinator Family = "koordinator"
	// HAMi is the memory and core requests that go with a vendor's count.
	HAMi Family = "hami"
	// KAI is KAI's annotations; it has no resource name of its own.
	KAI Family = "kai"
	// Aliyun is aliyun.com/gpu-mem. General knowledge, no source was read.
	Aliyun Family = "aliyun"
	// Tencent is tencent.com/vcuda-core and vcuda-memory. General knowledge, no
	// source was read.
	Tencent Family = "tencent"
	// DRA is the implicit extended resource of a DeviceClass.
	DRA Family = "dra"
)

// Unit is what one of a resource is.
type Unit uint8

// The units.
const (
	// Devices are boards, or replicas of boards where the node shares them: the
	// name alone does not tell.
	Devices Unit = iota
	// Instances are MIG instances or partitions of a board.
	Instances
	// Slots are places on shared devices and never whole ones.
	Slots
	// Percent are percent points of a device: 100 is one device.
	Percent
	// Bytes of device memory.
	Bytes
	// Mebibytes of device memory.
	Mebibytes
	// Gibibytes of device memory.
	Gibibytes
	// MemoryBlocks are 256 MiB of device memory each, Tencent's unit.
	MemoryBlocks
)

// Resource is a resource name and what it counts.
type Resource struct {
	// Name is the extended resource's name.
	Name string
	// Family tells whose name it is.
	Family Family
	// Unit is what one of it is.
	Unit Unit
	// Shared says that the name itself promises a share: a second holder is
	// to be expected. False says nothing about the node.
	Shared bool
	// Profile is the MIG profile such as 1g.10gb+me, empty for other resources
	// and for names of no known profile.
	Profile string
	// DeviceClass is the DRA class of an implicit extended resource, else empty.
	DeviceClass string
}

// Counted reports whether the units can be added up to a number of devices,
// instances or slots; percent points, memory and cores cannot.
func (r Resource) Counted() bool {
	return r.Unit == Devices || r.Unit == Instances || r.Unit == Slots
}

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

// named are the resources with a fixed name. Of the vendors that HAMi supports
// it lists those that make GPUs, and their memory names only where the unit is
// documented; NPUs and other accelerators are not GPUs.
var named = index([]Resource{
	{Name: "nvidia.com/gpu", Family: NVIDIA, Unit: Devices},
	{Name: "nvidia.com/gpu.shared", Family: NVIDIA, Unit: Slots, Shared: true},
	{Name: "amd.com/gpu", Family: AMD, Unit: Devices},
	{Name: "dcu.com/gpu", Family: Hygon, Unit: Devices},
	{Name: "hygon.com/dcunum", Family: Hygon, Unit: Devices},
	{Name: "gpu.intel.com/i915", Family: Intel, Unit: Devices},
	{Name: "gpu.intel.com/xe", Family: Intel, Unit: Devices},
	{Name: koordGPU, Family: Koordinator, Unit: Percent},
	{Name: koordShared, Family: Koordinator, Unit: Slots, Shared: true},
	{Name: koordCore, Family: Koordinator, Unit: Percent},
	{Name: koordMemory, Family: Koordinator, Unit: Bytes},
	{Name: koordRatio, Family: Koordinator, Unit: Percent},
	{Name: "nvidia.com/gpumem", Family: HAMi, Unit: Mebibytes, Shared: true},
	{Name: "nvidia.com/gpumem-percentage", Family: HAMi, Unit: Percent, Shared: true},
	{Name: "nvidia.com/gpucores", Family: HAMi, Unit: Percent, Shared: true},
	{Name: "amd.com/gpumem", Family: HAMi, Unit: Mebibytes, Shared: true},
	{Name: "amd.com/gpucores", Family: HAMi, Unit: Percent, Shared: true},
	{Name: "hygon.com/dcumem", Family: HAMi, Unit: Mebibytes, Shared: true},
	{Name: "hygon.com/dcucores", Family: HAMi, Unit: Percent, Shared: true},
	{Name: "metax-tech.com/sgpu", Family: Other, Unit: Slots, Shared: true},
	{Name: "mthreads.com/vgpu", Family: Other, Unit: Slots, Shared: true},
	{Name: "birentech.com/gpu", Family: Other, Unit: Devices},
	{Name: "aliyun.com/gpu-mem", Family: Aliyun, Unit: Gibibytes, Shared: true},
	{Name: "tencent.com/vcuda-core", Family: Tencent, Unit: Percent, Shared: true},
	{Name: "tencent.com/vcuda-memory", Family: Tencent, Unit: MemoryBlocks, Shared: true},
})

func index(resources []Resource) map[string]Resource {
	m := make(map[string]Resource, len(resources))
	for _, r := range resources {
		m[r.Name] = r
	}
	return m
}

var (
	// The device plugin writes a profile's + as a dot: 1g.10gb+me → 1g.10gb.me.
	migForm = regexp.MustCompile(`^((?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb)((?:\.(?:me\.all|me|gfx))*)$`)
	amdForm = regexp.MustCompile(`^amd\.com/[sdqc]px_nps[124]$`)
)

// Families knows the built-in resource names and those that were added. The
// zero value knows the built-in ones alone. It is immutable.
type Families struct {
	extra    map[string]bool
	prefixes []string
	classes  map[string]bool
}

// NewFamilies returns the built-in families with further names that count
// devices or slots (a renamed nvidia.com/gpu, an extendedResourceName), each a
// full name or a prefix that ends in *, and with the DeviceClasses whose
// implicit extended resource is a GPU. The error names the entry that is wrong.
func NewFamilies(resources, deviceClasses []string) (Families, error) {
	f := Families{extra: map[string]bool{}, classes: map[string]bool{}}
	for i, name := range resources {
		prefix, isPrefix := strings.CutSuffix(name, "*")
		one := prefix // a name that it stands for
		if isPrefix {
			one += "x"
		}
		if !strings.Contains(prefix, "/") || len(validation.IsQualifiedName(one)) > 0 {
			return Families{}, fmt.Errorf("resources[%d] is %q: must be <domain>/<name>, or a prefix <domain>/<start>*", i, name)
		}
		if isPrefix {
			f.prefixes = append(f.prefixes, prefix)
			continue
		}
		f.extra[name] = true
	}
	for i, class := range deviceClasses {
		if class == "" || strings.Contains(class, "/") {
			return Families{}, fmt.Errorf("device_classes[%d] is %q: must be the name of a DeviceClass", i, class)
		}
		f.classes[class] = true
	}
	return f, nil
}

// Lookup tells what a resource name counts. It reports false for names that
// are no GPU's, among them gpu.intel.com/*_monitoring, which gives access to
// every GPU and takes none.
func (f Families) Lookup(name string) (Resource, bool) {
	if r, ok := named[name]; ok {
		return r, true
	}
	if rest, ok := strings.CutPrefix(name, "nvidia.com/mig-"); ok && rest != "" {
		profile, shared := strings.CutSuffix(rest, ".shared")
		r := Resource{Name: name, Family: MIG, Unit: Instances, Shared: shared}
		if shared {
			r.Unit = Slots
		}
		if m := migForm.FindStringSubmatch(profile); m != nil {
			r.Profile = m[1] + strings.ReplaceAll(strings.ReplaceAll(m[2], ".", "+"), "+me+all", "+me.all")
		}
		return r, true
	}
	if amdForm.MatchString(name) {
		return Resource{Name: name, Family: AMD, Unit: Instances}, true
	}
	if class, ok := strings.CutPrefix(name, deviceClassPrefix); ok {
		return Resource{Name: name, Family: DRA, Unit: Devices, DeviceClass: class}, f.classes[class]
	}
	if f.extra[name] {
		return Resource{Name: name, Family: Other, Unit: Devices}, true
	}
	for _, p := range f.prefixes {
		if strings.HasPrefix(name, p) {
			return Resource{Name: name, Family: Other, Unit: Devices}, true
		}
	}
	return Resource{}, false
}

// IsGPU reports whether the resource name belongs to a GPU family.
func (f Families) IsGPU(resourceName string) bool {
	_, ok := f.Lookup(resourceName)
	return ok
}

// IsGPU reports whether the resource name belongs to a built-in GPU family.
func IsGPU(resourceName string) bool { return Families{}.IsGPU(resourceName) }
