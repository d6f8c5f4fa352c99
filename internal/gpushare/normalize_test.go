package gpushare

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// The stored function returns a container in the form in which the API server stores containers:
// the requests equal the limits.
func stored(name, requested string) corev1.Container {
	c := container(name, requests(requested))
	c.Resources.Limits = c.Resources.Requests.DeepCopy()
	return c
}

// The patched function applies a JSON patch to the pod in the same way as the API server.
func patched(t require.TestingT, pod *corev1.Pod, operations []PatchOperation) *corev1.Pod {
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

func TestNormalizeContainer(t *testing.T) {
	for name, c := range map[string]struct{ requests, want string }{
		// Test cases that the proposal describes for the mutating webhook.
		"a ratio of n times 100 is n devices": {"ratio=100", "ratio=100 shared=1"},
		"two devices":                         {"ratio=200", "ratio=200 shared=2"},
		"eight devices":                       {"ratio=800 core=800", "ratio=800 core=800 shared=8"},
		"a ratio that is not a multiple of 100 is one device":       {"ratio=50", "ratio=50 shared=1"},
		"a ratio above 100 that is not a multiple is one device":    {"ratio=150", "ratio=150 shared=1"},
		"memory in bytes is one device":                             {"mem=4Gi", "mem=4Gi shared=1"},
		"memory and core":                                           {"mem=4Gi core=50", "mem=4Gi core=50 shared=1"},
		"a declared gpu.shared is not changed":                      {"mem=4Gi core=100 shared=2", "mem=4Gi core=100 shared=2"},
		"a declared gpu.shared is not changed if the ratio differs": {"ratio=100 shared=2", "ratio=100 shared=2"},
		"a declared gpu.shared is not changed if it is not allowed": {"ratio=100 shared=0", "ratio=100 shared=0"},
		"gpu is core and ratio":                                     {"gpu=100", "core=100 ratio=100 shared=1"},
		"half a gpu":                                                {"gpu=50", "core=50 ratio=50 shared=1"},
		"two gpus":                                                  {"gpu=200", "core=200 ratio=200 shared=2"},
		"only a vendor's GPU is not changed":                        {"nvidia=2", "nvidia=2"},
		"every vendor's":                                            {"dcu=1", "dcu=1"},
		"MIG stays":                                                 {"nvidia.com/mig-1g.10gb=1", "nvidia.com/mig-1g.10gb=1"},
		"no GPU":                                                    {"cpu=4 memory=8Gi", "cpu=4 memory=8Gi"},

		// Test cases from Koordinator's own tests.
		"{core100,mem4000,ratio50}":     {"core=100 mem=4000 ratio=50", "core=100 mem=4000 ratio=50 shared=1"},
		"{core100,mem8000,ratio200}":    {"core=100 mem=8000 ratio=200", "core=100 mem=8000 ratio=200 shared=2"},
		"without a ratio, core is used": {"core=200 mem=64Gi", "core=200 mem=64Gi shared=2"},

		// Normalize does not change a container whose request for koordinator.sh/gpu breaks a rule,
		// so that the rejection message contains the user's request. If other requests break a
		// rule, Normalize only adds gpu.shared.
		"gpu=0":                 {"gpu=0", "gpu=0"},
		"gpu=101":               {"gpu=101", "gpu=101"},
		"gpu with gpu.shared":   {"gpu=100 shared=1", "gpu=100 shared=1"},
		"gpu with a ratio":      {"gpu=100 ratio=50", "gpu=100 ratio=50"},
		"gpu with memory":       {"gpu=100 mem=4Gi", "gpu=100 mem=4Gi"},
		"zeros":                 {"core=0 mem=0 ratio=0", "core=0 mem=0 ratio=0"},
		"a share of an NPU":     {"npu=40 ratio=200", "npu=40 ratio=200"},
		"a vendor with a share": {"nvidia=1 ratio=50", "nvidia=1 ratio=50 shared=1"},
		"core alone":            {"core=100", "core=100 shared=1"},
	} {
		t.Run(name, func(t *testing.T) {
			before := podOf(nil, stored("main", c.requests))
			want := podOf(nil, stored("main", c.want))
			after := patched(t, before, Normalize(before))
			for list, pair := range map[string][2]corev1.ResourceList{
				"requests": {want.Spec.Containers[0].Resources.Requests, after.Spec.Containers[0].Resources.Requests},
				"limits":   {want.Spec.Containers[0].Resources.Limits, after.Spec.Containers[0].Resources.Limits},
			} {
				assert.True(t, sameQuantities(pair[0], pair[1]), "%s: %v, want %v", list, pair[1], pair[0])
			}
			assert.Empty(t, Normalize(after), "the second patch changes nothing")
		})
	}
}

func sameQuantities(a, b corev1.ResourceList) bool {
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return len(a) == len(b)
}

func TestThePatchCoversEveryListOfEveryContainer(t *testing.T) {
	sidecar := stored("sidecar", "mem=1Gi")
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	pod := podOf(nil, corev1.Container{Name: "no-resources"}, stored("main", "gpu=200"))
	pod.Spec.InitContainers = []corev1.Container{stored("init", "ratio=300"), sidecar}

	add := func(path, value string) PatchOperation {
		return PatchOperation{Op: "add", Path: path, Value: value}
	}
	assert.Equal(t, []PatchOperation{
		add("/spec/initContainers/0/resources/limits/koordinator.sh~1gpu.shared", "3"),
		add("/spec/initContainers/0/resources/requests/koordinator.sh~1gpu.shared", "3"),
		add("/spec/initContainers/1/resources/limits/koordinator.sh~1gpu.shared", "1"),
		add("/spec/initContainers/1/resources/requests/koordinator.sh~1gpu.shared", "1"),
		{Op: "remove", Path: "/spec/containers/1/resources/limits/koordinator.sh~1gpu"},
		add("/spec/containers/1/resources/limits/koordinator.sh~1gpu-core", "200"),
		add("/spec/containers/1/resources/limits/koordinator.sh~1gpu-memory-ratio", "200"),
		add("/spec/containers/1/resources/limits/koordinator.sh~1gpu.shared", "2"),
		{Op: "remove", Path: "/spec/containers/1/resources/requests/koordinator.sh~1gpu"},
		add("/spec/containers/1/resources/requests/koordinator.sh~1gpu-core", "200"),
		add("/spec/containers/1/resources/requests/koordinator.sh~1gpu-memory-ratio", "200"),
		add("/spec/containers/1/resources/requests/koordinator.sh~1gpu.shared", "2"),
	}, Normalize(pod))

	limitsAlone := podOf(nil, corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{koordRatio: resource.MustParse("50")},
	}})
	assert.Equal(t, []PatchOperation{add("/spec/containers/0/resources/limits/koordinator.sh~1gpu.shared", "1")},
		Normalize(limitsAlone), "a list that the pod does not have is not created")
}

// The example in the proposal requests 4Gi and all of the compute on two devices, which is 2Gi and
// half of the compute on each device.
func TestTheProposalsExampleIsDividedAmongTwoDevices(t *testing.T) {
	pod := podOf(nil, stored("main", "mem=4Gi core=100 shared=2"))
	pod = patched(t, pod, Normalize(pod))
	assert.Equal(t, []Demand{{Koordinator, 2, 2 << 30, 0, 0.5}}, Demands(RequestsOf(&pod.Spec.Containers[0])))
}

// drawPod generates a random pod whose containers can request GPUs in all supported ways.
func drawPod(t *rapid.T) *corev1.Pod {
	names := []string{koordGPU, koordCore, koordMemory, koordRatio, koordShared, "nvidia.com/gpu", npuCore, "cpu"}
	values := []int64{0, 1, 2, 30, 50, 70, 100, 101, 150, 200, 300, 1 << 32}
	c := rapid.Custom(func(t *rapid.T) corev1.Container {
		r := Requests{}
		for _, name := range names {
			if rapid.IntRange(0, 3).Draw(t, name) == 0 {
				r[name] = *resource.NewQuantity(rapid.SampledFrom(values).Draw(t, "value"), resource.DecimalSI)
			}
		}
		c := container(rapid.StringMatching(`[a-z]{8}`).Draw(t, "name"), r)
		c.Resources.Limits = c.Resources.Requests.DeepCopy()
		switch rapid.IntRange(0, 3).Draw(t, "lists") {
		case 0:
			c.Resources.Requests = nil
		case 1:
			c.Resources.Limits = nil
		}
		return c
	})
	pod := podOf(nil, rapid.SliceOfN(c, 1, 3).Draw(t, "containers")...)
	pod.Spec.InitContainers = rapid.SliceOfN(c, 0, 2).Draw(t, "init")
	for i := range pod.Spec.InitContainers {
		if rapid.Bool().Draw(t, "sidecar") {
			pod.Spec.InitContainers[i].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
	}
	return pod
}

func TestAPatchDoesNotChangeTheDemandOfAPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		before := pod.DeepCopy()
		patch := Normalize(pod)
		if !reflect.DeepEqual(before, pod) {
			t.Fatal("the pod itself was modified")
		}
		after := patched(t, pod, patch)
		if again := Normalize(after); len(again) > 0 {
			t.Fatalf("the second patch is not empty: %v", again)
		}
		for i, c := range Containers(pod) {
			was, is := RequestsOf(c), RequestsOf(Containers(after)[i])
			if !slices.Equal(Demands(was), Demands(is)) {
				t.Fatalf("%v demands %v, mutated to %v, %v", was, Demands(was), is, Demands(is))
			}
			for name, q := range was {
				if now, ok := is[name]; name != koordGPU && (!ok || now.Cmp(q) != 0) {
					t.Fatalf("%s of %v changed: %v", name, was, is)
				}
			}
		}
	})
}
