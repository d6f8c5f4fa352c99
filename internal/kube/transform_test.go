package kube

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestObjectsAreReduced transforms the object in each file testdata/transform/<name>/input.yaml. In
// the same directory, expected.yaml contains the expected result for a cache of the entire cluster.
// If of_node.yaml exists, it contains the expected result for a cache of one node.
func TestObjectsAreReduced(t *testing.T) {
	dirs, err := filepath.Glob("testdata/transform/*")
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			for file, o := range map[string]Options{"expected.yaml": {}, "of_node.yaml": {NodeName: "node-1"}} {
				want, err := os.ReadFile(filepath.Join(dir, file))
				if file == "of_node.yaml" && os.IsNotExist(err) {
					continue
				}
				require.NoError(t, err)
				object := decode(t, filepath.Join(dir, "input.yaml"))
				for range 2 { // transforming an object again must not change it
					cut, err := transform(o)(object)
					require.NoError(t, err)
					got, err := json.Marshal(cut)
					require.NoError(t, err)
					wantJSON, err := yaml.ToJSON(want)
					require.NoError(t, err)
					assert.JSONEq(t, string(wantJSON), string(got))
				}
			}
		})
	}
}

// decode reads a file that contains an API object of any kind.
func decode(t *testing.T, path string) runtime.Object {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	require.NoError(t, err)
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // typed clients also clear the GroupVersionKind
	return object
}

func TestAPodWithoutDevicesKeepsItsContainersIfTheyAreNeeded(t *testing.T) {
	pod := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	}
	for name, test := range map[string]struct {
		options Options
		want    int
	}{
		"the whole cluster": {Options{}, 0},
		"one node":          {Options{NodeName: "node-1"}, 1},
		"a selection":       {Options{LabelSelector: "app=nvidia-dcgm-exporter"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			_, err := transform(test.options)(p)
			require.NoError(t, err)
			assert.Len(t, p.Spec.Containers, test.want)
		})
	}
}

func TestInAClusterWideCacheContainersAfterTheLastOneThatRequestsADeviceAreDropped(t *testing.T) {
	gpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": apiresource.MustParse("1")}}
	pod := func() *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "proxy"}, {Name: "main", Resources: gpu}, {Name: "sidecar"}, {Name: "logs"},
		}}}
	}
	for name, test := range map[string]struct {
		options Options
		change  func(*corev1.Pod)
		want    int
	}{
		"whole cluster": {Options{}, func(*corev1.Pod) {}, 2},
		"a node":        {Options{NodeName: "a"}, func(*corev1.Pod) {}, 4},
		"an annotation": {Options{}, func(p *corev1.Pod) { p.Annotations = map[string]string{"gpu-memory": "1"} }, 4},
		"a claim": {Options{}, func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
		}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			test.change(p)
			_, err := transform(test.options)(p)
			require.NoError(t, err)
			assert.Len(t, p.Spec.Containers, test.want)
		})
	}
}
