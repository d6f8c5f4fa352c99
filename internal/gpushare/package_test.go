package gpushare

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// builtin contains only the built-in resource names.
var builtin Families

// The keys of short are abbreviations in test tables, and the values are resource names.
var short = map[string]string{
	"gpu": koordGPU, "shared": koordShared, "core": koordCore, "mem": koordMemory, "ratio": koordRatio,
	"npu": npuCore, "cpu": npuCPU, "dvpp": npuDVPP, "fpga": "koordinator.sh/fpga", "rdma": "koordinator.sh/rdma",
	"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "dcu": "dcu.com/gpu",
	"gpumem": "nvidia.com/gpumem", "gpumem%": "nvidia.com/gpumem-percentage", "gpucores": "nvidia.com/gpucores",
}

// The requests function parses requests in the format "core=100 mem=4Gi nvidia.com/mig-1g.10gb=1".
func requests(text string) Requests {
	r := Requests{}
	for field := range strings.FieldsSeq(text) {
		name, quantity, _ := strings.Cut(field, "=")
		if full, ok := short[name]; ok {
			name = full
		}
		r[name] = resource.MustParse(quantity)
	}
	return r
}

func podOf(annotations map[string]string, containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: corev1.PodSpec{Containers: containers}}
}

func container(name string, r Requests) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for resource, q := range r {
		c.Resources.Requests[corev1.ResourceName(resource)] = q
	}
	return c
}
