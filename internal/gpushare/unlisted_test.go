package gpushare

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheLikelyMeaningOfUnlistedNames(t *testing.T) {
	for likely, names := range map[Likely][]string{
		LikelyGPU: {
			"nvidia.com/a100", "example.com/a100", "example.com/accel", "volcano.sh/vgpu-number", "k8s.amazonaws.com/vgpu", "tencent.com/vcuda-core",
			"aliyun.com/gpu-mem", "nvidia.com/GRID_T4-1Q", "nvidia.com/GP102GL_Tesla_P40", "example.com/gpu-rdma", "openshift.io/vgpu",
			"hami-core-gpu.project-hami.io", "gpu.example.com",
		},
		LikelyOtherVendor: {
			"amd.com/gpu", "amd.com/cpx_nps4", "gpu.intel.com/xe", "intel.com/sriov_netdevice", "habana.ai/gaudi", "google.com/tpu",
			"aws.amazon.com/neuroncore", "huawei.com/Ascend910", "metax-tech.com/sgpu", "gpu.amd.com", "gpu.intel.com",
		},
		LikelyNoGPU: {
			"rdma/hca_shared_devices_a", "nvidia.com/hostdev", "nvidia.com/rdma_shared", "nvidia.com/gpu0_sriov_rdma", "devices.kubevirt.io/kvm",
			"devices.kubevirt.io/vhost-net", "github.com/fuse", "smarter-devices/snd", "openshift.io/mlxnics", "vpc.amazonaws.com/efa",
			"aliyun.com/eni", "example.com/fpga", "networking.gke.io.networks/rdma-0", "compute-domain.nvidia.com", "dra.net", "dra.cpu",
			"sriov.k8snetworkplumbingwg.io",
		},
	} {
		for _, name := range names {
			assert.Equal(t, likely, LikelyOf(name), name)
		}
	}
}
