package gpushareadmissionextension

import (
	"encoding/json"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podObject contains the fields of a pod that the webhooks read. Other fields are not decoded,
// because they make up most of the pod's size and contain more quantities.
type podObject struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
	} `json:"metadata"`
	Spec struct {
		InitContainers []podContainer `json:"initContainers"`
		Containers     []podContainer `json:"containers"`
		Overhead       quantities     `json:"overhead"`
		Resources      *podResources  `json:"resources"`
	} `json:"spec"`
}

type podContainer struct {
	Name          string                         `json:"name"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
	Resources     podResources                   `json:"resources"`
}

type podResources struct {
	Limits   quantities `json:"limits"`
	Requests quantities `json:"requests"`
}

// quantities is a ResourceList that rejects quantities that would take too long to decode.
type quantities corev1.ResourceList

// slowExponent matches a negative exponent with at least five digits. The larger a negative
// exponent is, the longer resource.ParseQuantity takes, from seconds to hours.
var slowExponent = regexp.MustCompile(`[eE]-\d{5}`)

// UnmarshalJSON implements json.Unmarshaler.
func (q *quantities) UnmarshalJSON(data []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	for name, value := range values {
		if slowExponent.Match(value) {
			return fmt.Errorf("%.64s is %.32s: must have an exponent of at most four digits", name, value)
		}
	}
	return json.Unmarshal(data, (*corev1.ResourceList)(q))
}

// readPod decodes a pod from JSON. Fields that the webhooks do not read are skipped.
func readPod(name string, raw []byte) (*corev1.Pod, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("the request has no %s", name)
	}
	var object podObject
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("the request's %s is not a pod: %w", name, err)
	}
	if object.Kind != "Pod" || object.APIVersion != "v1" {
		return nil, fmt.Errorf("the request's %s is %q of apiVersion %q: must be a Pod of v1", name, object.Kind, object.APIVersion)
	}
	pod := &corev1.Pod{TypeMeta: object.TypeMeta}
	pod.Name, pod.GenerateName = object.Metadata.Name, object.Metadata.GenerateName
	pod.Spec.InitContainers = containersOf(object.Spec.InitContainers)
	pod.Spec.Containers = containersOf(object.Spec.Containers)
	pod.Spec.Overhead = corev1.ResourceList(object.Spec.Overhead)
	if r := object.Spec.Resources; r != nil {
		requirements := r.requirements()
		pod.Spec.Resources = &requirements
	}
	return pod, nil
}

func containersOf(list []podContainer) []corev1.Container {
	var all []corev1.Container
	for i := range list {
		c := &list[i]
		all = append(all, corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: c.Resources.requirements()})
	}
	return all
}

func (r *podResources) requirements() corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList(r.Limits), Requests: corev1.ResourceList(r.Requests)}
}
