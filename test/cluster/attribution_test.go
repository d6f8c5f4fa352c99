package cluster

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/k8sattributesprocessor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubelettest"
)

const (
	gpu0 = "GPU-00000000-0000-0000-0000-000000000000"
	gpu1 = "GPU-00000000-0000-0000-0000-000000000001"
)

// agent contains the manifests that grant an agent its permissions. The manifests in claims grant
// an additional permission: to read ResourceClaims.
const (
	agent = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent, namespace: NAMESPACE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
- {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: NAMESPACE}]
`
	claims = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: claims}
rules:
- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: claims}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: claims}
subjects: [{kind: ServiceAccount, name: agent, namespace: NAMESPACE}]
`
)

// The manifests in jobs grant an agent permission to read Jobs.
const jobs = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: jobs}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: jobs}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: jobs}
subjects: [{kind: ServiceAccount, name: agent, namespace: NAMESPACE}]
`

func boundPod(namespace, name, claim string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"team": "vision"}},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	if claim != "" {
		p.Spec.NodeName = ""
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
		p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	}
	return p
}

type host struct {
	component.Host
	events chan *componentstatus.Event
}

func (h *host) Report(e *componentstatus.Event) { h.events <- e }

func newHost() *host {
	return &host{componenttest.NewNopHost(), make(chan *componentstatus.Event, 100)}
}

// startProcessor creates a processor from the given factory and starts the processor.
func startProcessor(t *testing.T, f processor.Factory, h component.Host, next consumer.Metrics, config map[string]any) processor.Metrics {
	t.Helper()
	cfg := f.CreateDefaultConfig()
	require.NoError(t, confmap.NewFromStringMap(config).Unmarshal(cfg))
	require.NoError(t, confmap.Validate(cfg))
	p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), cfg, next)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), h))
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) })
	return p
}

// gpuK8s starts gpu_k8s as an agent on the default test node.
func gpuK8s(t *testing.T, h component.Host, next consumer.Metrics, kubeConfig, socket string, claims bool) processor.Metrics {
	t.Helper()
	return gpuK8sOn(t, node, h, next, kubeConfig, socket, claims)
}

// gpuK8sOn starts gpu_k8s as an agent on the node with the given name.
func gpuK8sOn(t *testing.T, name string, h component.Host, next consumer.Metrics, kubeConfig, socket string, claims bool) processor.Metrics {
	t.Helper()
	return startProcessor(t, gpuk8sprocessor.NewFactory(), h, next, map[string]any{
		"node_name":  name,
		"sources":    map[string]any{"pod_resources": map[string]any{"socket": socket, "interval": "1s"}},
		"kubernetes": map[string]any{"auth_type": "kubeConfig", "kubeconfig": kubeConfig},
		"claims":     claims,
		"usage":      map[string]any{"max_gap": "10m"},
	})
}

// scrape sends one sample for each board and returns the resulting power samples of containers,
// keyed by board.
func scrape(t *testing.T, p processor.Metrics, sink *consumertest.MetricsSink) map[string]map[string]any {
	t.Helper()
	md := pmetric.NewMetrics()
	rm := md.ResourceMetrics().AppendEmpty()
	rm.Resource().Attributes().PutStr(signal.K8sNodeName, node)
	m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
	m.SetName(signal.HwPower.Name)
	m.SetEmptyGauge()
	for _, id := range []string{gpu0, gpu1} {
		dp := m.Gauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(pcommon.NewTimestampFromTime(time.Now()))
		dp.SetDoubleValue(100)
		dp.Attributes().PutStr(signal.HardwareID, id)
	}
	sink.Reset()
	require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	out := map[string]map[string]any{}
	for _, md := range sink.AllMetrics() {
		for _, rm := range md.ResourceMetrics().All() {
			if _, held := rm.Resource().Attributes().Get(signal.K8sPodName); !held {
				continue
			}
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					if m.Name() != signal.GPUDeviceHolder.Name {
						continue
					}
					for _, dp := range m.Gauge().DataPoints().All() {
						all := rm.Resource().Attributes().AsRaw()
						maps.Copy(all, dp.Attributes().AsRaw())
						out[all[signal.HardwareID].(string)] = all
					}
				}
			}
		}
	}
	return out
}

func subset(t *testing.T, all, want map[string]any) {
	t.Helper()
	got := map[string]any{}
	for k := range want {
		got[k] = all[k]
	}
	assert.Equal(t, want, got)
}

func withNamespace(manifest, namespace string) string {
	return strings.ReplaceAll(manifest, "NAMESPACE", namespace)
}

// One device is allocated by a device plugin, and another is allocated through a claim. An agent
// without permission to read claims reports all data except the data that is available only from
// claims.
func TestTheKubeletAndTheAPIServerTogetherDetermineTheHolders(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: node, Labels: map[string]string{"nvidia.com/gpu.sharing-strategy": "time-slicing"},
	}})
	plane.Create(t, controlplane.NVIDIASlice(node, gpu0, gpu1))
	plugin, claimed := boundPod(namespace, "plugin", ""), boundPod(namespace, "claimed", "")
	plane.Create(t, plugin)
	plane.Create(t, claimed)
	plane.Apply(t, withNamespace(agent, namespace))

	kubelet := kubelettest.Start(t)
	kubelet.Set(
		kube.ContainerResources{Namespace: namespace, Pod: "plugin", Container: "main", Devices: []kube.DeviceRef{
			{Resource: "nvidia.com/gpu.shared", ID: gpu0 + "::0"},
		}},
		kube.ContainerResources{Namespace: namespace, Pod: "claimed", Container: "main", Claims: []kube.ClaimDevice{
			{Namespace: namespace, Claim: "one-gpu", Driver: controlplane.NVIDIADriver, Pool: node, Device: "gpu-1"},
		}},
	)
	sink := &consumertest.MetricsSink{}
	h := newHost()
	p := gpuK8s(t, h, sink, plane.ServiceAccountKubeConfig(t, namespace, "agent"), kubelet.Socket(), true)

	held := scrape(t, p, sink)
	subset(t, held[gpu0], map[string]any{
		signal.K8sNodeName: node, signal.K8sNamespaceName: namespace, signal.K8sPodName: "plugin", signal.K8sContainerName: "main",
		signal.K8sPodUID: string(plugin.UID), signal.HolderSource: signal.HolderSourcePodResources, signal.SharingStrategy: signal.SharingTimeSlicing,
		signal.DRADevice: "gpu-0", signal.ResourceClaimName: nil,
	})
	want := map[string]any{
		signal.K8sPodName: "claimed", signal.K8sPodUID: string(claimed.UID), signal.HolderSource: signal.HolderSourcePodResources,
		signal.SharingStrategy: signal.SharingNone, signal.ResourceClaimName: "one-gpu", signal.ResourceClaimUID: nil,
		signal.DRADriver: controlplane.NVIDIADriver, signal.DRAPool: node, signal.DRADevice: "gpu-1",
	}
	subset(t, held[gpu1], want)
	e := <-h.events
	assert.Equal(t, componentstatus.StatusRecoverableError, e.Status())
	assert.ErrorContains(t, e.Err(), "resourceclaims is forbidden")

	// The pod's name is immediately reused for another pod. The old pod's UID must not be reported
	// for the new pod.
	require.NoError(t, plane.Admin().CoreV1().Pods(namespace).Delete(t.Context(), "plugin", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	again := boundPod(namespace, "plugin", "")
	plane.Create(t, again)
	require.Eventually(t, func() bool {
		uid := scrape(t, p, sink)[gpu0][signal.K8sPodUID]
		return uid == string(again.UID)
	}, patience, poll)
}

// If the kubelet does not respond, holders are determined from the scheduler's allocations in the
// API server.
func TestClaimsAloneDetermineTheHolders(t *testing.T) {
	plane := controlplane.Start(t)
	plane.StartScheduler(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	plane.Create(t, controlplane.NVIDIAClass())
	plane.Create(t, controlplane.NVIDIASlice(node, gpu0))
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "one-gpu"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: controlplane.NVIDIADriver},
		}}}},
	}
	plane.Create(t, claim)
	plane.Apply(t, withNamespace(agent+claims, namespace))
	sink := &consumertest.MetricsSink{}
	h := newHost()
	p := gpuK8s(t, h, sink, plane.ServiceAccountKubeConfig(t, namespace, "agent"), "/nowhere/kubelet.sock", true)
	assert.Empty(t, scrape(t, p, sink))

	worker := boundPod(namespace, "worker", "one-gpu")
	plane.Create(t, worker)
	var held map[string]any
	require.Eventually(t, func() bool {
		held = scrape(t, p, sink)[gpu0]
		return held[signal.K8sContainerName] != nil
	}, patience, poll)
	subset(t, held, map[string]any{
		signal.K8sNamespaceName: namespace, signal.K8sPodName: "worker", signal.K8sPodUID: string(worker.UID), signal.K8sContainerName: "main",
		signal.HolderSource: signal.HolderSourceDRA, signal.SharingStrategy: signal.SharingNone,
		signal.ResourceClaimName: "one-gpu", signal.ResourceClaimUID: string(claim.UID), signal.DeviceClassName: controlplane.NVIDIADriver,
		signal.DRADriver: controlplane.NVIDIADriver, signal.DRAPool: node, signal.DRADevice: "gpu-0", signal.DRARequest: "gpu",
	})
	assert.Empty(t, h.events, "all permissions are granted, and a socket that never existed is not an error")
}

// While the API server is unavailable, gpu_k8s continues to use the last known state and reports
// that the state is stale. Changes that are made during the outage are reported soon after the API
// server becomes available again.
func TestTheLastStateIsUsedDuringAnAPIServerOutage(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	worker := boundPod(namespace, "worker", "")
	plane.Create(t, worker)
	plane.Apply(t, withNamespace(agent, namespace))
	kubelet := kubelettest.Start(t)
	allocation := func(pod string) kube.ContainerResources {
		return kube.ContainerResources{Namespace: namespace, Pod: pod, Container: "main", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: gpu0}}}
	}
	kubelet.Set(allocation("worker"))
	sink := &consumertest.MetricsSink{}
	h := newHost()
	way := wayTo(t, plane.ServiceAccountKubeConfig(t, namespace, "agent"))
	p := gpuK8s(t, h, sink, way.kubeconfig, kubelet.Socket(), false)
	require.Equal(t, string(worker.UID), scrape(t, p, sink)[gpu0][signal.K8sPodUID])

	way.block()
	for e := range h.events {
		if e.Status() == componentstatus.StatusRecoverableError {
			assert.ErrorContains(t, e.Err(), "stale")
			break
		}
	}
	assert.Equal(t, string(worker.UID), scrape(t, p, sink)[gpu0][signal.K8sPodUID])
	kubelet.Set(allocation("unheard-of"))
	require.Eventually(t, func() bool { return scrape(t, p, sink)[gpu0][signal.K8sPodName] == "unheard-of" }, patience, poll)
	assert.Nil(t, scrape(t, p, sink)[gpu0][signal.K8sPodUID], "no UID is better than a wrong one")

	way.open(t)
	late := boundPod(namespace, "unheard-of", "")
	plane.Create(t, late)
	require.Eventually(t, func() bool { return scrape(t, p, sink)[gpu0][signal.K8sPodUID] == string(late.UID) }, patience, poll)
}

// To look up a pod that gpu_k8s reports, the upstream processor uses the pod's UID or, if the UID
// is unknown, the pod's namespace and name. The upstream processor does not change the device
// series.
func TestTheUpstreamProcessorAddsOwnersAndLabelsAfterOurs(t *testing.T) {
	plane := controlplane.Start(t)
	namespace := plane.Namespace(t)
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	owned := boundPod(namespace, "owned", "")
	yes := true
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "train", UID: "uid-of-set", Controller: &yes}}
	plane.Create(t, owned)
	nameOnly := boundPod(namespace, "name-only", "")
	plane.Create(t, nameOnly)
	kubelet := kubelettest.Start(t)
	kubelet.Set(
		kube.ContainerResources{Namespace: namespace, Pod: "owned", Container: "main", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: gpu0}}},
		kube.ContainerResources{Namespace: namespace, Pod: "name-only", Container: "main", Devices: []kube.DeviceRef{{Resource: "nvidia.com/gpu", ID: gpu1}}},
	)
	kubeConfig := plane.KubeConfig(t)
	t.Setenv("KUBECONFIG", kubeConfig)
	sink := &consumertest.MetricsSink{}
	upstream := startProcessor(t, k8sattributesprocessor.NewFactory(), componenttest.NewNopHost(), sink, map[string]any{
		"auth_type":         "kubeConfig",
		"filter":            map[string]any{"node": node},
		"wait_for_metadata": true,
		"extract": map[string]any{
			"metadata": []any{"k8s.statefulset.name", "k8s.pod.uid"},
			"labels":   []any{map[string]any{"tag_name": "team", "key": "team", "from": "pod"}},
		},
		"pod_association": []any{
			map[string]any{"sources": []any{map[string]any{"from": "resource_attribute", "name": "k8s.pod.uid"}}},
			map[string]any{"sources": []any{
				map[string]any{"from": "resource_attribute", "name": "k8s.namespace.name"},
				map[string]any{"from": "resource_attribute", "name": "k8s.pod.name"},
			}},
		},
	})
	// The second gpu_k8s processor cannot read from the API server, so it cannot report UIDs.
	withUIDs := gpuK8s(t, componenttest.NewNopHost(), upstream, kubeConfig, kubelet.Socket(), false)
	held := scrape(t, withUIDs, sink)
	subset(t, held[gpu0], map[string]any{signal.K8sPodUID: string(owned.UID), "k8s.statefulset.name": "train", "team": "vision"})
	for _, rm := range sink.AllMetrics()[0].ResourceMetrics().All() {
		if _, held := rm.Resource().Attributes().Get(signal.K8sPodName); !held {
			assert.Equal(t, map[string]any{signal.K8sNodeName: node}, rm.Resource().Attributes().AsRaw(), "device series have no holder")
		}
	}

	withoutUIDs := startProcessor(t, gpuk8sprocessor.NewFactory(), componenttest.NewNopHost(), upstream, map[string]any{
		"node_name":  node,
		"sources":    map[string]any{"pod_resources": map[string]any{"socket": kubelet.Socket()}},
		"kubernetes": map[string]any{"auth_type": "none"},
	})
	held = scrape(t, withoutUIDs, sink)
	subset(t, held[gpu1], map[string]any{signal.K8sPodUID: string(nameOnly.UID), signal.K8sPodName: "name-only", "team": "vision"})
}
