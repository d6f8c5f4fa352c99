package gpushare

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

func TestViolationsOfOneContainer(t *testing.T) {
	const at = `container "main": spec.containers[0].resources.requests`
	for requested, want := range map[string][]string{
		"mem=4Gi core=50 shared=1": nil,
		"nvidia=2":                 nil,
		"nvidia=1 mem=4Gi shared=1": {
			`vendor_with_share: ` + at + `[nvidia.com/gpu] is 1: must not be requested in a pod with koordinator.sh GPU resources; use one of the two APIs`,
		},
		"nvidia=1 amd=2 ratio=50 shared=1": {
			`vendor_with_share: ` + at + `[amd.com/gpu] is amd.com/gpu=2, nvidia.com/gpu=1: must not be requested in a pod with koordinator.sh GPU resources; use one of the two APIs`,
		},
		"mem=4Gi ratio=50 shared=1": {
			`memory_with_ratio: ` + at + `[koordinator.sh/gpu-memory] is 4Gi: must not be requested together with koordinator.sh/gpu-memory-ratio; use one of the two`,
		},
		"core=100": {
			`core_without_memory: ` + at + `[koordinator.sh/gpu-core] is 100: must be requested together with koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio`,
		},
		"mem=4Gi": {
			`memory_without_shared: ` + at + `[koordinator.sh/gpu.shared] is missing: must be at least 1 where koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio is requested`,
		},
		"gpu=100 shared=1": {
			`gpu_with_shared: ` + at + `[koordinator.sh/gpu] is 100: must not be requested together with koordinator.sh/gpu.shared`,
		},
		"gpu=150": {
			`gpu_not_multiple_of_100: ` + at + `[koordinator.sh/gpu] is 150: must be 1 to 100, or a multiple of 100`,
		},
		"gpu=0": {
			`gpu_zero: ` + at + `[koordinator.sh/gpu] is 0: must be 1 to 100, or a multiple of 100`,
		},
		"mem=4Gi shared=0": {
			`shared_zero: ` + at + `[koordinator.sh/gpu.shared] is 0: must be at least 1`,
		},
		"shared=2": {
			`shared_without_memory: ` + at + `[koordinator.sh/gpu.shared] is 2: must be requested together with koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio above 0`,
		},
		"core=101 ratio=100 shared=2": {
			`core_not_multiple_of_shared: ` + at + `[koordinator.sh/gpu-core] is 101: must be a multiple of koordinator.sh/gpu.shared`,
		},
		"ratio=150 shared=1": {
			`ratio_over_device: ` + at + `[koordinator.sh/gpu-memory-ratio] is 150: must be at most 100 for each device of koordinator.sh/gpu.shared`,
		},
		"gpu=100 mem=4Gi": {
			`unknown_combination: ` + at + `[koordinator.sh/gpu] is koordinator.sh/gpu=100, koordinator.sh/gpu-memory=4Gi: must be koordinator.sh/gpu alone, or koordinator.sh/gpu.shared with one of koordinator.sh/gpu-memory and koordinator.sh/gpu-memory-ratio, and with or without koordinator.sh/gpu-core`,
		},
	} {
		t.Run(requested, func(t *testing.T) {
			var got []string
			for _, v := range builtin.Violations(podOf(nil, stored("main", requested))) {
				got = append(got, v.String())
			}
			assert.Equal(t, want, got)
		})
	}
}

func TestViolationsContainTheContainerUnlessThePodBreaksTheRule(t *testing.T) {
	where := func(pod *corev1.Pod) (out [][3]string) {
		for _, v := range builtin.Violations(pod) {
			out = append(out, [3]string{string(v.Rule), v.Container, v.Field})
		}
		return out
	}
	pod := podOf(nil, stored("a", "core=50"), stored("b", "mem=4Gi shared=1"), stored("c", "core=20"))
	pod.Spec.InitContainers = []corev1.Container{stored("init", "core=10"), stored("sidecar", "mem=1Gi ratio=10 shared=1")}
	pod.Spec.InitContainers[1].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	const core, memory = "[koordinator.sh/gpu-core]", "[koordinator.sh/gpu-memory]"
	assert.Equal(t, [][3]string{
		{"core_without_memory", "init", "spec.initContainers[0].resources.requests" + core},
		{"core_without_memory", "a", "spec.containers[0].resources.requests" + core},
		{"core_without_memory", "c", "spec.containers[2].resources.requests" + core},
		{"memory_with_ratio", "sidecar", "spec.initContainers[1].resources.requests" + memory},
	}, where(pod))

	assert.Equal(t, [][3]string{
		{"vendor_with_share", "", "spec.containers[*].resources.requests[nvidia.com/gpu]"},
	}, where(podOf(nil, stored("a", "nvidia=1"), stored("b", "ratio=50 shared=1"))), "the requests of two containers together break the rule")

	limits := podOf(nil, corev1.Container{Name: "main"})
	limits.Spec.Containers[0].Resources.Limits = stored("", "core=50").Resources.Limits
	assert.Equal(t, [][3]string{{"core_without_memory", "main", "spec.containers[0].resources.requests" + core}}, where(limits),
		"a limit counts as a request")
}

func TestEveryRuleHasAText(t *testing.T) {
	for _, rule := range Rules() {
		assert.NotEmpty(t, ruleTexts[rule].allowed, rule)
	}
	assert.Len(t, ruleTexts, len(Rules()))
}

func TestViolationsAreTheRulesThatCheckReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		var rules []Rule
		for _, v := range builtin.Violations(pod) {
			rules = append(rules, v.Rule)
			if v.Field == "" || v.Allowed == "" || v.String() == "" {
				t.Fatalf("incomplete: %+v", v)
			}
		}
		if want := builtin.Check(PodRequests(pod)); !slices.Equal(slices.Compact(rules), want) {
			t.Fatalf("%v, and Check reports %v", rules, want)
		}
	})
}
