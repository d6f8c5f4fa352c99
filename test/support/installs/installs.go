// Package installs lists common ways to install GPU exporters in clusters and on machines, with the
// labels, ports, and taints from the exporters' own manifests.
package installs

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
)

// Install is one way to install an exporter.
type Install struct {
	Name string
	// Pod is the exporter's pod, or nil if the exporter runs outside Kubernetes.
	Pod *Pod
	// URL is the URL to scrape. %s is replaced by the pod's IP address.
	URL string
	// NodeLabels and Taint are the labels and the taint of GPU nodes.
	NodeLabels map[string]string
	Taint      *corev1.Taint
	// Monitors contains the containers that can access devices but do not hold them.
	Monitors []catalogue.Holder
	// Settings contains the settings that are required to find the exporter, or "" if the defaults
	// are sufficient.
	Settings string
	// Source is the source of the facts about this install. Unread contains the facts that could
	// not be verified.
	Source, Unread string
}

// Pod describes an exporter's pod.
type Pod struct {
	Namespace, Name string
	Labels          map[string]string
	Container       string
	// PortName and Port are the name and number of the container's port. Port is 0 if the container
	// declares no port.
	PortName string
	Port     int32
	// HostNetwork is true if the pod uses the host's network.
	HostNetwork bool
}

// Object returns the pod object. The pod is running on the given node and has the given IP address.
func (p *Pod) Object(node, ip string) *corev1.Pod {
	c := corev1.Container{Name: p.Container}
	if p.Port != 0 {
		c.Ports = []corev1.ContainerPort{{Name: p.PortName, ContainerPort: p.Port}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels},
		Spec:       corev1.PodSpec{NodeName: node, HostNetwork: p.HostNetwork, Containers: []corev1.Container{c}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip},
	}
}

func taint(key, value string) *corev1.Taint {
	return &corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func label(key, value string) map[string]string { return map[string]string{key: value} }

func monitor(pod, container string) catalogue.Holder {
	return catalogue.Holder{Namespace: "monitoring", Pod: pod, Container: container}
}

const (
	operator    = "NVIDIA/gpu-operator @a22dbf6 (2026-08-21)"
	present     = "nvidia.com/gpu.present"
	accelerator = "cloud.google.com/gke-accelerator"
	dcgmURL     = "http://%s:9400/metrics"
)

// All contains all known ways to install an exporter.
var All = []Install{
	{
		Name: "NVIDIA GPU operator, ClusterPolicy, embedded DCGM",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-7x2kq", Labels: label("app", "nvidia-dcgm-exporter"),
			Container: "nvidia-dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(present, "true"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-7x2kq", "nvidia-dcgm-exporter")},
		Source:   operator + ", assets/state-dcgm-exporter",
	},
	{
		Name: "NVIDIA GPU operator, ClusterPolicy, standalone DCGM",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-7x2kq", Labels: label("app", "nvidia-dcgm-exporter"),
			Container: "nvidia-dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(present, "true"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-7x2kq", "nvidia-dcgm-exporter"), monitor("nvidia-dcgm-bqk5v", "nvidia-dcgm-ctr")},
		Source:   operator + ", assets/state-dcgm and state-dcgm-exporter",
	},
	{
		Name: "NVIDIA GPU operator, GPUCluster (DRA), embedded DCGM",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-dra-7x2kq", Labels: label("app", "nvidia-dcgm-exporter-dra"),
			Container: "nvidia-dcgm-exporter-dra", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(present, "true"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-dra-7x2kq", "nvidia-dcgm-exporter-dra")},
		Source:   operator + ", golden file gpucluster-dcgm-exporter-embedded.yaml",
	},
	{
		Name: "NVIDIA GPU operator, GPUCluster (DRA), standalone DCGM",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-dra-7x2kq", Labels: label("app", "nvidia-dcgm-exporter-dra"),
			Container: "nvidia-dcgm-exporter-dra", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(present, "true"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-dra-7x2kq", "nvidia-dcgm-exporter-dra"), monitor("nvidia-dcgm-dra-bqk5v", "nvidia-dcgm-ctr")},
		Source:   operator + ", golden files gpucluster-dcgm.yaml and gpucluster-dcgm-exporter-remote-engine.yaml",
	},
	{
		Name: "OpenShift, NVIDIA GPU operator",
		Pod: &Pod{
			Namespace: "nvidia-gpu-operator", Name: "nvidia-dcgm-exporter-7x2kq", Labels: label("app", "nvidia-dcgm-exporter"),
			Container: "nvidia-dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(present, "true"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-7x2kq", "nvidia-dcgm-exporter")},
		Source:   operator + ", assets/state-dcgm-exporter with its SecurityContextConstraints; `openshift.enabled` in our chart creates one for the agent",
	},
	{
		Name: "dcgm-exporter's Helm chart",
		Pod: &Pod{
			Namespace: "monitoring", Name: "dcgm-exporter-1764000000-7x2kq", Labels: label("app.kubernetes.io/name", "dcgm-exporter"),
			Container: "exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label("feature.node.kubernetes.io/pci-10de.present", "true"),
		Monitors: []catalogue.Holder{monitor("dcgm-exporter-1764000000-7x2kq", "exporter")},
		Source:   "NVIDIA/dcgm-exporter @d5e5f51 (2026-05-12), deployment/; nodes labeled by Node Feature Discovery",
	},
	{
		Name: "GKE, managed DCGM",
		Pod: &Pod{
			Namespace: "gke-managed-system", Name: "dcgm-exporter-7x2kq", Labels: label("app.kubernetes.io/name", "gke-managed-dcgm-exporter"),
			Container: "dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(accelerator, "nvidia-l4"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{monitor("dcgm-exporter-7x2kq", "dcgm-exporter")},
		Source:   "label, namespace, DaemonSet and port, from users' scripts and recordings in public repositories",
		Unread:   "Google's manifest with the container's name",
	},
	{
		Name: "GKE, TPU device plugin",
		Pod: &Pod{
			Namespace: "kube-system", Name: "tpu-device-plugin-7x2kq", Labels: label("k8s-app", "tpu-device-plugin"),
			Container: "tpu-device-plugin", PortName: "metrics", Port: 2112,
		},
		URL: "http://%s:2112/metrics", NodeLabels: label("cloud.google.com/gke-tpu-accelerator", "tpu-v5p-slice"), Taint: taint("google.com/tpu", "present"),
		Monitors: []catalogue.Holder{monitor("tpu-device-plugin-7x2kq", "tpu-device-plugin")},
		Source:   "ai-on-gke, tpu-device-plugin @4626a9f; PodMonitor of llm-d",
	},
	{
		Name: "EKS, NVIDIA GPU operator or device plugin",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-7x2kq", Labels: label("app", "nvidia-dcgm-exporter"),
			Container: "nvidia-dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"), Taint: taint("nvidia.com/gpu", "true"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-7x2kq", "nvidia-dcgm-exporter")},
		Source:   operator + "; Karpenter's node labels",
	},
	{
		Name: "EKS, CloudWatch Observability add-on",
		Pod: &Pod{
			Namespace: "amazon-cloudwatch", Name: "dcgm-exporter-7x2kq", Labels: label("app.kubernetes.io/name", "dcgm-exporter"),
			Container: "dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: "https://%s:9400/metrics", NodeLabels: label("eks.amazonaws.com/instance-gpu-manufacturer", "nvidia"),
		Monitors: []catalogue.Holder{monitor("dcgm-exporter-7x2kq", "dcgm-exporter")},
		Settings: "`discovery: {scheme: https}` and `tls: {ca_file: …}`, because the add-on's exporter serves only HTTPS, with its own certificate",
		Source:   "aws-observability/helm-charts @71a298f (2026-08-07), aws/amazon-cloudwatch-agent-operator @a8d766c (2026-07-23)",
	},
	{
		Name: "EKS, Neuron monitor",
		Pod: &Pod{
			Namespace: "neuron-monitor", Name: "neuron-monitor-7x2kq", Labels: label("app", "neuron-monitor"),
			Container: "neuron-monitor", PortName: "metrics", Port: 8000,
		},
		URL: "http://%s:8000/metrics", NodeLabels: label("node.kubernetes.io/instance-type", "trn2.48xlarge"), Taint: taint("aws.amazon.com/neuron", "present"),
		Monitors: []catalogue.Holder{monitor("neuron-monitor-7x2kq", "neuron-monitor")},
		Source:   "aws-neuron-sdk @81ce03a",
	},
	{
		Name: "AKS, NVIDIA GPU operator",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-7x2kq", Labels: label("app", "nvidia-dcgm-exporter"),
			Container: "nvidia-dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label("kubernetes.azure.com/accelerator", "nvidia"), Taint: taint("sku", "gpu"),
		Monitors: []catalogue.Holder{monitor("nvidia-dcgm-exporter-7x2kq", "nvidia-dcgm-exporter")},
		Source:   operator + "; the taint is from AKS's examples",
	},
	{
		Name: "AKS, managed GPU nodes",
		URL:  "http://%s:19400/metrics", NodeLabels: label("kubernetes.azure.com/accelerator", "nvidia"), Taint: taint("sku", "gpu"),
		Settings: "`endpoints` with the node's address and port 19400, because the exporter is a systemd service, and discovery finds only pods",
		Source:   "Azure/AgentBaker, node scripts and their tests: service and port",
		Unread:   "which addresses the service listens on",
	},
	{
		Name: "AMD GPU operator, device plugin",
		Pod: &Pod{
			Namespace: "kube-amd-gpu", Name: "default-metrics-exporter-7x2kq", Labels: label("app.kubernetes.io/name", "metrics-exporter"),
			Container: "metrics-exporter-container", PortName: "exporter-port", Port: 5000,
		},
		URL: "http://%s:5000/metrics", NodeLabels: label("feature.node.kubernetes.io/amd-gpu", "true"), Taint: taint("amd-gpu-unhealthy", ""),
		Monitors: []catalogue.Holder{monitor("default-metrics-exporter-7x2kq", "metrics-exporter-container")},
		Source:   "ROCm/gpu-operator @6df13c1 (2026-08-06), internal/metricsexporter",
	},
	{
		Name: "AMD GPU operator, DRA",
		Pod: &Pod{
			Namespace: "kube-amd-gpu", Name: "default-metrics-exporter-7x2kq", Labels: label("app.kubernetes.io/name", "metrics-exporter"),
			Container: "metrics-exporter-container", PortName: "exporter-port", Port: 5000,
		},
		URL: "http://%s:5000/metrics", NodeLabels: label("feature.node.kubernetes.io/amd-gpu", "true"), Taint: taint("amd-gpu-unhealthy", ""),
		Monitors: []catalogue.Holder{monitor("default-metrics-exporter-7x2kq", "metrics-exporter-container")},
		Source:   "ROCm/gpu-operator @6df13c1 (2026-08-06), ROCm/k8s-gpu-dra-driver @2622427 (2025-10-06)",
	},
	{
		Name: "Intel GPU base operator, device plugin or DRA",
		Pod: &Pod{
			Namespace: "intel-gpu-base-operator", Name: "intel-xpumd-7x2kq", Labels: label("app.kubernetes.io/name", "xpumd"),
			Container: "xpumd", PortName: "http", Port: 8080,
		},
		URL: "http://%s:8080/metrics", NodeLabels: label("intel.feature.node.kubernetes.io/gpu", "true"),
		Monitors: []catalogue.Holder{monitor("intel-xpumd-7x2kq", "xpumd")},
		Source:   "intel/gpu-base-operator @d3cd094 (2026-08-21), config/deployments",
	},
	{
		Name: "HAMi",
		Pod: &Pod{
			Namespace: "kube-system", Name: "hami-device-plugin-7x2kq", Labels: label("app.kubernetes.io/component", "hami-device-plugin"),
			Container: "vgpu-monitor", PortName: "metrics", Port: 9394,
		},
		URL: "http://%s:9394/metrics", NodeLabels: label("gpu", "on"),
		Monitors: []catalogue.Holder{monitor("hami-device-plugin-7x2kq", "vgpu-monitor"), monitor("hami-device-plugin-7x2kq", "device-plugin")},
		Source:   "Project-HAMi/HAMi @4707fb0 (2026-08-21), charts/hami. The monitor reports containers, and a dcgm-exporter reports the boards",
	},
	{
		Name: "Koordinator with dcgm-exporter",
		Pod: &Pod{
			Namespace: "monitoring", Name: "dcgm-exporter-7x2kq", Labels: label("app.kubernetes.io/name", "dcgm-exporter"),
			Container: "exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label("node.koordinator.sh/gpu-model", "NVIDIA-A100"),
		Monitors: []catalogue.Holder{monitor("koordlet-7x2kq", "koordlet")},
		Source:   "koordinator-sh/koordinator @a7a1b76 (2026-07-24), apis/extension; koordinator-sh/charts @a1963c5 (2026-04-29)",
	},
	{
		Name: "KAI Scheduler with NVIDIA's GPU operator",
		Pod: &Pod{
			Namespace: "gpu-operator", Name: "nvidia-dcgm-exporter-7x2kq", Labels: label("app", "nvidia-dcgm-exporter"),
			Container: "nvidia-dcgm-exporter", PortName: "metrics", Port: 9400,
		},
		URL: dcgmURL, NodeLabels: label(present, "true"), Taint: taint("nvidia.com/gpu", "present"),
		Monitors: []catalogue.Holder{
			monitor("nvidia-dcgm-exporter-7x2kq", "nvidia-dcgm-exporter"),
			{Namespace: "kai-resource-reservation", Pod: "gpu-reservation-n1-abcde", Container: "resource-reservation"},
		},
		Source: operator + "; KAI Scheduler's changelog (0.6.0), and its documentation for the reservation pods' namespace",
		Unread: "the container name in a reservation pod",
	},
	{
		Name:       "Huawei MindCluster, npu-exporter",
		Pod:        &Pod{Namespace: "npu-exporter", Name: "npu-exporter-7x2kq", Labels: label("app", "npu-exporter"), Container: "npu-exporter", PortName: "metrics", Port: 8082},
		URL:        "http://%s:8082/metrics",
		NodeLabels: label("workerselector", "dls-worker-node"),
		Monitors:   []catalogue.Holder{monitor("npu-exporter-7x2kq", "npu-exporter")},
		Source:     "MindCluster's documentation",
		Unread:     "the manifest of the newest release",
	},
	{
		Name: "Docker or Podman without Kubernetes", URL: "http://localhost:9400/metrics",
		Monitors: []catalogue.Holder{{Name: "dcgm-exporter"}, {Name: "nvidia-dcgm-exporter"}},
		Source:   "README of NVIDIA/dcgm-exporter @d5e5f51 (2026-05-12)",
	},
	{
		Name: "Slurm, dcgm-exporter as a systemd service", URL: "http://localhost:9400/metrics",
		Source: "DCGM's documentation: packages and --hpc-job-mapping-dir; see [install.md](install.md#slurm)",
	},
}
