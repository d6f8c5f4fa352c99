package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

// allowedLimits contains sets of limits that break no rule, whether one container or several
// containers have them.
var allowedLimits = []string{
	"", "gpu=50", "gpu=200", "gpu-memory=4Gi", "gpu-memory-ratio=50", "gpu-memory-ratio=300", "gpu-core=50 gpu-memory=4Gi",
	"gpu-core=100 gpu-memory=4Gi gpu.shared=2",
}

// drawSharePod draws a random pod. All limits are integers, so the API server accepts the pod if no
// webhook rejects it. In half of the pods, all containers have the same set of allowed limits. In
// the other half of the pods, the limits are arbitrary.
func drawSharePod(t *rapid.T) *corev1.Pod {
	onlyAllowed, allowed := rapid.Bool().Draw(t, "only allowed limits"), rapid.SampledFrom(allowedLimits).Draw(t, "limits")
	always := corev1.ContainerRestartPolicyAlways
	names := []corev1.ResourceName{
		"koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio",
		"koordinator.sh/gpu.shared", "nvidia.com/gpu", "huawei.com/npu-core", "example.com/other",
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "random-"}}
	add := func(kind string, most int) (containers []corev1.Container) {
		least := 0
		if kind == "app" {
			least = 1
		}
		for i := range rapid.IntRange(least, most).Draw(t, kind) {
			c := shareContainer(kind+string(rune('a'+i)), "")
			c.Resources.Limits = corev1.ResourceList{}
			if onlyAllowed {
				c = shareContainer(c.Name, allowed)
			}
			for _, name := range names {
				if !onlyAllowed && rapid.IntRange(0, 3).Draw(t, string(name)) == 0 {
					n := rapid.SampledFrom([]int64{0, 1, 2, 30, 50, 100, 101, 200, 300, 4 << 30}).Draw(t, "n")
					c.Resources.Limits[name] = *resource.NewQuantity(n, resource.DecimalSI)
				}
			}
			if rapid.Bool().Draw(t, "requests") {
				c.Resources.Requests = c.Resources.Limits.DeepCopy()
			}
			if kind == "init" && rapid.Bool().Draw(t, "sidecar") {
				c.RestartPolicy = &always
			}
			containers = append(containers, c)
		}
		return containers
	}
	pod.Spec.InitContainers, pod.Spec.Containers = add("init", 2), add("app", 3)
	return pod
}

// normalized applies the patch of package gpushare to a pod.
func normalized(t *rapid.T, pod *corev1.Pod) *corev1.Pod {
	operations := gpushare.Normalize(pod)
	if len(operations) == 0 {
		return pod
	}
	document, err := json.Marshal(pod)
	require.NoError(t, err)
	data, err := json.Marshal(operations)
	require.NoError(t, err)
	patch, err := jsonpatch.DecodePatch(data)
	require.NoError(t, err)
	document, err = patch.Apply(document)
	require.NoError(t, err)
	out := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(document, out))
	return out
}

// A pod must be stored if and only if it breaks no rule. A stored pod must have the same demands as
// the submitted pod. The metric for pods that break a rule must not include any of these stored
// pods.
func TestOnlyRandomPodsThatBreakNoRuleAreStored(t *testing.T) {
	w := startWebhooks(t)
	w.register("Fail")
	families, err := gpushare.NewFamilies(nil, gpushare.DefaultDeviceClasses())
	require.NoError(t, err)
	var stored, rejected int
	rapid.Check(t, func(t *rapid.T) {
		pod := drawSharePod(t)
		broken := families.Violations(normalized(t, pod))
		created, err := w.create(pod)
		if (err == nil) != (len(broken) == 0) {
			t.Fatalf("the API server returned %v, the rules %v", err, broken)
		}
		if err != nil {
			rejected++
			for _, v := range broken {
				if !strings.Contains(err.Error(), v.String()) {
					t.Fatalf("%v does not contain %v", err, v)
				}
			}
			return
		}
		stored++
		for i, c := range gpushare.Containers(created) {
			was := gpushare.Demands(gpushare.RequestsOf(gpushare.Containers(pod)[i]))
			if is := gpushare.Demands(gpushare.RequestsOf(c)); !slices.Equal(was, is) {
				t.Fatalf("container %s demands %v, stored %v", c.Name, was, is)
			}
		}
		if again := gpushare.Normalize(created); len(again) > 0 {
			t.Fatalf("a second patch: %v", again)
		}
	})
	assert.NotZero(t, stored)
	assert.NotZero(t, rejected)

	// The webhooks skip the namespace of the last pod. The last pod is therefore stored although it
	// breaks a rule, and the metric counts it. When the metric counts the last pod, the receiver
	// has already processed all other pods.
	last := sharePod("broken", "gpu-core=50")
	last.Namespace = metav1.NamespaceSystem
	w.plane.Create(t, last)
	replica := startReceiver(t, w.plane.KubeConfig(t), "")
	replica.eventually(map[string]float64{"k8s.gpu.request.invalid": 1})
}
