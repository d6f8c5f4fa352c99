package charts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/controlplane"
)

// What helm finds in a cluster becomes a line of the notes, or a refusal.
func TestTheNotesSayWhatTheClusterLacks(t *testing.T) {
	plane := controlplane.Start(t)
	kubeconfig := plane.KubeConfig(t)
	// install pretends to, and returns what it says.
	install := func(set ...string) (string, error) {
		args := []string{"install", release, chartDir, "--namespace", "default", "--dry-run=server", "--kubeconfig", kubeconfig}
		for _, s := range set {
			args = append(args, "--set-json", s)
		}
		return helm(t, args...)
	}
	const backend = `backend.endpoint="http://backend"`
	node := func(name string, labels map[string]string) {
		plane.CreateNode(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	node("cpu", map[string]string{"pool": "a"})
	output, err := install(backend)
	require.NoError(t, err, output)
	assert.Contains(t, output, "Agents run on 0 of 1 nodes")
	assert.Contains(t, output, "WARNING: no node matches")

	node("gpu", map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4", "pool": "b"})
	output, err = install(backend)
	require.NoError(t, err, output)
	assert.Contains(t, output, "Agents run on 1 of 2 nodes")
	assert.NotContains(t, output, "WARNING: no node matches")

	output, err = install(backend, `agent.nodeSelector={"pool":"a"}`)
	require.NoError(t, err, output)
	assert.Contains(t, output, "Agents run on 0 of 2 nodes")

	plane.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu", Namespace: "default"}, Data: map[string][]byte{"tls.crt": {}, "tls.key": {}},
	})
	output, err = install("view.enabled=true", `tls.secretName="gpu"`)
	require.Error(t, err)
	assert.Contains(t, output, `tls.secretName is "gpu", a Secret without ca.crt: it must have tls.crt, tls.key and ca.crt`)
}
