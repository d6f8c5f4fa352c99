package chain

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

const (
	heldGPU  = "GPU-00000001-0000-4000-8000-000000000000"
	freeGPU  = "GPU-00000002-0000-4000-8000-000000000000"
	otherGPU = "GPU-0000000a-0000-4000-8000-000000000000" // used for several vendors' devices
)

// oneOfEveryVendor contains, for each exporter, samples of one device. The samples have pod labels
// if the exporter supports them. If the exporter can report an arbitrary device ID, the device has
// an NVIDIA-style ID.
var oneOfEveryVendor = map[string]struct{ row, id, pod string }{
	"dcgm-exporter": {`DCGM_FI_DEV_POWER_USAGE{UUID="` + heldGPU + `",Hostname="n1"} 100`, heldGPU, "ns/nvidia"},
	"device-metrics-exporter": {`gpu_gfx_activity{gpu_uuid="` + otherGPU + `",gpu_id="0",card_vendor="AMD",card_model="MI300X",hostname="n1",` +
		`pod="amd",namespace="ns",container="c"} 40`, otherGPU, "ns/amd"},
	"tpu-device-plugin": {`duty_cycle{make="cloud-tpu",model="tpu-v5p-slice",accelerator_id="GPU-tpu-0",pod="tpu",namespace="ns",container="c"} 40
duty_cycle_node{make="cloud-tpu",model="tpu-v5p-slice",accelerator_id="GPU-tpu-0"} 40
tensorcore_utilization_node{make="cloud-tpu",model="tpu-v5p-slice",accelerator_id="GPU-tpu-0"} 40`, "GPU-tpu-0", "ns/tpu"},
	"neuron-monitor": {
		`neuroncore_utilization_ratio{instance_id="GPU-neuron",instance_type="inf2.xlarge",neuroncore="0",runtime_tag="1"} 0.4`,
		"GPU-neuron/nc0", "",
	},
	"xpumd": {`hw_gpu_utilization_ratio{hw_id="GPU-intel",hw_vendor="intel",pci_bdf="0000:03:00.0",hw_gpu_task="all"} 0.4`, "GPU-intel", ""},
	"npu-exporter": {
		`npu_chip_info_utilization{id="0",vdie_id="GPU-ascend",model_name="910B",pod_name="ascend",namespace="ns",container_name="c"} 40`,
		"GPU-ascend", "ns/ascend",
	},
	"HAMi vGPU monitor": {`hami_vgpu_memory_used_bytes{device_uuid="0a1b-hami",namespace="ns",pod="hami",container="c"} 40`, "0a1b-hami", "ns/hami"},
	// The samples name a pod but no device. The kubelet reports which devices the pod holds.
	"host-PID exporter": {`gpu_pod_memory_used_bytes{namespace="ns",pod="nvidia",container="c",process_name="python",pid="7"} 40`, "", ""},
}

// If a kubelet lists only NVIDIA devices, the holders of other vendors' devices are read from
// labels. If samples have no labels that identify the holder, the holders of other vendors' devices
// are unknown.
func TestAKubeletThatListsOnlyNVIDIADevicesProvesNothingAboutOtherVendors(t *testing.T) {
	kubelet := kubelettest.Start(t)
	kubelet.Set(kube.ContainerResources{Namespace: "ns", Pod: "nvidia", Container: "c", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: heldGPU}}})

	clients, held := map[string]float64{}, map[string]string{}
	sink, err := consumer.NewMetrics(func(_ context.Context, md pmetric.Metrics) error {
		for p := range points.All(md) {
			id := pdatagpu.Text(p.Attributes(), signal.HardwareID)
			switch p.Metric.Name() {
			case signal.GPUSharingClients.Name:
				clients[id] = points.Value(p.NumberDataPoint)
			case signal.GPUDeviceHolder.Name:
				attrs := p.Resource.Attributes()
				held[id] = pdatagpu.Text(attrs, signal.K8sNamespaceName) + "/" + pdatagpu.Text(attrs, signal.K8sPodName)
			}
		}
		return nil
	})
	require.NoError(t, err)
	f := gpuk8sprocessor.NewFactory()
	cfg := f.CreateDefaultConfig().(*gpuk8sprocessor.Config)
	cfg.NodeName, cfg.Kubernetes.AuthType, cfg.Sources.PodResources.Socket = "n1", kube.AuthNone, kubelet.Socket()
	k8s, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, sink)
	require.NoError(t, err)
	require.NoError(t, k8s.Start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, k8s.Shutdown(context.Background())) })
	head := chained(t, k8s, gpusynthesizerprocessor.NewFactory())

	body := `DCGM_FI_DEV_POWER_USAGE{UUID="` + freeGPU + `",Hostname="n1"} 50` + "\n"
	for _, x := range exporters.All {
		require.Contains(t, oneOfEveryVendor, x.Name)
		body += oneOfEveryVendor[x.Name].row + "\n"
	}
	for range 2 { // gpu_k8s maps the kubelet's list to a device only after the device's first sample
		md := scraped(t, []byte(body), time.Now())
		md.ResourceMetrics().At(0).Resource().Attributes().PutStr(signal.K8sNodeName, "n1")
		require.NoError(t, head.ConsumeMetrics(t.Context(), md))
	}
	wantClients, wantHeld := map[string]float64{freeGPU: 0}, map[string]string{}
	for _, v := range oneOfEveryVendor {
		if v.pod != "" {
			wantClients[v.id], wantHeld[v.id] = 1, v.pod
		}
	}
	assert.Equal(t, wantHeld, held)
	assert.Equal(t, wantClients, clients)
}
