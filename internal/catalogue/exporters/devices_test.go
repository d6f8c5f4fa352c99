package exporters

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestInstancesHaveAShareOfTheBoard(t *testing.T) {
	for _, tt := range []struct {
		vendor, model, profile, told string
		seen, slices, of             int
	}{
		{"NVIDIA", "NVIDIA H100 80GB HBM3", "3g.40gb", "", 2, 3, 7},
		{"NVIDIA", "NVIDIA A30", "1g.6gb", "", 4, 1, 4},
		{"", "a model to come", "2g.20gb", "", 3, 2, 7},
		{"AMD", "AMD Instinct MI300X", "", "8", 5, 1, 8}, // the exporter omits some partitions (issue 495 of the exporter)
		{"amd", "", "", "", 2, 1, 2},
		{"AMD", "", "", "0", 2, 1, 2},
		{"AWS", "", "", "", 2, 0, 7}, // it is unknown how the cores share a device
	} {
		assert.Equal(t, tt.slices, Slices(tt.vendor, tt.profile), tt)
		assert.Equal(t, tt.of, BoardSlices(tt.vendor, tt.model, tt.told, tt.seen), tt)
	}
}

func TestExportersOfEveryVendorAreRecognizedByName(t *testing.T) {
	for _, h := range []catalogue.Holder{
		{Pod: "dcgm-exporter-x7k2p", Container: "exporter"}, {Pod: "neuron-monitor-b2c"}, {Pod: "xpumd-9"}, {Pod: "tpu-device-plugin-4"},
	} {
		assert.True(t, IsExporter(h), h)
	}
	assert.False(t, IsExporter(catalogue.Holder{Namespace: "research", Pod: "llm-train", Container: "main"}))
}

func TestMonitoringAgentsOnlyObserve(t *testing.T) {
	for _, h := range []catalogue.Holder{
		{Pod: "nvidia-dcgm-exporter-dra-x1", Container: "nvidia-dcgm-exporter"},
		{Pod: "nvidia-dcgm-9xk2p", Container: "nvidia-dcgm-ctr"},
		{Pod: "dcgm-0"},
		{Pod: "datadog-agent-b2c", Container: "agent"},
		{Pod: "agent-7", Container: "nv-hostengine"},
		{Name: "otelcol-gpu"},
	} {
		assert.True(t, IsMonitoringAgent(h), h)
	}
	for _, h := range []catalogue.Holder{{Pod: "my-dcgm-training"}, {Pod: "keplerian-orbits"}, {Pod: "llm-train", Container: "main"}} {
		assert.False(t, IsMonitoringAgent(h), h)
	}
}

func TestEveryVendorIsAValueOfItsAttribute(t *testing.T) {
	for _, x := range All {
		if x.Vendor != "" {
			assert.Contains(t, signal.Values(signal.HardwareVendor), x.Vendor, x.Name)
		}
	}
}
