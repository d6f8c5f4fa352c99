package gpushare

import (
	"slices"
	"strings"
	"unicode"
)

// Likely is the probable meaning of a name that is on no list.
type Likely uint8

const (
	// LikelyGPU names may be those of NVIDIA's GPUs: administrators rename resources, and sharing
	// systems have names of their own.
	LikelyGPU Likely = iota
	// LikelyOtherVendor names are those of another vendor's accelerators.
	LikelyOtherVendor
	// LikelyNoGPU names are those of networks, storage, virtualization and the like.
	LikelyNoGPU
)

// otherVendors are the domains of vendors of other accelerators, with their subdomains.
var otherVendors = []string{
	"amd.com", "aws.amazon.com", "baidu.com", "birentech.com", "cambricon.com", "dcu.com", "enflame.com", "furiosa.ai", "google.com",
	"habana.ai", "huawei.com", "hygon.com", "iluvatar.ai", "iluvatar.com", "intel.com", "kunlunxin.com", "metax-tech.com", "mthreads.com",
	"qualcomm.com", "rebellions.ai", "tenstorrent.com",
}

// noGPUDomains are the domains of resources that are no accelerators, with their subdomains.
var noGPUDomains = []string{
	"akri.sh", "devices.kubevirt.io", "k8s.cni.cncf.io", "mellanox.com", "network.kubevirt.io", "networking.gke.io", "networking.gke.io.networks",
	"openshift.io", "rdma", "smarter-devices", "vpc.amazonaws.com",
}

// Words of names of GPUs, and of those of other things. The first ones decide: a network card may
// be named after the GPU beside it only in another spelling, such as gpu0.
var (
	gpuWords   = []string{"gpu", "gpus", "vgpu", "vgpus", "cuda", "vcuda", "mig", "accelerator", "accelerators"}
	noGPUWords = []string{
		"cpu", "disk", "dsa", "efa", "eni", "erdma", "fpga", "fuse", "hca", "hostdev", "hugepages", "iaa", "ib", "infiniband", "kvm", "macvlan",
		"memory", "net", "netdev", "netdevice", "network", "networking", "nic", "nics", "nvme", "qat", "rdma", "roce", "serial", "sev", "sgx",
		"snd", "sound", "sriov", "storage", "tap", "tdx", "tpm", "tty", "tun", "usb", "vf", "vfs", "vhost", "vsock",
	}
)

// LikelyOf returns what the name of an extended resource or of a DRA driver that is on no list may
// mean. In doubt it returns LikelyGPU, because a device in use must not look unused.
func LikelyOf(name string) Likely {
	name = strings.ToLower(name)
	domain, _, _ := strings.Cut(name, "/")
	words := wordsOf(name)
	within := func(domains []string) bool {
		return slices.ContainsFunc(domains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
	}
	has := func(list []string) bool { return hasAny(words, list) }
	switch {
	case domain == "compute-domain.nvidia.com": // channels between nodes, on no GPU in particular
		return LikelyNoGPU
	case within(otherVendors):
		return LikelyOtherVendor
	case has(gpuWords):
		return LikelyGPU
	case within(noGPUDomains), has(noGPUWords):
		return LikelyNoGPU
	}
	return LikelyGPU
}

// NamesGPU reports whether a name refers to NVIDIA's GPUs, or to GPUs of an unnamed vendor.
func NamesGPU(name string) bool {
	words := wordsOf(strings.ToLower(name))
	return LikelyOf(name) == LikelyGPU && (hasAny(words, gpuWords) || slices.Contains(words, "nvidia"))
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func hasAny(words, of []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(of, w) })
}
