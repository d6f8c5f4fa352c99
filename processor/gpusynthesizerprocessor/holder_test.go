package gpusynthesizerprocessor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The dcgm receiver scrapes the same text that gpudoctor reads.
func TestGPUDoctorReportsTheSameHoldersAsTheProcessor(t *testing.T) {
	gpu := func(uuid, labels string) string {
		return `DCGM_FI_DEV_GPU_TEMP{UUID="` + uuid + `",Hostname="n",` + labels + `} 30` + "\n"
	}
	const (
		exporter = `namespace="mon",pod="nvidia-dcgm-exporter-7xk2p",container="exporter",job="dcgm"`
		custom   = `namespace="mon",pod="gpu-metrics-7xk2p",container="exporter"`
		workload = `namespace="team",pod="load-dcgm-exporter",container="main"`
	)
	relayed := func(labels string) string {
		return strings.ReplaceAll(labels, `,job="dcgm"`, "") + `,exported_namespace="ns",exported_pod="p",exported_container="c",job="dcgm",instance="10.0.0.1:9400"`
	}
	chip := func(name string, number int, labels string) string {
		return fmt.Sprintf(`%s{accelerator_id="7-%d",make="cloud-tpu",%s} 5`+"\n", name, number, labels)
	}
	const (
		plugin = `namespace="kube-system",pod="tpu-device-plugin-4",container="plugin"`
		p1     = `namespace="ns",pod="p1",container="c"`
		p2     = `namespace="ns",pod="p2",container="c"`
	)
	idle := func(labels ...string) (out string) {
		for _, l := range labels {
			out += chip("tensorcore_utilization", 0, l) + chip("tensorcore_utilization", 1, l)
		}
		return out
	}
	for name, body := range map[string]string{
		"TPU node with one pod":                                          idle(p1),
		"TPU node with two pods":                                         idle(p1, p2),
		"TPU node with two pods and two workloads":                       idle(p1, p2) + chip("duty_cycle", 404, p1) + chip("duty_cycle", 405, p2),
		"workload on a chip that does not exist":                         idle(p1) + chip("duty_cycle", 404, p2),
		"TPU node with one pod through Prometheus":                       idle(relayed(plugin)) + chip("tensorcore_utilization_node", 0, plugin) + chip("tensorcore_utilization_node", 1, plugin),
		"workload named like an exporter":                                gpu("GPU-1", workload) + gpu("GPU-2", `namespace="",pod="",container=""`),
		"workload named like an exporter through Prometheus":             gpu("GPU-1", workload+`,job="dcgm"`),
		"exporter through Prometheus":                                    gpu("GPU-1", exporter) + gpu("GPU-2", relayed(exporter)),
		"exporter with another name":                                     gpu("GPU-1", custom) + gpu("GPU-2", relayed(custom)),
		"workload and exporter":                                          gpu("GPU-1", `namespace="ns",pod="p",container="c",job="x"`) + gpu("GPU-2", relayed(custom)),
		"exporter with another name and workload named like an exporter": gpu("GPU-1", custom+`,exported_namespace="team",exported_pod="load-dcgm-exporter",exported_container="main",job="x",instance="10.0.0.1:9400"`),
		"container without a pod":                                        gpu("GPU-1", `container="my-dcgm-exporter-load"`),
		"job and the exporter's pod":                                     gpu("GPU-1", exporter+`,hpc_job="7"`) + gpu("GPU-2", `hpc_job="8"`),
		"pod without a namespace":                                        gpu("GPU-1", `pod="p"`),
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t)
			p.play([]delivery{scraped(t, 20, urlA, body)})
			var held []string
			for dp := range points.All(p.sink.AllMetrics()[0]) {
				if dp.Metric.Name() == signal.GPUDeviceHolder.Name {
					held = append(held, text(dp.Attributes(), signal.HardwareID))
				}
			}
			var reported []string
			for key, reason := range doctor(parse(t, body)) {
				if key.signal == signal.GPUDeviceHolder.Name && reason == "" {
					reported = append(reported, key.id)
				}
			}
			assert.ElementsMatch(t, held, reported)
		})
	}
}

func TestTheScrapedPodIsNoHolderWhateverItsName(t *testing.T) {
	const (
		called  = `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n",namespace="team",pod="dcgm-exporter-load",container="main"} 30`
		idle    = `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n",namespace="mon",pod="gpu-metrics-7xk2p",container="main",job="dcgm"} 30`
		held    = `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n",namespace="mon",pod="gpu-metrics-7xk2p",container="main",job="dcgm",instance="10.0.0.1:9400",exported_namespace="ns",exported_pod="p",exported_container="c"} 30`
		bare    = `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n",namespace="mon",pod="gpu-metrics",container="main",job="gpu-metrics",instance="10.0.0.1:9400"} 30`
		another = `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n",namespace="ns",pod="gpu-metrics-7xk2p",container="c"} 30`
	)
	target := func(text, namespace, pod string) delivery {
		d := delivery{20, onPoints(scrape{20, parse(t, text)})}
		attrs := d.batch.ResourceMetrics().At(0).Resource().Attributes()
		attrs.PutStr(signal.K8sNamespaceName, namespace)
		attrs.PutStr(signal.K8sPodName, pod)
		return d
	}
	relayed := func(text string) delivery { return delivery{20, onResources(scrape{20, parse(t, text)})} }
	for name, tt := range map[string]struct {
		deliveries []delivery
		holder     string // in the last batch
	}{
		"a directly scraped exporter names a pod that is named like an exporter": {[]delivery{scraped(t, 20, urlA, called)}, "dcgm-exporter-load"},
		"the pod that is named like an exporter is not the target":               {[]delivery{target(called, "mon", "gpu-metrics-7xk2p")}, "dcgm-exporter-load"},
		"the target is unknown and the pod is named like an exporter":            {[]delivery{scraped(t, 20, urlA, strings.Replace(called, "UUID", `job="dcgm",UUID`, 1))}, ""},
		"the target is not named like an exporter":                               {[]delivery{target(idle, "mon", "gpu-metrics-7xk2p")}, ""},
		"the target is unknown and the pod has the name of the scrape job":       {[]delivery{relayed(bare)}, ""},
		"the pod has the name of the target but another namespace":               {[]delivery{target(another, "mon", "gpu-metrics-7xk2p")}, "gpu-metrics-7xk2p"},
		"an earlier scrape with a holder showed the target":                      {[]delivery{scraped(t, 10, urlA, held), scraped(t, 20, urlA, idle)}, ""},
		"the scrape has a holder in addition to the target":                      {[]delivery{scraped(t, 20, urlA, held)}, "p"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t)
			p.play(tt.deliveries)
			lines := p.lines(signal.GPUDeviceHolder.Name, 20)
			if tt.holder == "" {
				assert.Empty(t, lines)
				return
			}
			require.Len(t, lines, 1)
			assert.Contains(t, lines[0], "k8s.pod.name="+tt.holder+"}")
		})
	}
}
