package dcgmreceiver

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"go.opentelemetry.io/collector/confmap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// These are the values of discovery::scope.
const (
	scopeNode    = "node"    // For an agent: discover the exporter on the agent's node.
	scopeCluster = "cluster" // For a central collector: discover the exporters on all nodes.
)

// DiscoveryConfig configures how exporter pods are found.
type DiscoveryConfig struct {
	// Scope is node (default) or cluster.
	Scope string `mapstructure:"scope"`

	// NodeName is the name of the agent's node. NodeName is used only if Scope is node. NodeName
	// defaults to the value of the NODE_NAME environment variable. If the node name is unknown, the
	// receiver does not search for pods.
	NodeName string `mapstructure:"node_name"`

	// Namespace limits the search to one namespace. If Namespace is empty, the receiver searches
	// all namespaces.
	Namespace string `mapstructure:"namespace"`

	// Selectors are label selectors for exporter pods, in order of preference. On each node, the
	// receiver uses the first selector that matches a pod.
	Selectors []string `mapstructure:"selectors"`

	// PortName is the name of the container port to scrape. If PortName is empty or a pod has no
	// port with that name, the receiver scrapes Port. On localhost, the receiver always scrapes
	// Port.
	PortName string `mapstructure:"port_name"`
	Port     int    `mapstructure:"port"`

	// Others are exporters for devices from other vendors. The receiver scrapes the exporters in
	// Others in addition to those that match Selectors.
	Others []OtherExporter `mapstructure:"others"`

	// Scheme is the scheme of the pods' URLs: http (default) or https.
	Scheme string `mapstructure:"scheme"`

	// Fallback is the URL to scrape if no pod is found, such as the URL of a Service. If Scope is
	// node, the receiver tries localhost before Fallback.
	Fallback URL `mapstructure:"fallback"`

	// Kubernetes configures the connection to the API server. If auth_type is none, the receiver
	// does not search for pods.
	Kubernetes kube.Config `mapstructure:"kubernetes"`
}

// OtherExporter configures how another vendor's exporter pods are found.
type OtherExporter struct {
	// Selector is a label selector. On each node, the receiver scrapes Port on the oldest matching
	// pod that declares the port number in one of its containers, or that uses the host network and
	// declares no ports.
	Selector string `mapstructure:"selector"`
	Port     int    `mapstructure:"port"`

	// HonorTimestamps has the same meaning as Config.HonorTimestamps, but applies only to the
	// exporters that Selector matches.
	HonorTimestamps bool `mapstructure:"honor_timestamps"`
}

var _ confmap.Validator = (*DiscoveryConfig)(nil)

func newDefaultDiscoveryConfig() DiscoveryConfig {
	return DiscoveryConfig{
		Scope:    scopeNode,
		NodeName: componenthelper.NodeName(),
		// The selectors match exporters from four sources: the GPU operator, the dcgm-exporter Helm
		// chart, the GPU operator's support for DRA, and GKE. The GPU operator has set the
		// component label on its DRA exporter since release 26.7.2.
		Selectors: []string{
			"app=nvidia-dcgm-exporter", "app.kubernetes.io/name=dcgm-exporter",
			"app=nvidia-dcgm-exporter-dra", "app.kubernetes.io/component=nvidia-dcgm-exporter",
			"app.kubernetes.io/name=gke-managed-dcgm-exporter",
		},
		PortName: "metrics",
		Port:     defaultPort,
		Others: []OtherExporter{
			{Selector: "app.kubernetes.io/name=metrics-exporter", Port: 5000}, // AMD's device-metrics-exporter.
			{Selector: "k8s-app=tpu-device-plugin", Port: 2112},               // Google's TPU device plugin.
			{Selector: "app=neuron-monitor", Port: 8000},                      // AWS's neuron-monitor.
			{Selector: "app=npu-exporter", Port: 8082, HonorTimestamps: true}, // Huawei's npu-exporter.
			{Selector: "app.kubernetes.io/name=xpumd", Port: 8080},            // Intel's xpumd.
			// HAMi's vGPU monitor exposes metrics of containers that use GPUs. Another exporter
			// exposes the metrics of the GPUs themselves.
			{Selector: "app.kubernetes.io/component=hami-device-plugin", Port: 9394},
		},
		Scheme:     "http",
		Kubernetes: kube.NewDefaultConfig(),
	}
}

// Validate implements confmap.Validator. Each validation error contains the name of the field, the
// value, and the allowed values.
func (cfg *DiscoveryConfig) Validate() error {
	var p componenthelper.Problems
	p.Check(cfg.Scope == scopeNode || cfg.Scope == scopeCluster, "scope is %q: must be one of %s, %s", cfg.Scope, scopeNode, scopeCluster)
	p.Add(componenthelper.CheckNodeName(cfg.NodeName))
	p.Check(cfg.Scope != scopeCluster || cfg.Kubernetes.AuthType != kube.AuthNone || cfg.Fallback != "",
		"kubernetes::auth_type is none: must be serviceAccount or kubeConfig while scope is cluster, because no exporter can be found without the API server")
	p.Check(cfg.Namespace == "" || len(validation.IsDNS1123Label(cfg.Namespace)) == 0,
		"namespace is %q: must be a namespace, or empty for all", cfg.Namespace)
	p.Check(len(cfg.Selectors) > 0, "selectors is empty: at least one label selector is required")
	var listed []string
	selector := func(field, text string) {
		selector, err := labels.Parse(text)
		switch {
		case err != nil:
			p.Add(fmt.Errorf("%s is %q: %w: must be a label selector as in app=nvidia-dcgm-exporter", field, text, err))
		case selector.Empty():
			p.Add(fmt.Errorf("%s is %q: selects every pod: must be a label selector as in app=nvidia-dcgm-exporter", field, text))
		case slices.Contains(listed, text):
			p.Add(fmt.Errorf("%s is %q: must be listed once", field, text))
		}
		listed = append(listed, text)
	}
	for i, text := range cfg.Selectors {
		selector(fmt.Sprintf("selectors[%d]", i), text)
	}
	for i, other := range cfg.Others {
		selector(fmt.Sprintf("others[%d]::selector", i), other.Selector)
		p.Check(other.Port >= 1 && other.Port <= 65535, "others[%d]::port is %d: must be between 1 and 65535", i, other.Port)
	}
	p.Check(cfg.Port >= 1 && cfg.Port <= 65535, "port is %d: must be between 1 and 65535", cfg.Port)
	p.Check(cfg.Scheme == "http" || cfg.Scheme == "https", "scheme is %q: must be one of http, https", cfg.Scheme)
	if cfg.Fallback != "" {
		if _, err := parseEndpoint(string(cfg.Fallback)); err != nil {
			p.Add(fmt.Errorf("fallback is %q: %w: must be %s", withoutUserInfo(string(cfg.Fallback)), err, endpointForm))
		}
	}
	return p.Err()
}

// urlOf returns the URL of an exporter.
func (cfg *DiscoveryConfig) urlOf(host string, port int) *url.URL {
	return &url.URL{Scheme: cfg.Scheme, Host: net.JoinHostPort(host, strconv.Itoa(port)), Path: defaultPath}
}

// portOf returns the port to scrape on the pod.
func (cfg *DiscoveryConfig) portOf(pod *corev1.Pod) int {
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.Name == cfg.PortName && port.Name != "" {
				return int(port.ContainerPort)
			}
		}
	}
	return cfg.Port
}

// The has method reports whether a pod might belong to the exporter.
func (o *OtherExporter) has(pod *corev1.Pod) bool {
	none := true
	for _, c := range pod.Spec.Containers {
		none = none && len(c.Ports) == 0
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return int(p.ContainerPort) == o.Port }) {
			return true
		}
	}
	return none && pod.Spec.HostNetwork
}
