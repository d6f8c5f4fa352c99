package gpushare

import (
	"slices"
	"strings"
	"unicode"
)

// Likely is the probable meaning of a resource or driver name that is not in any list.
type Likely uint8

const (
	// LikelyGPU names may be NVIDIA GPUs: administrators rename resources, and sharing systems have
	// their own names.
	LikelyGPU Likely = iota
	// LikelyOtherVendor names are accelerators of other vendors.
	LikelyOtherVendor
	// LikelyNoGPU names are network, storage, virtualization, or similar devices.
	LikelyNoGPU
)

// otherVendors are the domains of vendors of other accelerators. They include subdomains.
var otherVendors = []string{
	"amd.com", "aws.amazon.com", "baidu.com", "birentech.com", "cambricon.com", "dcu.com", "enflame.com", "furiosa.ai", "google.com",
	"habana.ai", "huawei.com", "hygon.com", "iluvatar.ai", "iluvatar.com", "intel.com", "kunlunxin.com", "metax-tech.com", "mthreads.com",
	"qualcomm.com", "rebellions.ai", "tenstorrent.com",
}

// noGPUDomains are the domains of resources that are not accelerators. They include subdomains.
var noGPUDomains = []string{
	"akri.sh", "devices.kubevirt.io", "k8s.cni.cncf.io", "mellanox.com", "network.kubevirt.io", "networking.gke.io", "networking.gke.io.networks",
	"openshift.io", "rdma", "smarter-devices", "vpc.amazonaws.com",
}

// Words in the names of GPUs, and in the names of other devices. The former have precedence: if a
// network card is named after a GPU, the spelling differs, such as gpu0.
var (
	gpuWords   = []string{"gpu", "gpus", "vgpu", "vgpus", "cuda", "vcuda", "mig", "accelerator", "accelerators"}
	noGPUWords = []string{
		"cpu", "disk", "dsa", "efa", "eni", "erdma", "fpga", "fuse", "hca", "hostdev", "hugepages", "iaa", "ib", "infiniband", "kvm", "macvlan",
		"memory", "net", "netdev", "netdevice", "network", "networking", "nic", "nics", "nvme", "qat", "rdma", "roce", "serial", "sev", "sgx",
		"snd", "sound", "sriov", "storage", "tap", "tdx", "tpm", "tty", "tun", "usb", "vf", "vfs", "vhost", "vsock",
	}
)

// LikelyOf returns the probable meaning of the name of an extended resource or a DRA driver that is
// not in any list. In doubt it returns LikelyGPU, because a device in use must not appear unused.
func LikelyOf(name string) Likely {
	name = strings.ToLower(name)
	domain, _, _ := strings.Cut(name, "/")
	words := splitWords(name)
	within := func(domains []string) bool {
		return slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
	}
	hasWord := func(list []string) bool { return containsAny(words, list) }
	switch {
	case domain == "compute-domain.nvidia.com": // channels between nodes, not a specific GPU
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

// NamesGPU reports whether a name refers to NVIDIA's GPUs, or to GPUs of an unnamed vendor.
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
