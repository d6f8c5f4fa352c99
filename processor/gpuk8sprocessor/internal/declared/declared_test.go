package declared

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/kubetest"
)

// startReader starts and returns a Reader that uses an API server that contains the given pods. The
// names of pods that have unreadable annotations are appended to the unreadable slice.
func startReader(t *testing.T, unreadable *[]string, pods ...runtime.Object) *Reader {
	t.Helper()
	r := NewReader(Options{
		Acquire: func() (*kube.Cache, error) {
			return kube.NewCache(kubetest.NewClient(pods...), kube.Options{}, componenttest.NewNopTelemetrySettings()), nil
		},
		Unreadable: func(pod *corev1.Pod, _ error) { *unreadable = append(*unreadable, pod.Name) },
	})
	section := r.Section()
	require.NoError(t, section.Start(t.Context(), nil))
	t.Cleanup(func() { require.NoError(t, section.Shutdown(context.Background())) })
	require.NoError(t, r.cache.WaitSynced(t.Context(), kube.Pods))
	r.Changed()
	return r
}

// newPod returns a pod that has KAI Scheduler's annotation for GPU memory. The memory parameter is
// in MiB.
func newPod(name, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"gpu-memory": memory}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
}

func TestAPodIsFoundByItsNameOrUID(t *testing.T) {
	r := startReader(t, nil, newPod("a", "100"), newPod("b", "200"))
	for h, want := range map[gpudata.Holder]int64{
		{Namespace: "ns", Pod: "a"}:               100 << 20,
		{Namespace: "ns", Pod: "b", UID: "uid-b"}: 200 << 20,
		{UID: "uid-b"}:                            200 << 20,
		{Namespace: "ns", Pod: "b", UID: "uid-a"}: 0, // A different pod now has the name b.
		{Namespace: "ns", Pod: "c"}:               0,
		{UID: "uid-c"}:                            0,
		{ID: "of a plain container"}:              0,
	} {
		p := r.Pod(h)
		if want == 0 {
			assert.Nil(t, p, h)
			continue
		}
		if assert.NotNil(t, p, h) && assert.Len(t, p.Budgets, 1, h) {
			assert.Equal(t, gpushare.BudgetKAI, p.Budgets[0].Source)
			assert.Equal(t, want, p.Budgets[0].MemoryBytes)
		}
	}
}

func TestAPodWithUnreadableAnnotationsIsReportedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		versions []string // versions contains the annotation in each version of the pod.
		want     []string
	}{
		"always readable":                    {[]string{"100", "200"}, nil},
		"always unreadable":                  {[]string{"plenty", "plenty", "plenty"}, []string{"a"}},
		"unreadable after an edit":           {[]string{"100", "100", "plenty", "plenty"}, []string{"a"}},
		"unreadable, then readable":          {[]string{"plenty", "100"}, []string{"a"}},
		"unreadable again after being fixed": {[]string{"plenty", "100", "plenty"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			var unreadable []string
			r := startReader(t, &unreadable)
			for version, memory := range tt.versions {
				pod := newPod("a", memory)
				pod.ResourceVersion = strconv.Itoa(version)
				r.read(pod)
			}
			assert.Equal(t, tt.want, unreadable)
		})
	}
}

func TestWithoutTheAPIServerNoPodIsKnown(t *testing.T) {
	r := NewReader(Options{Claims: true})
	section := r.Section()
	require.NoError(t, section.Start(t.Context(), nil))
	defer func() { require.NoError(t, section.Shutdown(context.Background())) }()
	assert.Nil(t, r.Pod(gpudata.Holder{Namespace: "ns", Pod: "a"}))
	assert.Equal(t, kube.Off, r.State(kube.Pods).Phase)
	_, known := r.Claim("ns", "c")
	assert.False(t, known)
}
