package budgetstage

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
)

// completeHolder uses data from the API server to fill in the pod and the container of a process.
// The id parameter is the container ID from the container runtime.
func (p *gpuBudget) completeHolder(h *gpudata.Holder, id string) {
	pod := p.pods.Pod(*h)
	if pod == nil {
		return
	}
	h.Namespace, h.Pod, h.UID = pod.Namespace, pod.Name, string(pod.UID)
	if h.Container != "" || id == "" {
		return
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if strings.HasSuffix(statuses[i].ContainerID, "://"+id) {
				h.Container = statuses[i].Name
				return
			}
		}
	}
}

// declare copies the budgets from the user's pod to the user. If the user's container is unknown
// and the pod has only one container, declare also sets the user's container.
func (p *gpuBudget) declare(u *budget.User) {
	phase := p.phase()
	if phase == kube.Off {
		u.DeclarationsKnown, u.APIServerUnused = true, true
		return
	}
	pod := p.pods.Pod(u.Holder)
	if pod == nil || phase != kube.Synced { // If the cache is outdated, the pod's declarations may have changed.
		return
	}
	u.DeclarationsKnown = true
	if u.Container == "" && len(pod.Spec.Containers) == 1 {
		u.Container = pod.Spec.Containers[0].Name
	}
	u.Declared = pod.Budgets
	if u.FrameUser != nil && u.FrameUser.Allocation.Claim != "" {
		u.Claims = p.consumed(pod.Pod, u.Container, &u.FrameUser.Allocation)
	}
}

// consumed returns the amount of a device's memory that each of a container's claims consumes. The
// samples identify only one claim for the device, but the container can have several claims.
func (p *gpuBudget) consumed(pod *corev1.Pod, container string, a *gpudata.Allocation) []budget.Claim {
	var claims []budget.Claim
	for _, used := range kube.ContainerClaims(pod) {
		claim, ok := p.pods.Claim(pod.Namespace, used.Claim)
		if !ok || container != "" && used.Container != container || claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			r := &claim.Status.Allocation.Devices.Results[i]
			if r.Driver != a.Driver || r.Pool != a.Pool || r.Device != a.Device || !used.Uses(r.Request) || ptr.Deref(r.AdminAccess, false) {
				continue
			}
			bytes, share := memory(r), string(ptr.Deref(r.ShareID, ""))
			consumed := budget.Claim{ID: strings.Join([]string{pod.Namespace, used.Claim, r.Request, share}, "/"), Bytes: bytes}
			if bytes > 0 && !slices.Contains(claims, consumed) { // Skip duplicates, because a container can refer to both a claim and a request in that claim.
				claims = append(claims, consumed)
			}
		}
	}
	return claims
}

// memory returns the amount of device memory that an allocation result consumes, in bytes, or 0 if
// the allocation result specifies no memory. A capacity name without a domain implicitly has the
// driver's domain.
func memory(r *resourcev1.DeviceRequestAllocationResult) int64 {
	for _, name := range []resourcev1.QualifiedName{"memory", resourcev1.QualifiedName(r.Driver + "/memory")} {
		if q, ok := r.ConsumedCapacity[name]; ok {
			return gpushare.Units(q)
		}
	}
	return 0
}
