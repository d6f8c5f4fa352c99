package declared

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// compute contains the compute capacity that a pod declares, either for a scheduler or for MPS. All
// amounts are fractions of a device's compute capacity.
type compute struct {
	allocated []gpushare.Allocation
	demanded  map[string]float64 // demanded maps each container to the requested fraction of a device.
	limited   map[string]float64 // limited maps each container to the limit of its MPS clients.
}

// readCompute reads the compute capacity that a pod declares. Unreadable annotations are ignored,
// because [gpushare.Budgets] reports unreadable annotations.
func readCompute(pod *corev1.Pod) compute {
	c := compute{demanded: map[string]float64{}, limited: map[string]float64{}}
	allocations, _ := gpushare.PodAllocations(pod)
	for _, a := range allocations {
		if a.Core > 0 && a.MIG == nil {
			c.allocated = append(c.allocated, a)
		}
	}
	for _, container := range gpushare.Containers(pod) {
		for _, e := range container.Env {
			if percent, err := strconv.ParseFloat(e.Value, 64); e.Name == kube.MPSPercentage && err == nil && percent > 0 && percent <= 100 {
				c.limited[container.Name] = percent / 100
			}
		}
		for _, demand := range gpushare.Demands(gpushare.RequestsOf(container)) {
			if demand.Core > 0 {
				c.demanded[container.Name] = min(demand.Core, 1)
			}
		}
	}
	return c
}

// Compute returns the fraction of a board's compute capacity that is declared for a user, or 0 if
// nothing is declared. If the declaration applies to the entire pod, the fraction is divided among
// the pod's containers on the board. For an instance, the result is always 0, because the holder
// uses the entire instance.
func (r *Reader) Compute(d *gpudata.DeviceFrame, u *gpudata.User) float64 {
	if d.Parent != "" || u.Holder.Pod == "" {
		return 0
	}
	pod := r.Pod(u.Holder)
	if pod == nil {
		return 0
	}
	return pod.compute.of(d, u)
}

// The of method implements [Reader.Compute]. The declarations in c belong to the user's pod.
func (c *compute) of(d *gpudata.DeviceFrame, u *gpudata.User) float64 {
	var containerPart, podPart float64
	for _, a := range c.allocated {
		switch {
		case a.UUID != "" && a.UUID != d.Device.ID(), a.UUID == "" && a.Minor >= 0 && d.Name != "nvidia"+strconv.Itoa(a.Minor):
		case a.Container == "": // The declaration applies to the entire pod.
			podPart += a.Core
		case a.Container == u.Holder.Container:
			containerPart += a.Core
		}
	}
	if containerPart > 0 {
		return min(containerPart, 1)
	}
	if podPart > 0 {
		n := 0
		for _, o := range d.Users {
			if o.Holds && o.Holder.Namespace == u.Holder.Namespace && o.Holder.Pod == u.Holder.Pod {
				n++
			}
		}
		return min(podPart, 1) / float64(max(n, 1))
	}
	if demanded := c.demanded[u.Holder.Container]; demanded > 0 || u.Strategy != signal.SharingMPS {
		return demanded
	}
	return c.limited[u.Holder.Container]
}
