package chain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

// forms lists the two ways to combine gpu_synthesizer, gpu_k8s, and gpu_window.
var forms = []string{"a list of stages", "plain processors"}

// pipeline starts gpu_synthesizer, gpu_k8s, and gpu_window on node n1. gpu_window passes all
// samples through.
func pipeline(t *testing.T, form string, k8s map[string]any) (consumer.Metrics, *consumertest.MetricsSink) {
	t.Helper()
	sink := &consumertest.MetricsSink{}
	configured := map[string]any{
		"node_name": "n1", "kubernetes": map[string]any{"auth_type": "none"},
		"sources": map[string]any{"pod_resources": map[string]any{"enabled": false}, "dra": map[string]any{"enabled": false}},
	}
	maps.Copy(configured, k8s)
	window := map[string]any{"passthrough": "all"}
	synthesizer := map[string]any{"node_name": "n1"}
	started := func(f processor.Factory, conf map[string]any, next consumer.Metrics) consumer.Metrics {
		p := startProcessor(t, f, conf, next)
		t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
		return p
	}
	if form == forms[0] {
		synthesizer["stages"] = map[string]any{"gpu_k8s": configured, "gpu_window": window}
		return started(gpusynthesizerprocessor.NewFactory(), synthesizer, sink), sink
	}
	next := started(gpuwindowprocessor.NewFactory(), window, sink)
	next = started(gpuk8sprocessor.NewFactory(), configured, next)
	return started(gpusynthesizerprocessor.NewFactory(), synthesizer, next), sink
}

// startProcessor starts a processor. The caller must shut the processor down.
func startProcessor(t *testing.T, f processor.Factory, conf map[string]any, next consumer.Metrics) processor.Metrics {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(conf).Unmarshal(cfg))
	p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), componenttest.NewNopHost()))
	return p
}

// fromExporter returns the samples from one scrape of an exporter on node n1.
func fromExporter(t *testing.T, name, body string, at time.Time) pmetric.Metrics {
	t.Helper()
	md := scraped(t, []byte(body), at)
	for k, v := range map[string]string{"service.name": name, "service.instance.id": name + ":9400", signal.K8sNodeName: "n1"} {
		md.ResourceMetrics().At(0).Resource().Attributes().PutStr(k, v)
	}
	return md
}

// workload returns the latest values of container metrics, process metrics, and the devices'
// attribution states. Each key consists of the metric, the device, and the pod or process.
func workload(sink *consumertest.MetricsSink) map[string]string {
	out, newest := map[string]string{}, map[string]int64{}
	for _, md := range sink.AllMetrics() {
		for p := range points.All(md) {
			attrs, resource := p.Attributes(), p.Resource.Attributes()
			key := p.Metric.Name() + " " + pdatagpu.Text(attrs, signal.HardwareID)
			value := strconv.FormatFloat(points.Value(p.NumberDataPoint), 'f', -1, 64)
			switch name := p.Metric.Name(); {
			case name == signal.GPUMemoryAttributionState.Name:
				if points.Value(p.NumberDataPoint) == 0 {
					continue
				}
				value = pdatagpu.Text(attrs, signal.Reason)
			case name == signal.HwGPUMemoryUsage.Name && pdatagpu.Text(resource, signal.K8sPodName) == "":
			case strings.HasPrefix(name, "process.gpu."):
				key += " " + pdatagpu.Text(attrs, signal.ProcessPID) + " of " + pdatagpu.Text(resource, signal.K8sPodName)
			case strings.HasPrefix(name, "k8s.container.gpu.memory.") || name == signal.K8sContainerGPUPower.Name:
				key += " of " + pdatagpu.Text(resource, signal.K8sPodName)
				if pdatagpu.Text(attrs, signal.PowerEstimated) == "true" {
					value += " estimated"
				}
			default:
				continue
			}
			if at := int64(p.Timestamp()); at >= newest[key] {
				out[key], newest[key] = value, at
			}
		}
	}
	return out
}

const (
	board1 = "GPU-00000001-0000-4000-8000-000000000000"
	board2 = "GPU-00000002-0000-4000-8000-000000000000"
	board3 = "GPU-00000003-0000-4000-8000-000000000000"
)

// boards returns dcgm-exporter's samples for boards with 16 GiB of memory each. The used parameter
// contains each board's used memory, in MiB.
func boards(used map[string]int) string {
	var b strings.Builder
	for i, id := range []string{board1, board2, board3} {
		if mib, ok := used[id]; ok {
			labels := fmt.Sprintf(`{UUID="%s",gpu="%d",device="nvidia%d",Hostname="n1"}`, id, i, i)
			fmt.Fprintf(&b, "DCGM_FI_DEV_FB_USED%s %d\nDCGM_FI_DEV_FB_FREE%s %d\nDCGM_FI_DEV_POWER_USAGE%s 100\n", labels, mib, labels, 16384-mib, labels)
		}
	}
	return b.String()
}

// kubeletWith starts a kubelet that lists each pod's boards, and returns a gpu_k8s configuration
// that uses this kubelet.
func kubeletWith(t *testing.T, boards map[string][]string) map[string]any {
	t.Helper()
	kubelet := kubelettest.Start(t)
	var list []kube.ContainerResources
	for pod, ids := range boards {
		c := kube.ContainerResources{Namespace: "ns", Pod: pod, Container: "c"}
		for _, id := range ids {
			c.Devices = append(c.Devices, kube.DeviceRef{Resource: "nvidia.com/gpu", ID: id})
		}
		list = append(list, c)
	}
	kubelet.Set(list...)
	return map[string]any{
		"sources": map[string]any{"pod_resources": map[string]any{"socket": kubelet.Socket()}, "dra": map[string]any{"enabled": false}},
	}
}

const mib = 1 << 20

// The host-PID exporter reports the container of each process but not the device. Pods a and b
// share a board. Pod c holds two boards, so it is unknown how the pod's memory is divided between
// the two boards.
func TestMemoryThatTheHostPIDExporterListsIsOnTheContainersBoard(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			k8s := kubeletWith(t, map[string][]string{"a": {board1 + "::0"}, "b": {board1 + "::1"}, "c": {board2, board3}})
			k8s["budget"], k8s["power"], k8s["usage"] = map[string]any{}, map[string]any{"idle": map[string]any{"watts": 40}}, map[string]any{}
			head, sink := pipeline(t, form, k8s)
			begin := time.Now().Add(-30 * time.Second)
			for i := range 3 {
				at := begin.Add(time.Duration(i) * 10 * time.Second)
				require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "dcgm", boards(map[string]int{board1: 6500, board2: 4000, board3: 4000}), at)))
				require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "gpu-pod-exporter", fmt.Sprintf(`
gpu_pod_memory_used_bytes{namespace="ns",pod="a",container="c",process_name="python",pid="7"} %d
gpu_pod_memory_used_bytes{namespace="ns",pod="a",container="c",process_name="python",pid="8"} %d
gpu_pod_memory_used_bytes{namespace="ns",pod="b",container="c",process_name="python",pid="9"} %d
gpu_pod_memory_used_bytes{namespace="ns",pod="c",container="c",process_name="python",pid="10"} %d
gpu_pod_memory_used_bytes{namespace="unknown",pod="unknown",container="host",process_name="X",pid="11"} %d
`, 1000*mib, 1000*mib, 4000*mib, 8000*mib, 100*mib), at.Add(time.Second))))
			}
			got := workload(sink)
			assert.Subset(t, got, map[string]string{
				"process.gpu.memory.usage " + board1 + " 7 of a":     fmt.Sprint(1000 * mib),
				"process.gpu.memory.usage " + board1 + " 9 of b":     fmt.Sprint(4000 * mib),
				"k8s.container.gpu.memory.usage " + board1 + " of a": fmt.Sprint(2000 * mib),
				"k8s.container.gpu.memory.usage " + board1 + " of b": fmt.Sprint(4000 * mib),
				"gpu.memory.attribution.state " + board1:             "adds_up",
				// According to the kubelet, pod c is the only holder of board2.
				"k8s.container.gpu.memory.usage " + board2 + " of c": fmt.Sprint(4000 * mib),
			})
			for key := range got {
				assert.NotRegexp(t, `^process\.gpu.* (10|11) of`, key, "the device of the process is unknown")
				assert.NotRegexp(t, `^process\.gpu[a-z.]*  `, key, "every process has a device")
			}
		})
	}
}

// On a node with one board, all memory of a process that is not in a container must be on that
// board.
func TestOnANodeWithOneBoardAProcessInNoContainerExplainsItsMemory(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			k8s := kubeletWith(t, map[string][]string{"a": {board1 + "::0"}, "b": {board1 + "::1"}})
			k8s["budget"] = map[string]any{}
			head, sink := pipeline(t, form, k8s)
			begin := time.Now().Add(-30 * time.Second)
			for i := range 2 {
				at := begin.Add(time.Duration(i) * 10 * time.Second)
				require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "dcgm", boards(map[string]int{board1: 9000}), at)))
				require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "gpu-pod-exporter", fmt.Sprintf(`
gpu_pod_memory_used_bytes{namespace="ns",pod="a",container="c",process_name="python",pid="7"} %d
gpu_pod_memory_used_bytes{namespace="ns",pod="b",container="c",process_name="python",pid="8"} %d
gpu_pod_memory_used_bytes{namespace="unknown",pod="unknown",container="host",process_name="X",pid="9"} %d
`, 2000*mib, 2000*mib, 4800*mib), at.Add(time.Second))))
			}
			assert.Subset(t, workload(sink), map[string]string{
				"process.gpu.memory.usage " + board1 + " 9 of ":      strconv.Itoa(4800 * mib),
				"k8s.container.gpu.memory.usage " + board1 + " of a": strconv.Itoa(2000 * mib),
				"gpu.memory.attribution.state " + board1:             "adds_up",
			})
		})
	}
}

// nvmlList returns a process list in the nvml receiver's output format. The processes parameter
// maps each PID to the memory that the process uses on one board, in MiB. All processes belong to
// pod a. If count is negative, the list has no process count and may be incomplete.
func nvmlList(at time.Time, count int, processes map[string]int) pmetric.Metrics {
	md := pmetric.NewMetrics()
	add := func(metric, pid string, v int) {
		rm := md.ResourceMetrics().AppendEmpty()
		resource := rm.Resource().Attributes()
		resource.PutStr(signal.K8sNodeName, "n1")
		if pid != "" {
			for k, text := range map[string]string{
				signal.K8sNamespaceName: "ns", signal.K8sPodName: "a", signal.K8sContainerName: "c", signal.K8sPodUID: "uid-a",
			} {
				resource.PutStr(k, text)
			}
		}
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName(signal.ScopeNVML)
		m := sm.Metrics().AppendEmpty()
		m.SetName(metric)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(at))
		dp.SetIntValue(int64(v))
		dp.Attributes().PutStr(signal.HardwareID, board1)
		if pid != "" {
			dp.Attributes().PutStr(signal.ProcessPID, pid)
		}
	}
	if count >= 0 {
		add(signal.GPUProcessCount.Name, "", count)
	}
	for pid, v := range processes {
		add(signal.ProcessGPUMemoryUsage.Name, pid, v*mib)
	}
	return md
}

// The nvml receiver and an exporter list a board's processes at different times. gpu_k8s must use
// the more complete list.
func TestTheMoreCompleteOfTwoProcessListsIsUsed(t *testing.T) {
	for name, tc := range map[string]struct {
		count int
		b     string // memory usage of pod b, whose process is listed only by the exporter
		left  []string
	}{
		"the nvml receiver counted":         {1, "0", []string{"7 of a"}},
		"the nvml receiver did not":         {-1, strconv.Itoa(1000 * mib), []string{"7 of a", "8 of b"}},
		"the nvml receiver lacks a process": {2, strconv.Itoa(1000 * mib), []string{"7 of a", "8 of b"}},
	} {
		for _, form := range forms {
			t.Run(name+", "+form, func(t *testing.T) {
				k8s := kubeletWith(t, map[string][]string{"a": {board1 + "::0"}, "b": {board1 + "::1"}})
				k8s["budget"] = map[string]any{}
				head, sink := pipeline(t, form, k8s)
				begin := time.Now().Add(-50 * time.Second)
				for i := range 4 {
					at := begin.Add(time.Duration(i) * 10 * time.Second)
					require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "dcgm", boards(map[string]int{board1: 2600}), at)))
					if i == 1 {
						sink.Reset() // ignore the first round, in which both sources are new
					}
					require.NoError(t, head.ConsumeMetrics(t.Context(), nvmlList(at.Add(time.Second), tc.count, map[string]int{"7": 2000})))
					require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "gpu-pod-exporter", fmt.Sprintf(`
gpu_pod_memory_used_bytes{namespace="ns",pod="a",container="c",process_name="python",pid="7"} %d
gpu_pod_memory_used_bytes{namespace="ns",pod="b",container="c",process_name="python",pid="8"} %d
`, 2000*mib, 1000*mib), at.Add(2*time.Second))))
				}
				got := workload(sink)
				assert.Equal(t, "adds_up", got["gpu.memory.attribution.state "+board1], "%v", got)
				assert.Equal(t, tc.b, got["k8s.container.gpu.memory.usage "+board1+" of b"], "%v", got)
				var listed []string
				for key := range got {
					if _, process, of := strings.Cut(key, "process.gpu.memory.usage "+board1+" "); of {
						listed = append(listed, process)
					}
				}
				slices.Sort(listed)
				assert.Equal(t, tc.left, listed)
			})
		}
	}
}

// nvidia_gpu_exporter reports the board of each process but not the container. The nvml receiver
// reports which container a PID belongs to.
func TestAProcessOfNVIDIAGPUExporterIsInTheContainerThatTheNVMLReceiverNames(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			head, sink := pipeline(t, form, map[string]any{})
			at := time.Now().Add(-30 * time.Second)
			require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "dcgm", boards(map[string]int{board1: 2600, board2: 100}), at)))
			require.NoError(t, head.ConsumeMetrics(t.Context(), nvmlList(at.Add(time.Second), -1, map[string]int{"7": 2000})))
			require.NoError(t, head.ConsumeMetrics(t.Context(), fromExporter(t, "nvidia_gpu_exporter", fmt.Sprintf(`
nvidia_smi_compute_app_used_memory_bytes{uuid="%[1]s",pid="7",process_name="python"} %[2]d
nvidia_smi_compute_app_used_memory_bytes{uuid="%[1]s",pid="8",process_name="python"} %[3]d
`, strings.TrimPrefix(board1, "GPU-"), 2001*mib, 500*mib), at.Add(2*time.Second))))
			var listed []string
			for _, md := range sink.AllMetrics() {
				for p := range points.All(md) {
					if p.Metric.Name() == signal.ProcessGPUMemoryUsage.Name {
						listed = append(listed, fmt.Sprint(pdatagpu.Text(p.Attributes(), signal.HardwareID), " ", pdatagpu.Text(p.Attributes(), signal.ProcessPID),
							" ", pdatagpu.Text(p.Resource.Attributes(), signal.K8sPodName), " ", int64(points.Value(p.NumberDataPoint))/mib))
					}
				}
			}
			assert.ElementsMatch(t, []string{board1 + " 7 a 2000", board1 + " 7 a 2001", board1 + " 8  500"}, listed)
		})
	}
}

// Without gpu_k8s, the devices of the processes stay unknown. gpu_window sends the last value of
// each process.
func TestWithoutGPUK8sTheProcessesOfExportersAreSentWithTheWindow(t *testing.T) {
	bodies := map[string]string{
		"gpu-pod-exporter":    fmt.Sprintf("gpu_pod_memory_used_bytes{namespace=\"ns\",pod=\"a\",container=\"c\",process_name=\"python\",pid=\"7\"} %d\n", 1000*mib),
		"nvidia_gpu_exporter": fmt.Sprintf("nvidia_smi_compute_app_used_memory_bytes{uuid=\"%s\",pid=\"8\",process_name=\"python\"} %d\n", strings.TrimPrefix(board1, "GPU-"), 500*mib),
	}
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			sink := &consumertest.MetricsSink{}
			synthesizer, window := map[string]any{"node_name": "n1"}, gpuwindowprocessor.NewFactory()
			var all []processor.Metrics
			if form == forms[0] {
				synthesizer["stages"] = map[string]any{"gpu_window": map[string]any{}}
				all = []processor.Metrics{startProcessor(t, gpusynthesizerprocessor.NewFactory(), synthesizer, sink)}
			} else {
				last := startProcessor(t, window, nil, sink)
				all = []processor.Metrics{startProcessor(t, gpusynthesizerprocessor.NewFactory(), synthesizer, last), last}
			}
			for exporter, body := range bodies {
				require.NoError(t, all[0].ConsumeMetrics(t.Context(), fromExporter(t, exporter, body, time.Now())))
			}
			for _, p := range all {
				require.NoError(t, p.Shutdown(t.Context()))
			}
			assert.Equal(t, map[string]string{
				"process.gpu.memory.usage  7 of a":              strconv.Itoa(1000 * mib),
				"process.gpu.memory.usage " + board1 + " 8 of ": strconv.Itoa(500 * mib),
			}, workload(sink))
		})
	}
}
