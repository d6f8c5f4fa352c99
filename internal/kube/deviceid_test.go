package kube_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

const (
	gpu0 = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
	mig0 = "MIG-7a1c2b5e-31f4-5d0a-9c2e-0123456789ab"
)

func TestDeviceIDsOfEveryPlugin(t *testing.T) {
	tests := map[string]struct {
		resource, id string
		want         kube.DeviceID
	}{
		"a whole GPU":                      {"nvidia.com/gpu", gpu0, kube.DeviceID{Vendor: "nvidia", UUID: gpu0, Index: -1}},
		"a slot of a time-sliced GPU":      {"nvidia.com/gpu", gpu0 + "::3", kube.DeviceID{Vendor: "nvidia", UUID: gpu0, Index: -1, Replica: "3"}},
		"the first slot":                   {"nvidia.com/gpu.shared", gpu0 + "::0", kube.DeviceID{Vendor: "nvidia", UUID: gpu0, Index: -1, Replica: "0"}},
		"a slot of a renamed resource":     {"example.com/small-gpu", gpu0 + "::12", kube.DeviceID{Vendor: "nvidia", UUID: gpu0, Index: -1, Replica: "12"}},
		"a MIG device":                     {"nvidia.com/mig-1g.10gb", mig0, kube.DeviceID{Vendor: "nvidia", MIGUUID: mig0, Index: -1}},
		"a slot of a MIG device":           {"nvidia.com/mig-1g.10gb.shared", mig0 + "::1", kube.DeviceID{Vendor: "nvidia", MIGUUID: mig0, Index: -1, Replica: "1"}},
		"a MIG device of an old driver":    {"nvidia.com/mig-3g.20gb", "MIG-" + gpu0 + "/2/0", kube.DeviceID{Vendor: "nvidia", UUID: gpu0, Index: -1, GPUInstance: "2"}},
		"its slot":                         {"nvidia.com/mig-3g.20gb", "MIG-" + gpu0 + "/13/1::7", kube.DeviceID{Vendor: "nvidia", UUID: gpu0, Index: -1, GPUInstance: "13", Replica: "7"}},
		"GKE, a whole GPU":                 {"nvidia.com/gpu", "nvidia7", kube.DeviceID{Vendor: "nvidia", Index: 7}},
		"GKE, a MIG device":                {"nvidia.com/gpu", "nvidia0/gi11", kube.DeviceID{Vendor: "nvidia", Index: 0, GPUInstance: "11"}},
		"GKE, a slot of a GPU":             {"nvidia.com/gpu", "nvidia2/vgpu1", kube.DeviceID{Vendor: "nvidia", Index: 2, Replica: "1"}},
		"GKE, a slot of a MIG device":      {"nvidia.com/gpu", "nvidia1/gi5/vgpu0", kube.DeviceID{Vendor: "nvidia", Index: 1, GPUInstance: "5", Replica: "0"}},
		"AMD, a partition":                 {"amd.com/cpx_nps4", "amdgpu_xcp_12", kube.DeviceID{Vendor: "amd", Index: -1, Partition: "12"}},
		"AMD, a whole GPU":                 {"amd.com/gpu", "0000:c3:00.0", kube.DeviceID{Vendor: "amd", Index: -1, PCIAddress: "0000:c3:00.0"}},
		"AMD, a whole GPU in domain 10000": {"amd.com/gpu", "10000:c3:00.0", kube.DeviceID{Vendor: "amd", Index: -1, PCIAddress: "10000:c3:00.0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := kube.ParseDeviceID(test.resource, test.id)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestADeviceIDOfUnknownFormIsAnErrorAndNotAGuess(t *testing.T) {
	for _, id := range []string{
		"", "::", "::1", "GPU-", "GPU-1", "gpu-0", gpu0 + "-0", gpu0 + " ", gpu0 + "::", gpu0 + "::x", gpu0 + "::-1", gpu0 + "::1::2",
		"GPU-4CF8DB2D-06C0-7D70-1A51-E59B25B2C16C", "MIG-" + gpu0, "MIG-" + gpu0 + "/2", "MIG-" + gpu0 + "/2/", mig0 + "/1/0",
		"nvidia", "nvidia0/", "nvidia0/gi", "nvidia0/vgpu1/gi1", "nvidia-1", "nvidia99999",
		"amdgpu_xcp_", "amdgpu_xcp_1", "0000:c3:00.0", "0000:c3:00.0-slice-0", "card0-0", "neuron0",
	} {
		_, err := kube.ParseDeviceID("nvidia.com/gpu", id)
		require.Error(t, err, id)
		assert.ErrorContains(t, err, "nvidia.com/gpu")
	}
}

func FuzzParseDeviceID(f *testing.F) {
	for _, id := range []string{gpu0, gpu0 + "::1", mig0, "MIG-" + gpu0 + "/1/0", "nvidia0/gi1/vgpu2", "amdgpu_xcp_1", "0000:c3:00.0"} {
		f.Add("nvidia.com/gpu", id)
		f.Add("amd.com/gpu", id)
	}
	f.Fuzz(func(t *testing.T, resource, id string) {
		d, err := kube.ParseDeviceID(resource, id)
		if err != nil {
			assert.Zero(t, d)
			return
		}
		// What was read says which board, device or partition it is, by one name.
		names := 0
		for _, known := range []bool{d.UUID != "", d.MIGUUID != "", d.Index >= 0, d.PCIAddress != "", d.Partition != ""} {
			if known {
				names++
			}
		}
		assert.Equal(t, 1, names, "%+v", d)
		// The number of the slot changes nothing else.
		if d.Replica == "" {
			shared, err := kube.ParseDeviceID(resource, id+"::5")
			require.NoError(t, err)
			assert.Equal(t, "5", shared.Replica)
			shared.Replica = ""
			assert.Equal(t, d, shared)
		}
	})
}
