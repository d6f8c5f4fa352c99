package charts

import (
	"cmp"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Each test case is a node with labels that a cloud provider or an operator sets.
func TestTheAgentRunsWhereGPUsAre(t *testing.T) {
	agent := podTemplates(t, decode(t, render(t, "", `backend.endpoint="http://backend"`)))["agent"].Spec
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: agent})
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"no GPU":                  {map[string]string{}, false},
		"a GPU under Windows":     {map[string]string{"kubernetes.io/os": "windows", "kubernetes.azure.com/accelerator": "nvidia"}, false},
		"Neuron, node group":      {map[string]string{"node.kubernetes.io/instance-type": "trn2.48xlarge"}, true},
		"no Neuron":               {map[string]string{"node.kubernetes.io/instance-type": "m7i.large"}, false},
		"GPU operator":            {map[string]string{"nvidia.com/gpu.present": "true"}, true},
		"GPU operator, no GPU":    {map[string]string{"nvidia.com/gpu.present": "false"}, false},
		"GKE":                     {map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4"}, true},
		"AKS":                     {map[string]string{"kubernetes.azure.com/accelerator": "nvidia"}, true},
		"AKS, older":              {map[string]string{"accelerator": "nvidia"}, true},
		"EKS, cluster autoscaler": {map[string]string{"k8s.amazonaws.com/accelerator": "nvidia-tesla-t4"}, true},
		"EKS, Auto Mode":          {map[string]string{"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"}, true},
		"EKS, Karpenter":          {map[string]string{"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia"}, true},
		"Karpenter, no GPU":       {map[string]string{"karpenter.k8s.aws/instance-family": "m7i"}, false},
		"NFD":                     {map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"}, true},
		"NFD by class":            {map[string]string{"feature.node.kubernetes.io/pci-0302_10de.present": "true"}, true},
		"AMD's operator":          {map[string]string{"feature.node.kubernetes.io/amd-gpu": "true"}, true},
		"AMD's labeller":          {map[string]string{"amd.com/gpu.family": "AI"}, true},
		"GKE, TPUs":               {map[string]string{"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice"}, true},
		"EKS, Karpenter, Neuron":  {map[string]string{"karpenter.k8s.aws/instance-accelerator-manufacturer": "aws"}, true},
		"AWS' Neuron operator":    {map[string]string{"feature.node.kubernetes.io/aws-neuron": "true"}, true},
		"Huawei's MindCluster":    {map[string]string{"workerselector": "dls-worker-node"}, true},
	} {
		node := &corev1.Node{}
		node.Name, node.Labels = "n1", maps.Clone(tc.labels)
		node.Labels[corev1.LabelOSStable] = cmp.Or(node.Labels[corev1.LabelOSStable], "linux")
		got, err := affinity.Match(node)
		require.NoError(t, err)
		assert.Equal(t, tc.want, got, name)
	}
}

func TestTheAgentRunsOnTheNodesThatTheUserSelects(t *testing.T) {
	for name, tc := range map[string]struct {
		set      string
		selector map[string]string
		labeled  bool // whether a node must have one of the labels in gpuNodeLabels
	}{
		"a selector narrows":     {`agent.nodeSelector={"pool":"a"}`, map[string]string{"pool": "a"}, true},
		"no labels: all nodes":   {`agent.gpuNodeLabels=[]`, nil, false},
		"pod affinity is beside": {`agent.affinity={"podAntiAffinity":{}}`, nil, true},
	} {
		spec := podTemplates(t, decode(t, render(t, "", `backend.endpoint="http://backend"`, tc.set)))["agent"].Spec
		assert.Equal(t, linux(tc.selector), spec.NodeSelector, name)
		assert.Equal(t, tc.labeled, spec.Affinity != nil && spec.Affinity.NodeAffinity != nil, name)
	}
}

// linux returns a copy of the node selector that also requires the image's operating system, Linux.
func linux(selector map[string]string) map[string]string {
	both := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(both, selector)
	return both
}

// With another kubelet root, the socket's path on the host changes, but its path in the container
// does not.
func TestTheKubeletMayHaveAnotherRoot(t *testing.T) {
	spec := podTemplates(t, decode(t, render(t, "", `backend.endpoint="http://backend"`, `agent.kubeletRoot="/var/lib/k0s/kubelet"`)))["agent"].Spec
	var host string
	for _, volume := range spec.Volumes {
		if volume.Name == "pod-resources" {
			host = volume.HostPath.Path
		}
	}
	assert.Equal(t, "/var/lib/k0s/kubelet/pod-resources", host)
	assert.Contains(t, spec.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: "pod-resources", MountPath: "/var/lib/kubelet/pod-resources", ReadOnly: true})
}

// OpenShift assigns user IDs to pods. The agent needs its own security context constraints, because
// it runs as root and with an SELinux type that can access host directories.
func TestOpenShiftGetsConstraintsForTheAgentAlone(t *testing.T) {
	objects := decode(t, render(t, "", `backend.endpoint="http://backend"`, "openshift.enabled=true"))
	templates := podTemplates(t, objects)
	assert.Equal(t, int64(0), *templates["agent"].Spec.SecurityContext.RunAsUser)
	assert.Equal(t, "spc_t", templates["agent"].Spec.Containers[0].SecurityContext.SELinuxOptions.Type)
	assert.Nil(t, templates["cluster"].Spec.SecurityContext.RunAsUser)
	assert.Nil(t, templates["cluster"].Spec.SecurityContext.FSGroup)
	assert.True(t, *templates["cluster"].Spec.SecurityContext.RunAsNonRoot)
	assert.Nil(t, templates["cluster"].Spec.Containers[0].SecurityContext.SELinuxOptions)

	constraints := func(objects []*unstructured.Unstructured) map[string]any {
		for _, obj := range objects {
			if obj.GetKind() == "SecurityContextConstraints" {
				return obj.Object
			}
		}
		return nil
	}
	got := constraints(objects)
	require.NotNil(t, got)
	for field, want := range map[string]any{
		"allowHostDirVolumePlugin": true, "allowHostPID": false, "allowHostNetwork": false, "allowHostIPC": false, "allowHostPorts": false,
		"allowPrivilegedContainer": false, "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
		"allowedCapabilities": []any{}, "requiredDropCapabilities": []any{"ALL"},
	} {
		assert.Equal(t, want, got[field], field)
	}

	unprivileged := decode(t, render(t, "", `backend.endpoint="http://backend"`, "openshift.enabled=true",
		"gpu_k8s.sources.pod_resources.enabled=false", `agent.stateHostPath=""`))
	assert.Nil(t, constraints(unprivileged), "no host access, so no constraints are needed")
}
