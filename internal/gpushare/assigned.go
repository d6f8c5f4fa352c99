package gpushare

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Assigned returns the devices that a scheduler's annotation assigns to a pod: Koordinator's
// device-allocated, HAMi's vgpu-devices-allocated or amd-devices-allocated, or Volcano's
// vgpu-ids-new. In this case, the scheduler selects the device. The IDs that the kubelet lists for
// the pod are virtual and may name a different board.
//
// annotated is true if the pod has such an annotation for GPUs. The error lists the entries that
// cannot be parsed. Assigned does not return their devices.
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
	_, err = Allocations(read.Annotations) // only errors about devices, not about containers
	devices, _ = PodAllocations(&read)
	only := onlyContainer(pod)
	for i := range devices {
		if a := &devices[i]; a.Family == Koordinator {
			a.Container = only
		}
	}
	return devices, len(devices) > 0 || err != nil, err
}

// IsEntireDevice reports whether an allocation is an entire device and not a share of a device.
func (a *Allocation) IsEntireDevice() bool {
	if a.Family == HAMi {
		return a.Core == 1 // the rest of the memory may be allocated to other pods
	}
	return a.Core == 1 && (a.MemoryRatio == 1 || a.MemoryRatio == 0 && a.MemoryBytes == 0)
}

// onlyContainer returns the name of the only container that requests GPUs. It returns "" if no
// container or several containers request GPUs. It is needed because Koordinator allocates devices
// to the pod and does not name the container.
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

// Labels and annotations of KAI Scheduler and Run:ai.
const (
	gpuGroup       = "runai-gpu-group"              // on the reservation pod and on the pods of its group
	gpuGroupPrefix = gpuGroup + "/"                 // on a pod with shares of several devices; one label for each device
	reservedDevice = "run.ai/reserve_for_gpu_index" // the device's UUID, set by the reservation pod
)

// Groups returns the groups through which KAI Scheduler and Run:ai assign shares of devices to a
// pod. Each group consists of a reservation pod, which requests the device from the kubelet, and
// the pods that share the device.
func Groups(pod *corev1.Pod) (groups []string) {
	for key, value := range pod.Labels {
		if value != "" && (key == gpuGroup || strings.HasPrefix(key, gpuGroupPrefix)) {
			groups = append(groups, value)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// GroupContainer returns the container that uses the device shares of the pod's groups. This is the
// container in the pod's annotation or, without the annotation, the first app container.
// GroupContainer returns "" if this container does not exist.
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

// ReservedDevice returns the device UUID that a reservation pod reports, or "" if there is none.
func ReservedDevice(pod *corev1.Pod) string { return pod.Annotations[reservedDevice] }
