package gpushare

import (
	"slices"
	"strings"
	"unicode"
)

// Likely is the probable meaning of a resource name or a driver name that is not in any list of
// known names.
type Likely uint8

const (
	// LikelyGPU means that the name may refer to NVIDIA GPUs. Administrators can rename resources,
	// and GPU sharing systems use their own names.
	LikelyGPU Likely = iota
	// LikelyOtherVendor means that the name probably refers to accelerators from other vendors.
	LikelyOtherVendor
	// LikelyNoGPU means that the name probably refers to network, storage, virtualization, or
	// similar devices.
	LikelyNoGPU
)

// otherVendors contains the domains of other accelerator vendors. Subdomains of the listed domains
// also match.
var otherVendors = []string{
	"amd.com", "aws.amazon.com", "baidu.com", "birentech.com", "cambricon.com", "dcu.com", "enflame.com", "furiosa.ai", "google.com",
	"habana.ai", "huawei.com", "hygon.com", "iluvatar.ai", "iluvatar.com", "intel.com", "kunlunxin.com", "metax-tech.com", "mthreads.com",
	"qualcomm.com", "rebellions.ai", "tenstorrent.com",
}

// noGPUDomains contains domains of resources that are not accelerators. Subdomains of the listed
// domains also match.
var noGPUDomains = []string{
	"akri.sh", "devices.kubevirt.io", "k8s.cni.cncf.io", "mellanox.com", "network.kubevirt.io", "networking.gke.io", "networking.gke.io.networks",
	"openshift.io", "rdma", "smarter-devices", "vpc.amazonaws.com",
}

// gpuWords occur in the names of GPUs, and noGPUWords occur in the names of other devices. A name
// that contains words from both lists is treated as the name of a GPU. The names of network cards
// that are named after a GPU do not match the GPU words, because such names contain words such as
// gpu0.
var (
	gpuWords   = []string{"gpu", "gpus", "vgpu", "vgpus", "cuda", "vcuda", "mig", "accelerator", "accelerators"}
	noGPUWords = []string{
		"cpu", "disk", "dsa", "efa", "eni", "erdma", "fpga", "fuse", "hca", "hostdev", "hugepages", "iaa", "ib", "infiniband", "kvm", "macvlan",
		"memory", "net", "netdev", "netdevice", "network", "networking", "nic", "nics", "nvme", "qat", "rdma", "roce", "serial", "sev", "sgx",
		"snd", "sound", "sriov", "storage", "tap", "tdx", "tpm", "tty", "tun", "usb", "vf", "vfs", "vhost", "vsock",
	}
)

// LikelyOf returns the probable meaning of the name of an extended resource or a DRA driver that is
// not in any list of known names. If the meaning is unclear, LikelyOf returns LikelyGPU, so that a
// device that is in use does not appear to be unused.
func LikelyOf(name string) Likely {
	name = strings.ToLower(name)
	domain, _, _ := strings.Cut(name, "/")
	words := splitWords(name)
	within := func(domains []string) bool {
		return slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
	}
	hasWord := func(list []string) bool { return containsAny(words, list) }
	switch {
	case domain == "compute-domain.nvidia.com": // this driver allocates channels between nodes, not a specific GPU
		return LikelyNoGPU
	case within(otherVendors):
		return LikelyOtherVendor
	case hasWord(gpuWords):
		return LikelyGPU
	case within(noGPUDomains), hasWord(noGPUWords):
		return LikelyNoGPU
	}
	return LikelyGPU
}

// NamesGPU reports whether a name refers to GPUs from NVIDIA or from an unnamed vendor.
func NamesGPU(name string) bool {
	words := splitWords(strings.ToLower(name))
	return LikelyOf(name) == LikelyGPU && (containsAny(words, gpuWords) || slices.Contains(words, "nvidia"))
}

func splitWords(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func containsAny(words, list []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
}
