//go:build linux && !otelcol_gpu_no_nvml

package cluster

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/dcgmsim"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

const (
	unknownUID = "99999999-0000-4000-8000-000000000000"
	staticUID  = "0123456789abcdef0123456789abcdef" // the hash that the kubelet computes for the static pod's file
)

// world consists of a node with its pods, the node's kubelet, and an API server.
type world struct {
	plane     *controlplane.Plane
	namespace string
	kubelet   *kubelettest.Kubelet
	// uids maps the name of each pod to the pod's UID.
	uids map[string]string
	// ids maps each "pod/container" to the container's ID.
	ids map[string]string
}

func newWorld(t *testing.T, pods ...*corev1.Pod) *world {
	t.Helper()
	w := &world{plane: controlplane.Start(t), kubelet: kubelettest.Start(t), uids: map[string]string{}, ids: map[string]string{}}
	w.namespace = w.plane.Namespace(t)
	w.plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node, Labels: map[string]string{"nvidia.com/gpu.sharing-strategy": "time-slicing"},
	}})
	for _, p := range pods {
		p.Namespace = w.namespace
		w.plane.Create(t, p)
		w.uids[p.Name] = string(p.UID)
		p.Status.Phase = corev1.PodRunning
		for i := range p.Spec.Containers {
			name := p.Spec.Containers[i].Name
			id := fmt.Sprintf("%064x", len(w.ids)+1)
			w.ids[p.Name+"/"+name] = id
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + id})
		}
		_, err := w.plane.Admin().CoreV1().Pods(w.namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	return w
}

func agentPod(name string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: new(int64)},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c, Image: "none"})
	}
	return p
}

// mirror returns the mirror pod that represents a static pod in the API server.
func mirror(name string, containers ...string) *corev1.Pod {
	p := agentPod(name, containers...)
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: staticUID}
	return p
}

// The allocation method returns the kubelet's entry for a pod's container "main", which has one
// device.
func (w *world) allocation(pod, resource, id string) kube.ContainerResources {
	return kube.ContainerResources{Namespace: w.namespace, Pod: pod, Container: "main", Devices: []kube.DeviceRef{{Resource: resource, ID: id}}}
}

// The runs method adds a process to a container. The container parameter has the form
// "pod/container".
func (w *world) runs(t *testing.T, m *machine, pid int, container string) {
	t.Helper()
	name, _, _ := strings.Cut(container, "/")
	uid := w.uids[name]
	if strings.HasPrefix(name, "static") {
		uid = staticUID
	}
	m.container(t, pid, uid, w.ids[container])
}

// attributed returns the points of the first batch that attributes power to the given process.
func (c *chain) attributed(t *testing.T, pid string) []point {
	t.Helper()
	return pointsOf(t, c.until(t, "power of a process", func(md pmetric.Metrics) bool {
		return len(find(pointsOf(t, md), signal.ProcessGPUPower, signal.ProcessPID, pid)) > 0
	}))
}

// holdersOf returns "pod/container source" for each holder of a device.
func holdersOf(points []point, id string) []string {
	var holders []string
	for _, h := range find(points, signal.GPUDeviceHolder, signal.HardwareID, id) {
		holders = append(holders, h.text(signal.K8sPodName)+"/"+h.text(signal.K8sContainerName)+" "+h.text(signal.HolderSource))
	}
	slices.Sort(holders)
	return holders
}

// charged returns the power that is attributed to a pod's container on a device, in watts.
func charged(t *testing.T, points []point, id, pod string) float64 {
	t.Helper()
	return one(t, points, signal.K8sContainerGPUPower, signal.HardwareID, id, signal.K8sPodName, pod)
}

// On a node without dcgm-exporter, all data comes from NVML.
func TestNVMLAlone(t *testing.T) {
	w := newWorld(t, agentPod("shared-a", "main", "side"), agentPod("shared-b", "main"), agentPod("privileged", "main", "side"), mirror("static", "main"))
	const (
		shared  = "GPU-00000000-0000-0000-0000-000000000001"
		nobodys = "GPU-00000000-0000-0000-0000-000000000002"
		cut     = "GPU-00000000-0000-0000-0000-000000000003"
		free    = "GPU-00000000-0000-0000-0000-000000000004"
		board   = "gpu uuid=%s name=NVIDIA_H100_80GB_HBM3 minor=%d total=85899345920 free=60000000000 used=25000000000 util=%d power=%d energy=5000000000 migmode=%d\n"
	)
	m := newMachine(t, fmt.Sprintf(board, shared, 0, 80, 340_000, 0)+
		"proc pid=100 mem=1000 sm=45\nproc pid=101 mem=1000 sm=15\nproc pid=102 mem=1000 sm=20\nproc pid=103 mem=1000 sm=20\n"+
		fmt.Sprintf(board, nobodys, 1, 50, 140_000, 0)+"proc pid=200 mem=1000 sm=30\nproc pid=201 mem=1000 sm=10\n"+
		fmt.Sprintf(board, cut, 2, 0, 240_000, 1)+
		"mig uuid=MIG-7 name=NVIDIA_H100_80GB_HBM3_MIG_1g.10gb gi=7 total=10000000000 free=5000000000 used=5000000000\n"+
		"mig uuid=MIG-8 name=NVIDIA_H100_80GB_HBM3_MIG_3g.40gb gi=8 total=40000000000 free=5000000000 used=35000000000\n"+
		"proc pid=300 mem=1000 gi=7\nproc pid=301 mem=1000 gi=8\n"+
		fmt.Sprintf(board, free, 3, 0, 50_000, 0)+"proc pid=400 mem=1000\n")
	w.runs(t, m, 100, "shared-a/main")
	w.runs(t, m, 101, "shared-a/main")
	w.runs(t, m, 102, "shared-b/main")
	m.ofHost(t, 103)
	w.runs(t, m, 200, "privileged/side")
	w.runs(t, m, 201, "static/main")
	w.runs(t, m, 300, "privileged/main")
	w.runs(t, m, 301, "privileged/main")
	m.container(t, 400, unknownUID, strings.Repeat("f", 64))
	w.kubelet.Set(w.allocation("shared-a", "nvidia.com/gpu.shared", shared+"::0"), w.allocation("shared-b", "nvidia.com/gpu.shared", shared+"::1"))

	c := startChain(t, w.plane.KubeConfig(t), w.kubelet.Socket())
	c.nvml(t, m, false)
	points := c.attributed(t, "100")

	assert.Equal(t, []string{"shared-a/main pod_resources", "shared-b/main pod_resources"}, holdersOf(points, shared))
	assert.Equal(t, []string{"privileged/side processes", "static/main processes"}, holdersOf(points, nobodys))
	assert.Equal(t, []string{"privileged/main processes"}, holdersOf(points, cut+"/gi7"))
	assert.Equal(t, []string{"privileged/main processes"}, holdersOf(points, cut+"/gi8"))
	assert.Empty(t, holdersOf(points, cut), "its instances are held")
	assert.Empty(t, holdersOf(points, free), "its holder is an unknown pod")

	// The values are in watts. 300 W is divided in the ratio 45+15 : 20 : 20, and 100 W is divided
	// in the ratio 30 : 10. 200 W is divided in the ratio 1 : 3, because the instances have 1 slice
	// and 3 slices.
	for _, want := range []struct {
		id, pod string
		watts   float64
	}{
		{shared, "shared-a", 180},
		{shared, "shared-b", 60},
		{nobodys, "privileged", 75},
		{nobodys, "static", 25},
		{cut + "/gi7", "privileged", 50},
		{cut + "/gi8", "privileged", 150},
	} {
		assert.InDelta(t, want.watts, charged(t, points, want.id, want.pod), 1e-9, want)
	}
	assert.InDelta(t, 60, one(t, points, signal.GPUPowerUnattributed, signal.HardwareID, shared), 1e-9, "the host's process")
	assert.InDelta(t, 10, one(t, points, signal.GPUPowerUnattributed, signal.HardwareID, free), 1e-9, "the unknown pod's process")

	assert.InDelta(t, 135, one(t, points, signal.ProcessGPUPower, signal.ProcessPID, "100", signal.K8sNamespaceName, w.namespace,
		signal.K8sPodName, "shared-a", signal.K8sPodUID, w.uids["shared-a"], signal.K8sContainerName, "main"), 1e-9)
	one(t, points, signal.ProcessGPUMemoryUsage, signal.ProcessPID, "201", signal.K8sPodName, "static", signal.K8sPodUID, w.uids["static"],
		signal.K8sContainerName, "main")
	one(t, points, signal.ProcessGPUMemoryUsage, signal.ProcessPID, "400", signal.K8sPodName, "", signal.K8sPodUID, unknownUID)

	assert.Equal(t, 4*3+2*2, checkAccelerators(t, points), "two containers on each of two boards, one on two instances, which have no utilization")
	for id, count := range map[string]float64{shared: 4, nobodys: 2, cut: 2, cut + "/gi7": 1, cut + "/gi8": 1, free: 1} {
		assert.Equal(t, count, one(t, points, signal.GPUProcessCount, signal.HardwareID, id), "of the device alone: %s", id)
	}
	checkSamples(t, c.seen())

	windows := checkWindows(t, c)
	assert.NotEmpty(t, find(windows, signal.GPUProcessCount, signal.HardwareID, shared))
	for _, m := range []*signal.Metric{signal.UtilizationAvg, signal.MemoryUtilizationAvg, signal.ContainerAcceleratorDutyCycle, signal.K8sContainerGPUPower} {
		assert.NotEmpty(t, find(windows, m, signal.K8sPodName, "static", signal.HardwareID, nobodys), m.Name)
	}
}

// On a node with dcgm-exporter, the nvml receiver reports only processes. The receiver's readings
// of the processes do not coincide with scrapes of the exporter.
func TestNVMLNextToAnExporter(t *testing.T) {
	// The default node has eight boards, including one shared board and one partitioned board.
	simulated := dcgmsim.NewDefaultConfig()
	// With this setting, the exporter does not report any processes.
	simulated.SharedRows = dcgmsim.SharedRowsCopies
	simulation, err := dcgmsim.New(simulated)
	require.NoError(t, err)
	server := dcgmsim.NewServer(simulation, dcgmsim.ServerSettings{})
	exporter := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		exporter.Close()
	})
	// boards maps each scenario to the UUID of the board that simulates the scenario.
	boards := map[string]string{}
	// instances contains the GPU_I_ID of each MIG instance.
	var instances []string
	for _, d := range simulation.Devices(0) {
		boards[d.Scenario] = d.UUID
		if d.Scenario == dcgmsim.ScenarioMIG {
			instances = append(instances, fmt.Sprint(d.GPUInstance))
		}
	}
	given, shared, cut, nobodys, free := boards[dcgmsim.ScenarioHealthy], boards[dcgmsim.ScenarioTimeSliced], boards[dcgmsim.ScenarioMIG],
		boards[dcgmsim.ScenarioPowerCapped], boards[dcgmsim.ScenarioIdle]

	w := newWorld(t, agentPod("trainer", "main"), agentPod("shared-a", "main"), agentPod("shared-b", "main"), agentPod("small", "main"), agentPod("privileged", "main", "side"))
	withoutProcesses := fmt.Sprintf("gpu uuid=%s migmode=0\ngpu uuid=%s migmode=0\ngpu uuid=%s migmode=1\nmig uuid=MIG-a gi=%s\nmig uuid=MIG-b gi=%s\ngpu uuid=%s migmode=0\n",
		given, shared, cut, instances[0], instances[1], nobodys)
	m := newMachine(t, fmt.Sprintf("gpu uuid=%s migmode=0\nproc pid=100 mem=1000 sm=80\n", given)+
		fmt.Sprintf("gpu uuid=%s migmode=0\nproc pid=200 mem=1000 sm=60\nproc pid=201 mem=1000 sm=20\nproc pid=202 mem=1000 sm=20\n", shared)+
		fmt.Sprintf("gpu uuid=%s migmode=1\nmig uuid=MIG-a gi=%s\nmig uuid=MIG-b gi=%s\nproc pid=300 mem=1000 gi=%s\nproc pid=301 mem=1000 gi=%s\n",
			cut, instances[0], instances[1], instances[0], instances[1])+
		fmt.Sprintf("gpu uuid=%s migmode=0\nproc pid=400 mem=1000 sm=90\n", nobodys))
	w.runs(t, m, 100, "trainer/main")
	w.runs(t, m, 200, "shared-a/main")
	w.runs(t, m, 201, "shared-b/main")
	m.ofHost(t, 202)
	w.runs(t, m, 300, "small/main")
	w.runs(t, m, 301, "privileged/main")
	w.runs(t, m, 400, "privileged/side")
	w.kubelet.Set(
		w.allocation("trainer", "nvidia.com/gpu", given),
		w.allocation("shared-a", "nvidia.com/gpu.shared", shared+"::0"), w.allocation("shared-b", "nvidia.com/gpu.shared", shared+"::1"),
		w.allocation("small", "nvidia.com/mig-1g.10gb", "MIG-"+cut+"/"+instances[0]+"/0"),
	)
	c := startChain(t, w.plane.KubeConfig(t), w.kubelet.Socket())
	c.nvml(t, m, true)
	c.until(t, "processes", func(md pmetric.Metrics) bool {
		return len(find(pointsOf(t, md), signal.ProcessGPUMemoryUsage, signal.K8sPodName, "privileged")) > 0
	})
	c.receive(t, dcgmreceiver.NewFactory(), map[string]any{
		"endpoints": []any{exporter.URL}, "collection_interval": "200ms", "timeout": "200ms", "start_jitter": "0s",
	})
	points := c.attributed(t, "400")

	assert.Equal(t, []string{"trainer/main pod_resources"}, holdersOf(points, given))
	assert.Equal(t, []string{"shared-a/main pod_resources", "shared-b/main pod_resources"}, holdersOf(points, shared))
	assert.Equal(t, []string{"small/main pod_resources"}, holdersOf(points, cut+"/gi"+instances[0]))
	assert.Equal(t, []string{"privileged/main processes"}, holdersOf(points, cut+"/gi"+instances[1]))
	assert.Equal(t, []string{"privileged/side processes"}, holdersOf(points, nobodys), "whatever the exporter's labels say")
	assert.Empty(t, holdersOf(points, free))

	active := func(id string) float64 { return one(t, points, signal.GPUPowerActive, signal.HardwareID, id) }
	require.Positive(t, active(given))
	require.Positive(t, active(shared))
	require.Positive(t, active(nobodys))
	assert.InDelta(t, active(given), charged(t, points, given, "trainer"), 1e-9)
	assert.InDelta(t, 0.6*active(shared), charged(t, points, shared, "shared-a"), 1e-9)
	assert.InDelta(t, 0.2*active(shared), charged(t, points, shared, "shared-b"), 1e-9)
	assert.InDelta(t, active(nobodys), charged(t, points, nobodys, "privileged"), 1e-9)
	instance := one(t, points, signal.GPUInstancePower, signal.HardwareID, cut+"/gi"+instances[1])
	assert.Positive(t, instance)
	assert.InDelta(t, instance, charged(t, points, cut+"/gi"+instances[1], "privileged"), 1e-9)
	assert.InDelta(t, active(nobodys), one(t, points, signal.ProcessGPUPower, signal.ProcessPID, "400", signal.K8sPodName, "privileged",
		signal.K8sPodUID, w.uids["privileged"], signal.K8sContainerName, "side"), 1e-9)

	assert.Equal(t, 6*3, checkAccelerators(t, points), "of six holders")
	require.Eventually(t, func() bool { return len(c.seen()) >= 12 }, patience, poll, "two lists and ten scrapes")
	seen := c.seen()
	last := find(points, signal.GPUPowerActive, signal.HardwareID, given)[0].time
	checkSamples(t, seen)
	for _, md := range seen {
		for _, p := range pointsOf(t, md) {
			if strings.Contains(p.scope, "nvmlreceiver") {
				assert.Contains(t, []string{signal.GPUProcessCount.Name, signal.ProcessGPUMemoryUsage.Name, signal.ProcessGPUUtilization.Name}, p.metric)
			}
		}
	}

	m.Script(t, withoutProcesses)
	c.until(t, "the last process of the board left: its power ends long before its list is too old", func(md pmetric.Metrics) bool {
		points := pointsOf(t, md)
		active := find(points, signal.GPUPowerActive, signal.HardwareID, given)
		return len(active) > 0 && active[0].time > last && len(find(points, signal.ProcessGPUPower, signal.ProcessPID, "100")) == 0
	})

	windows := checkWindows(t, c)
	for _, m := range []*signal.Metric{signal.UtilizationAvg, signal.MemoryUtilizationAvg, signal.ContainerAcceleratorMemoryUsed, signal.K8sContainerGPUPower} {
		assert.NotEmpty(t, find(windows, m, signal.K8sPodName, "privileged", signal.HardwareID, nobodys), m.Name)
	}
}

// The chart configures nvml as a section of the dcgm receiver, which runs all stages. The power,
// budget, and usage sections must all read NVML's process lists there, even though the lists and
// the exporter's samples arrive at different times.
func TestAllSectionsReadNVMLsProcessesInTheDcgmReceiver(t *testing.T) {
	simulated := dcgmsim.NewDefaultConfig()
	// With this setting, the exporter does not report any processes.
	simulated.SharedRows = dcgmsim.SharedRowsCopies
	simulation, err := dcgmsim.New(simulated)
	require.NoError(t, err)
	server := dcgmsim.NewServer(simulation, dcgmsim.ServerSettings{})
	exporter := httptest.NewServer(server)
	t.Cleanup(func() {
		server.Close()
		exporter.Close()
	})
	shared := ""
	for _, d := range simulation.Devices(0) {
		if d.Scenario == dcgmsim.ScenarioTimeSliced {
			shared = d.UUID
		}
	}
	const key = "example.com/gpu-memory"
	budgeted := agentPod("shared-a", "main")
	budgeted.Annotations = map[string]string{key: "4Gi"}
	w := newWorld(t, budgeted, agentPod("shared-b", "main"))
	m := newMachine(t, fmt.Sprintf("gpu uuid=%s migmode=0\nproc pid=200 mem=3000000000 sm=30\nproc pid=201 mem=1000000000 sm=10\n", shared))
	w.runs(t, m, 200, "shared-a/main")
	w.runs(t, m, 201, "shared-b/main")
	w.kubelet.Set(
		w.allocation("shared-a", "nvidia.com/gpu.shared", shared+"::0"), w.allocation("shared-b", "nvidia.com/gpu.shared", shared+"::1"),
	)

	sink := &consumertest.MetricsSink{}
	c := &chain{first: sink}
	t.Cleanup(func() { c.stop(t) })
	c.receive(t, dcgmreceiver.NewFactory(), map[string]any{
		"endpoints": []any{exporter.URL}, "collection_interval": "200ms", "timeout": "200ms", "start_jitter": "0s",
		"nvml": map[string]any{
			"collection_interval": "1s", "library_path": m.Path, "node_name": node,
			"proc_root": filepath.Join(m.Dir, "proc"), "sys_root": filepath.Join(m.Dir, "sys"),
		},
		"stages": map[string]any{
			"gpu_synthesizer": map[string]any{"node_name": node},
			"gpu_k8s": map[string]any{
				"power":      map[string]any{"idle": map[string]any{"watts": idleWatts}},
				"budget":     map[string]any{"sources": map[string]any{"annotation": map[string]any{"key": key}}},
				"usage":      map[string]any{},
				"node_name":  node,
				"sources":    map[string]any{"pod_resources": map[string]any{"socket": w.kubelet.Socket(), "interval": "1s"}},
				"kubernetes": map[string]any{"auth_type": "kubeConfig", "kubeconfig": w.plane.KubeConfig(t)},
			},
			"gpu_window": map[string]any{"window": "1s", "passthrough": "all"},
		},
	})
	// first returns the first batch in which the metric of the pod shared-b has a positive value.
	first := func(m *signal.Metric) (points []point) {
		require.Eventually(t, func() bool {
			return slices.ContainsFunc(sink.AllMetrics(), func(md pmetric.Metrics) bool {
				points = pointsOf(t, md)
				found := find(points, m, signal.K8sPodName, "shared-b", signal.HardwareID, shared)
				return len(found) == 1 && found[0].value > 0
			})
		}, patience, poll, m.Name)
		return points
	}
	atList, atScrape := first(signal.K8sContainerGPUMemoryUsage), first(signal.K8sContainerGPUActiveTime)
	value := func(points []point, m *signal.Metric, pod string) float64 {
		return one(t, points, m, signal.HardwareID, shared, signal.K8sPodName, pod, signal.K8sContainerName, "main")
	}
	assert.InDelta(t, 3e9, value(atList, signal.K8sContainerGPUMemoryUsage, "shared-a"), 0)
	assert.InDelta(t, 1e9, value(atList, signal.K8sContainerGPUMemoryUsage, "shared-b"), 0)
	assert.InDelta(t, 3e9/float64(4<<30), value(atList, signal.K8sContainerGPUMemoryBudgetUtilization, "shared-a"), 1e-9)
	power := one(t, atScrape, signal.GPUPowerActive, signal.HardwareID, shared)
	require.Positive(t, power)
	assert.InDelta(t, 0.75*power, value(atScrape, signal.K8sContainerGPUPower, "shared-a"), 1e-9, "its process uses 30 of 40 percentage points")
	assert.InDelta(t, 0.25*power, value(atScrape, signal.K8sContainerGPUPower, "shared-b"), 1e-9)
	for pod, utilization := range map[string]float64{"shared-a": 0.30, "shared-b": 0.10} {
		held := value(atScrape, signal.K8sContainerGPUAllocatedTime, pod)
		assert.InDelta(t, utilization, 0.5*value(atScrape, signal.K8sContainerGPUActiveTime, pod)/held, 1e-9, "%s holds half of the device", pod)
	}
}
