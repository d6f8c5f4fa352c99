//go:build linux && !otelcol_gpu_no_nvml

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
)

const (
	idleWatts = 40
)

// chain is a pipeline of gpu_synthesizer, gpu_k8s, and gpu_window.
type chain struct {
	first   consumer.Metrics
	windows *consumertest.MetricsSink

	mu      sync.Mutex
	samples []pmetric.Metrics // what gpu_k8s sends to gpu_window

	running []component.Component // in start order
}

// startChain starts an agent's processors. The socket parameter is the path of the kubelet's
// socket.
func startChain(t *testing.T, kubeConfig, socket string) *chain {
	t.Helper()
	c := &chain{windows: &consumertest.MetricsSink{}}
	t.Cleanup(func() { c.stop(t) })
	windows := c.processor(t, gpuwindowprocessor.NewFactory(), c.windows, nil)
	between, err := consumer.NewMetrics(func(ctx context.Context, md pmetric.Metrics) error {
		kept := pmetric.NewMetrics()
		md.CopyTo(kept)
		c.mu.Lock()
		c.samples = append(c.samples, kept)
		c.mu.Unlock()
		return windows.ConsumeMetrics(ctx, md)
	})
	require.NoError(t, err)
	on := map[string]any{"enabled": true}
	attribution := c.processor(t, gpuk8sprocessor.NewFactory(), between, map[string]any{
		"power":      map[string]any{"idle": map[string]any{"watts": idleWatts}},
		"node_name":  node,
		"sources":    map[string]any{"pod_resources": map[string]any{"socket": socket, "interval": "1s"}},
		"kubernetes": map[string]any{"auth_type": "kubeConfig", "kubeconfig": kubeConfig},
		"metrics": map[string]any{
			signal.ContainerAcceleratorMemoryTotal.Name: on, signal.ContainerAcceleratorMemoryUsed.Name: on,
			signal.ContainerAcceleratorDutyCycle.Name: on,
		},
	})
	c.first = c.processor(t, gpusynthesizerprocessor.NewFactory(), attribution, map[string]any{"node_name": node})
	return c
}

func configure(t *testing.T, cfg component.Config, config map[string]any) component.Config {
	t.Helper()
	require.NoError(t, confmap.NewFromStringMap(config).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	return cfg
}

func (c *chain) start(t *testing.T, started component.Component) {
	t.Helper()
	require.NoError(t, started.Start(t.Context(), componenttest.NewNopHost()))
	c.running = append(c.running, started)
}

func (c *chain) processor(t *testing.T, f processor.Factory, next consumer.Metrics, config map[string]any) processor.Metrics {
	t.Helper()
	p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), configure(t, f.CreateDefaultConfig(), config), next)
	require.NoError(t, err)
	c.start(t, p)
	return p
}

// receive starts a receiver that sends its output to the chain.
func (c *chain) receive(t *testing.T, f receiver.Factory, config map[string]any) {
	t.Helper()
	r, err := f.CreateMetrics(t.Context(), receivertest.NewNopSettings(f.Type()), configure(t, f.CreateDefaultConfig(), config), c.first)
	require.NoError(t, err)
	c.start(t, r)
}

// stop shuts down the receivers, and then the processors that they send to. stop may be called more
// than once.
func (c *chain) stop(t *testing.T) {
	t.Helper()
	for _, running := range slices.Backward(c.running) {
		require.NoError(t, running.Shutdown(context.Background()))
	}
	c.running = nil
}

// seen returns all samples that gpu_k8s has sent so far.
func (c *chain) seen() []pmetric.Metrics {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.samples)
}

// The until method waits for a batch of samples for which the fits function returns true, and
// returns that batch.
func (c *chain) until(t *testing.T, what string, fits func(pmetric.Metrics) bool) pmetric.Metrics {
	t.Helper()
	var found pmetric.Metrics
	require.Eventually(t, func() bool {
		seen := c.seen()
		i := slices.IndexFunc(seen, fits)
		if i >= 0 {
			found = seen[i]
		}
		return i >= 0
	}, patience, poll, what)
	return found
}

// machine is a fake machine with an NVML stub and fake /proc and /sys file systems.
type machine struct {
	*nvmltest.Stub
}

// newMachine creates a machine with an NVIDIA device and an NVML stub. The receiver on the new
// machine is in the host's PID namespace.
func newMachine(t *testing.T, script string) *machine {
	t.Helper()
	m := &machine{nvmltest.Build(t)}
	m.Script(t, script)
	m.write(t, "sys/bus/pci/devices/0/vendor", "0x10de\n")
	namespaces := filepath.Join(m.Dir, "proc", "self", "ns")
	require.NoError(t, os.MkdirAll(namespaces, 0o700))
	require.NoError(t, os.Symlink("pid:[4026531836]", filepath.Join(namespaces, "pid")))
	return m
}

func (m *machine) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(m.Dir, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// container moves a process to a pod's container. The name of the process's cgroup has the format
// that the kubelet uses.
func (m *machine) container(t *testing.T, pid int, podUID, containerID string) {
	t.Helper()
	m.write(t, fmt.Sprintf("proc/%d/cgroup", pid), fmt.Sprintf(
		"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%s.slice/cri-containerd-%s.scope\n",
		strings.ReplaceAll(podUID, "-", "_"), containerID))
}

// ofHost moves a process to a cgroup that does not belong to a container.
func (m *machine) ofHost(t *testing.T, pid int) {
	t.Helper()
	m.write(t, fmt.Sprintf("proc/%d/cgroup", pid), "0::/system.slice/monitoring.service\n")
}

// nvml starts the nvml receiver on the given machine.
func (c *chain) nvml(t *testing.T, m *machine, processesOnly bool) {
	t.Helper()
	c.receive(t, nvmlreceiver.NewFactory(), map[string]any{
		"collection_interval": "1s", "library_path": m.Path, "node_name": node, "processes_only": processesOnly,
		"proc_root": filepath.Join(m.Dir, "proc"), "sys_root": filepath.Join(m.Dir, "sys"),
	})
}

// point is a data point with a numeric value.
type point struct {
	metric, scope string
	time          pcommon.Timestamp
	value         float64
	resource      map[string]any
	attrs         map[string]any
}

func (p *point) text(key string) string {
	if v, ok := p.resource[key]; ok {
		return fmt.Sprint(v)
	}
	if v, ok := p.attrs[key]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

func pointsOf(t *testing.T, md pmetric.Metrics) []point {
	t.Helper()
	var all []point
	for p := range points.All(md) {
		all = append(all, point{
			p.Metric.Name(), p.Scope.Name(), p.Timestamp(), points.Value(p.NumberDataPoint),
			p.Resource.Attributes().AsRaw(), p.Attributes().AsRaw(),
		})
	}
	require.Len(t, all, md.DataPointCount(), "all are of gauges and sums")
	return all
}

// find returns the points of metric m that have the given attributes. pairs contains alternating
// attribute names and values.
func find(got []point, m *signal.Metric, pairs ...string) []point {
	var found []point
	for i := range got {
		fits := got[i].metric == m.Name
		for k := 0; k < len(pairs); k += 2 {
			fits = fits && got[i].text(pairs[k]) == pairs[k+1]
		}
		if fits {
			found = append(found, got[i])
		}
	}
	return found
}

// The one function returns the value of the point that matches the given metric and attributes. The
// test fails unless exactly one point matches.
func one(t *testing.T, got []point, m *signal.Metric, pairs ...string) float64 {
	t.Helper()
	found := find(got, m, pairs...)
	require.Len(t, found, 1, "%s %v", m.Name, pairs)
	return found[0].value
}

// series returns the identity of the point's series. The identity does not include the host name,
// because components may set different host names.
func (p *point) series() string {
	var parts []string
	for k, v := range p.resource {
		if k != signal.HostName {
			parts = append(parts, fmt.Sprint(k, "=", v))
		}
	}
	for k, v := range p.attrs {
		if role := signal.RoleOf(k); role == signal.DistinguishesSeries || role == signal.IdentifiesDevice {
			parts = append(parts, fmt.Sprint(k, "=", v))
		}
	}
	slices.Sort(parts)
	return p.metric + "{" + strings.Join(parts, ", ") + "}"
}

// checkSamples checks properties that the samples of every chain must have.
func checkSamples(t *testing.T, batches []pmetric.Metrics) {
	t.Helper()
	scopes := map[string]string{}
	for _, md := range batches {
		got := pointsOf(t, md)
		once := map[string]bool{}
		for i := range got {
			p := &got[i]
			s := p.series()
			assert.False(t, once[s], "twice in a batch: %s", s)
			once[s] = true
			if scopes[s] == "" {
				scopes[s] = p.scope
			}
			assert.Equal(t, scopes[s], p.scope, "from two sources: %s", s)
		}
		checkConservation(t, got)
	}
}

// checkConservation checks that, for every board with measured power, the board's power equals the
// sum of the attributed power.
func checkConservation(t *testing.T, got []point) {
	t.Helper()
	for _, measured := range find(got, signal.HwPower, signal.K8sPodName, "") {
		board := measured.text(signal.HardwareID)
		idle, active := one(t, got, signal.GPUPowerIdle, signal.HardwareID, board), one(t, got, signal.GPUPowerActive, signal.HardwareID, board)
		assert.InDelta(t, measured.value, idle+active, 1e-9, board)
		sum := one(t, got, signal.GPUPowerUnattributed, signal.HardwareID, board)
		for _, p := range find(got, signal.K8sContainerGPUPower) {
			if p.text(signal.HardwareID) == board || p.text(signal.HardwareParent) == board {
				sum += p.value
			}
		}
		assert.InDelta(t, active, sum, 1e-9, board)
	}
}

// checkAccelerators checks that cAdvisor's accelerator metrics exist for every holder of a device,
// and returns the number of points of these metrics.
func checkAccelerators(t *testing.T, all []point) int {
	t.Helper()
	total := 0
	for made, of := range map[*signal.Metric]*signal.Metric{
		signal.ContainerAcceleratorMemoryTotal: signal.HwGPUMemoryLimit,
		signal.ContainerAcceleratorMemoryUsed:  signal.HwGPUMemoryUsage,
		signal.ContainerAcceleratorDutyCycle:   signal.HwGPUUtilization,
	} {
		var want, got []string
		for _, h := range find(all, signal.GPUDeviceHolder) {
			id := h.text(signal.HardwareID)
			for _, p := range find(all, of, signal.HardwareID, id, signal.K8sPodUID, h.text(signal.K8sPodUID), signal.K8sContainerName, h.text(signal.K8sContainerName)) {
				factor := 1.0
				if of == signal.HwGPUUtilization {
					if factor = 100; p.text(signal.GPUTask) != signal.TaskGeneral {
						continue
					}
				}
				acc := id
				if uuid := p.text(signal.MIGUUID); uuid != "" {
					acc = uuid
				}
				want = append(want, fmt.Sprint(h.text(signal.K8sPodName), " ", acc, " nvidia ", p.text(signal.HardwareModel), " ", factor*p.value))
			}
		}
		for _, p := range find(all, made) {
			got = append(got, fmt.Sprint(p.text(signal.K8sPodName), " ", p.text(signal.AcceleratorID), " ", p.text(signal.AcceleratorMake),
				" ", p.text(signal.AcceleratorModel), " ", p.value))
		}
		slices.Sort(want)
		slices.Sort(got)
		assert.Equal(t, want, got, made.Name)
		total += len(got)
	}
	return total
}

// checkWindows checks that gpu_window's output matches the samples, and returns that output.
func checkWindows(t *testing.T, c *chain) []point {
	t.Helper()
	c.stop(t) // without a storage extension, partial windows are sent at shutdown
	var all []point
	once := map[string]bool{}
	for _, md := range c.windows.AllMetrics() {
		for _, p := range pointsOf(t, md) {
			s := fmt.Sprint(p.time, " ", p.series())
			assert.False(t, once[s], "twice: %s", s)
			once[s] = true
			all = append(all, p)
		}
	}
	return all
}
