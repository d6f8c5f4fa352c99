package gpushare

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Assigned returns the devices that a scheduler's annotation assigns to a pod: Koordinator's
// device-allocated, HAMi's vgpu-devices-allocated or amd-devices-allocated, or Volcano's
// vgpu-ids-new. If the annotation exists, the scheduler has selected the devices. The device IDs
// that the kubelet lists for the pod are virtual and may refer to a different board.
//
// The second result is true if one of these annotations assigns GPUs to the pod, or if an entry
// cannot be parsed. In the latter case, the error contains the entry, and Assigned does not return
// the entry's device.
func Assigned(pod *corev1.Pod) (devices []Allocation, annotated bool, err error) {
	_, koordinator := pod.Annotations[koordAllocated]
	_, hami := pod.Annotations[hamiAllocated]
	_, amd := pod.Annotations[hamiAMD]
	_, volcano := pod.Annotations[volcanoAllocated]
	if !koordinator && !hami && !amd && !volcano {
		return nil, false, nil
	}
	read := corev1.Pod{Spec: pod.Spec}
	read.Annotations = map[string]string{}
	for _, key := range []string{koordAllocated, hamiAllocated, hamiAMD, volcanoAllocated, hamiMIG} {
		if value, ok := pod.Annotations[key]; ok {
			read.Annotations[key] = value
		}
	}
	_, err = Allocations(read.Annotations) // all errors are about devices, not about containers
	devices, _ = PodAllocations(&read)
	only := onlyContainer(pod)
	for i := range devices {
		if a := &devices[i]; a.Family == Koordinator {
			a.Container = only
		}
	}
	return devices, len(devices) > 0 || err != nil, err
}

// IsEntireDevice reports whether the allocation is for an entire device, not for a share of a
// device.
func (a *Allocation) IsEntireDevice() bool {
	if a.Family == HAMi {
		return a.Core == 1 // regardless of the memory: other pods get none of the compute
	}
	return a.Core == 1 && (a.MemoryRatio == 1 || a.MemoryRatio == 0 && a.MemoryBytes == 0)
}

// If exactly one container requests GPUs, onlyContainer returns the container's name. Otherwise,
// onlyContainer returns "". The name is needed because Koordinator allocates devices to the pod and
// does not name the container.
func onlyContainer(pod *corev1.Pod) (only string) {
	for _, c := range Containers(pod) {
		if !requestsGPU(c) {
			continue
		}
		if only != "" {
			return ""
		}
		only = c.Name
	}
	return only
}

func requestsGPU(c *corev1.Container) bool {
	for name, q := range RequestsOf(c) {
		if (IsGPU(name) || LikelyOf(name) == LikelyGPU && strings.Contains(name, "/")) && Units(q) > 0 {
			return true
		}
	}
	return false
}

// KAI Scheduler and Run:ai use these labels and annotations.
const (
	gpuGroup       = "runai-gpu-group"              // Label of the reservation pod and of the other pods in its group.
	gpuGroupPrefix = gpuGroup + "/"                 // Prefix of the labels of a pod that has shares of several devices, with one label for each device.
	reservedDevice = "run.ai/reserve_for_gpu_index" // Annotation in which the reservation pod stores the device's UUID.
)

// Groups returns the pod's groups, which KAI Scheduler and Run:ai use to assign shares of devices
// to pods. Each group consists of a reservation pod, which requests the device from the kubelet,
// and the pods that share the device.
func Groups(pod *corev1.Pod) (groups []string) {
	for key, value := range pod.Labels {
		if value != "" && (key == gpuGroup || strings.HasPrefix(key, gpuGroupPrefix)) {
			groups = append(groups, value)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// GroupContainer returns the name of the container that uses the device shares of the pod's groups.
// An annotation of the pod contains the container's name. If the annotation is missing, the first
// app container uses the shares. If the pod has no container with that name, GroupContainer returns
// "".
func GroupContainer(pod *corev1.Pod) string {
	name := pod.Annotations[kaiContainer]
	if name == "" && len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0].Name
	}
	if slices.ContainsFunc(Containers(pod), func(c *corev1.Container) bool { return c.Name == name }) {
		return name
	}
	return ""
}

// ReservedDevice returns the UUID of the device that a reservation pod reserves, or "" if the pod
// has no annotation with a UUID.
func ReservedDevice(pod *corev1.Pod) string { return pod.Annotations[reservedDevice] }
