// Package gpuprocesses contains the catalogue table for exporters that list processes with their
// PIDs on the host: the host-PID exporter for Kubernetes (a DaemonSet that runs nvidia-smi), and
// nvidia_gpu_exporter with --collect.compute-apps. Both exporters list only compute processes and
// do not expose the number of processes.
package gpuprocesses

import (
	"slices"
	"strings"

	cat "github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Exporter is the table for exporters that list processes.
var Exporter = cat.New(cat.Exporter{
	Name:        "host-PID exporter",
	Groups:      groups,
	OfProcesses: true,

	Claims:    func(r *cat.Row) bool { return r.Get(cat.RolePID) != "" },
	Labels:    labels,
	BlankText: blank,
	Identify: func(r *cat.Row) (cat.Identity, cat.Refusal) {
		return cat.Identity{Board: r.Get(cat.RoleUUID)}, cat.Accepted
	},
	IsExporter: func(h cat.Holder) bool {
		return slices.ContainsFunc(usualNames, func(name string) bool {
			return h.Container == name || h.Name == name || h.Pod == name || strings.HasPrefix(h.Pod, name+"-")
		})
	},
})

// usualNames are the usual names of the exporters' containers and pods.
var usualNames = []string{"gpu-pod-exporter", "nvidia-gpu-exporter"}

// groups contains the only field of the exporters. The first name is from the host-PID exporter,
// whose rows name the container but no device. The second name is from nvidia_gpu_exporter, whose
// rows name the device but no container.
var groups = []cat.Group{{Title: "Memory of processes", Fields: []cat.Field{{
	Name: "gpu_pod_memory_used_bytes", Unit: cat.Byte, Aliases: []string{"nvidia_smi_compute_app_used_memory_bytes"},
	Provides: []cat.Signal{{Metric: signal.ProcessGPUMemoryUsage, By: cat.ByProcesses}},
}}}}

var labels = map[cat.Role][]string{
	cat.RolePID: {"pid"}, cat.RoleUUID: {"uuid", "gpu_uuid"}, cat.RoleIndex: {"gpu", "gpu_index"}, cat.RoleHost: {"node", "NodeName", "hostname"},
	cat.RolePod: {"pod"}, cat.RoleNamespace: {"namespace"}, cat.RoleContainer: {"container"}, cat.RolePodUID: {"pod_uid"},
	cat.RoleRelayedPod: {"exported_pod"}, cat.RoleRelayedNamespace: {"exported_namespace"}, cat.RoleRelayedContainer: {"exported_container"},
	cat.RoleRelayedPodUID: {"exported_pod_uid"},
}

// blank reports whether text is a value that the host-PID exporter exposes for processes outside
// known containers.
func blank(role cat.Role, text string) bool {
	switch role {
	case cat.RolePod, cat.RoleNamespace, cat.RoleContainer, cat.RoleRelayedPod, cat.RoleRelayedNamespace, cat.RoleRelayedContainer:
		return slices.Contains([]string{"unknown", "host", "none", "-"}, text)
	default:
		return false
	}
}
