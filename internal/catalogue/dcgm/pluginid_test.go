package dcgm

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

const (
	gpu0 = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
	mig0 = "MIG-7a1c2b5e-31f4-5d0a-9c2e-0123456789ab"
)

func TestDeviceIDsOfEveryPlugin(t *testing.T) {
	for name, test := range map[string]struct {
		id   string
		want catalogue.PluginID
	}{
		"a whole GPU":                   {gpu0, catalogue.PluginID{UUID: gpu0}},
		"a slot of a time-sliced GPU":   {gpu0 + "::3", catalogue.PluginID{UUID: gpu0, Replica: true}},
		"the first slot":                {gpu0 + "::0", catalogue.PluginID{UUID: gpu0, Replica: true}},
		"a MIG device":                  {mig0, catalogue.PluginID{MIGUUID: mig0}},
		"a slot of a MIG device":        {mig0 + "::1", catalogue.PluginID{MIGUUID: mig0, Replica: true}},
		"a MIG device of an old driver": {"MIG-" + gpu0 + "/2/0", catalogue.PluginID{UUID: gpu0, GPUInstance: "2"}},
		"its slot":                      {"MIG-" + gpu0 + "/13/1::7", catalogue.PluginID{UUID: gpu0, GPUInstance: "13", Replica: true}},
		"GKE, a whole GPU":              {"nvidia7", catalogue.PluginID{Name: "nvidia7"}},
		"GKE, a MIG device":             {"nvidia0/gi11", catalogue.PluginID{Name: "nvidia0", GPUInstance: "11"}},
		"GKE, a slot of a GPU":          {"nvidia2/vgpu1", catalogue.PluginID{Name: "nvidia2", Replica: true}},
		"GKE, a slot of a MIG device":   {"nvidia1/gi5/vgpu0", catalogue.PluginID{Name: "nvidia1", GPUInstance: "5", Replica: true}},
	} {
		test.want.Raw = test.id
		assert.Equal(t, test.want, PluginID(test.id), name)
	}
}

func TestADeviceIDOfUnknownFormHasOnlyTheRawID(t *testing.T) {
	for _, id := range []string{
		"", "::", "::1", "GPU-", "GPU-1", "gpu-0", gpu0 + "-0", gpu0 + " ", gpu0 + "::", gpu0 + "::x", gpu0 + "::-1", gpu0 + "::1::2",
		"GPU-4CF8DB2D-06C0-7D70-1A51-E59B25B2C16C", "MIG-" + gpu0, "MIG-" + gpu0 + "/2", "MIG-" + gpu0 + "/2/", mig0 + "/1/0",
		"nvidia", "nvidia0/", "nvidia0/gi", "nvidia0/vgpu1/gi1", "nvidia-1", "nvidia01", "nvidia99999",
		"amdgpu_xcp_", "amdgpu_xcp_1", "0000:c3:00.0", "0000:c3:00.0-slice-0", "card0-0", "neuron0",
	} {
		assert.Equal(t, catalogue.PluginID{Raw: id}, PluginID(id))
	}
}

func FuzzPluginID(f *testing.F) {
	for _, id := range []string{gpu0, gpu0 + "::1", mig0, "MIG-" + gpu0 + "/1/0", "nvidia0/gi1/vgpu2", "0000:c3:00.0"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		d := PluginID(id)
		if d == (catalogue.PluginID{Raw: id}) {
			return
		}
		// A parsed ID names either a board or a MIG device.
		names := 0
		for _, known := range []string{d.UUID, d.MIGUUID, d.Name} {
			if known != "" {
				names++
			}
		}
		assert.Equal(t, 1, names, "%+v", d)
		// The slot number does not affect the other fields.
		if !d.Replica {
			shared := PluginID(id + "::5")
			assert.True(t, shared.Replica)
			shared.Replica, shared.Raw = false, id
			assert.Equal(t, d, shared)
		}
	})
}

func BenchmarkPluginID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		PluginID(gpu0 + "::3")
	}
}
