package cluster

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	advertiser "github.com/otelcol-gpu/otelcol-gpu/extension/gpumemoryresourceextension"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

const gpumem = "example.com/gpumem"

// startExtension starts a gpu_memory_resource extension that runs until the test ends or stop is
// called.
func startExtension(t *testing.T, kubeconfig string, remove bool) (stop func()) {
	t.Helper()
	factory := advertiser.NewFactory()
	cfg := factory.CreateDefaultConfig().(*advertiser.Config)
	cfg.Resource, cfg.Remove = gpumem, remove
	cfg.Shared.GetOrInsertDefault()
	cfg.Kubernetes = kube.Config{AuthType: kube.AuthKubeConfig, KubeConfig: kubeconfig}
	require.NoError(t, cfg.Validate())
	e, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, e.Start(t.Context(), componenttest.NewNopHost()))
	stop = func() { require.NoError(t, e.Shutdown(context.WithoutCancel(t.Context()))) }
	t.Cleanup(stop)
	return stop
}

func TestARealNodeAdvertisesWhatItLostAndNothingWhenItIsRemoved(t *testing.T) {
	plane := controlplane.Start(t)
	monitoring := plane.Namespace(t)
	plane.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: monitoring, Name: "otelcol-gpu-memory-resource"}})
	rbac, err := os.ReadFile("testdata/memory_resource_rbac.yaml")
	require.NoError(t, err)
	plane.Apply(t, strings.ReplaceAll(string(rbac), "namespace: monitoring", "namespace: "+monitoring))
	kubeconfig := plane.ServiceAccountKubeConfig(t, monitoring, "otelcol-gpu-memory-resource")

	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1", Labels: map[string]string{
		"nvidia.com/gpu.present": "true", "nvidia.com/gpu.memory": "15360", "nvidia.com/gpu.count": "8",
	}}})
	plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cpu-1"}})
	nodes := plane.Admin().CoreV1().Nodes()
	advertised := func(name string) string {
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		var amounts []string
		for _, resource := range []corev1.ResourceName{gpumem, "koordinator.sh/gpu.shared"} {
			if amount, ok := node.Status.Capacity[resource]; ok {
				amounts = append(amounts, amount.String())
			}
		}
		return strings.Join(amounts, " ")
	}
	reaches := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool { return advertised("gpu-1") == want }, 30*time.Second, 50*time.Millisecond)
	}

	const both = "114688 800" // the memory of eight boards in MiB, and 100 pods for each of the boards, as in the proposal
	stop := startExtension(t, kubeconfig, false)
	reaches(both)
	assert.Empty(t, advertised("cpu-1"))

	node, err := nodes.Get(t.Context(), "gpu-1", metav1.GetOptions{})
	require.NoError(t, err)
	delete(node.Status.Capacity, gpumem)
	delete(node.Status.Capacity, "koordinator.sh/gpu.shared")
	node.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("1")
	_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	require.NoError(t, err)
	reaches(both)

	stop()
	assert.Equal(t, both, advertised("gpu-1"), "the resource stays when the collector stops")
	startExtension(t, kubeconfig, true)
	reaches("")
}

// The README must contain the manifest that grants permissions in these tests.
func TestTheReadmeHasThesePermissions(t *testing.T) {
	rbac, err := os.ReadFile("testdata/memory_resource_rbac.yaml")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../extension/gpumemoryresourceextension/README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), string(rbac))
}
