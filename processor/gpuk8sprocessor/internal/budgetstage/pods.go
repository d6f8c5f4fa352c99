package budgetstage

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
)

// podDeclarations reads the budgets that pods declare.
type podDeclarations struct {
	options gpushare.BudgetOptions
	// unreadable is called once for each pod with unreadable annotations.
	unreadable func(pod *corev1.Pod, err error)

	cache       *kube.Cache // nil if the API server is not used
	phase       func() kube.Phase
	kinds       []kube.Kind
	unsubscribe func()

	mu       sync.Mutex // of declared and byUID
	declared map[types.UID]podDeclaration
	byUID    map[types.UID]*corev1.Pod
	changed  atomic.Bool // byUID and declared are outdated
}

// podDeclaration contains the budgets that one version of a pod declares.
type podDeclaration struct {
	version string
	budgets []gpushare.Budget
}

func newPods(cfg *Config, unreadable func(*corev1.Pod, error)) *podDeclarations {
	p := &podDeclarations{
		options:    gpushare.BudgetOptions{Resources: map[string]int64{}, Annotation: cfg.Sources.Annotation.Key},
		unreadable: unreadable,
		kinds:      []kube.Kind{kube.Pods},
		declared:   map[types.UID]podDeclaration{},
	}
	for _, r := range cfg.Sources.ExtendedResources {
		p.options.Resources[r.Name] = units[r.Unit]
	}
	if cfg.Sources.DRA.Enabled {
		p.kinds = append(p.kinds, kube.ResourceClaims)
	}
	return p
}

// start starts watching the objects. It does not wait for the first answer.
func (p *podDeclarations) start(cache *kube.Cache) {
	p.cache = cache
	p.phase = func() kube.Phase { return cache.State(kube.Pods).Phase }
	p.changed.Store(true)
	cache.Need(p.kinds...)
	p.unsubscribe = cache.Subscribe(kube.Pods, func() { p.changed.Store(true) })
}

func (p *podDeclarations) stop() {
	if p.cache != nil {
		p.unsubscribe()
		p.cache.Release()
		p.cache = nil
	}
}

// refresh reads the pods again if the cache has changed.
func (p *podDeclarations) refresh() {
	if p.cache == nil || !p.changed.Swap(false) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byUID = map[types.UID]*corev1.Pod{}
	for _, pod := range p.cache.Pods() {
		p.byUID[pod.UID] = pod
	}
	maps.DeleteFunc(p.declared, func(uid types.UID, _ podDeclaration) bool { return p.byUID[uid] == nil })
}

// isOff reports whether the API server is not used for declarations.
func (p *podDeclarations) isOff() bool {
	return p.cache == nil || p.phase() == kube.Off
}

// isCurrent reports whether the pod cache is up to date. In an outdated cache, a pod may have a
// declaration that was changed or removed.
func (p *podDeclarations) isCurrent() bool {
	return p.phase() == kube.Synced
}

// pod returns the pod of a container, or nil if it is unknown.
func (p *podDeclarations) pod(h gpudata.Holder) *corev1.Pod {
	if p.cache == nil {
		return nil
	}
	if h.Pod == "" || h.Namespace == "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.byUID[types.UID(h.UID)]
	}
	pod, ok := p.cache.Pod(h.Namespace, h.Pod)
	if !ok || h.UID != "" && string(pod.UID) != h.UID {
		return nil // another pod with the same name
	}
	return pod
}

// completeHolder sets the pod and the container of a process from the API server. id is the
// container runtime's ID of the container.
func (p *podDeclarations) completeHolder(h *gpudata.Holder, id string) {
	pod := p.pod(*h)
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

// declare sets the budgets that the pod of a user declares. If the user has no container and the pod
// has only one, it also sets the container.
func (p *podDeclarations) declare(u *budget.User) {
	if p.isOff() {
		u.DeclarationsKnown, u.APIServerUnused = true, true
		return
	}
	pod := p.pod(u.Holder)
	if pod == nil || !p.isCurrent() {
		return
	}
	u.DeclarationsKnown = true
	if u.Container == "" && len(pod.Spec.Containers) == 1 {
		u.Container = pod.Spec.Containers[0].Name
	}
	u.Declared = p.budgets(pod)
	if u.FrameUser != nil && u.FrameUser.Allocation.Claim != "" {
		u.Claims = p.consumed(pod, u.Container, &u.FrameUser.Allocation)
	}
}

// budgets returns the budgets that a pod declares.
func (p *podDeclarations) budgets(pod *corev1.Pod) []gpushare.Budget {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.declared[pod.UID]
	if !ok || d.version != pod.ResourceVersion {
		var err error
		d.version = pod.ResourceVersion
		if d.budgets, err = gpushare.Budgets(pod, p.options); err != nil && !ok {
			p.unreadable(pod, err)
		}
		p.declared[pod.UID] = d
	}
	return d.budgets
}

// consumed returns the memory that the claims of a pod's container consume on a device. Samples
// contain only one claim for the device, but the container may have several.
func (p *podDeclarations) consumed(pod *corev1.Pod, container string, a *gpudata.Allocation) []budget.Claim {
	if !slices.Contains(p.kinds, kube.ResourceClaims) {
		return nil
	}
	var claims []budget.Claim
	for _, used := range kube.ContainerClaims(pod) {
		claim, ok := p.cache.ResourceClaim(pod.Namespace, used.Claim)
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
			if bytes > 0 && !slices.Contains(claims, consumed) { // a container may refer to both a request and its claim
				claims = append(claims, consumed)
			}
		}
	}
	return claims
}

// memory returns the device memory in bytes that an allocation result consumes, or 0 if it consumes
// none. A capacity name without a domain belongs to the driver.
func memory(r *resourcev1.DeviceRequestAllocationResult) int64 {
	for _, name := range []resourcev1.QualifiedName{"memory", resourcev1.QualifiedName(r.Driver + "/memory")} {
		if q, ok := r.ConsumedCapacity[name]; ok {
			return gpushare.Units(q)
		}
	}
	return 0
}
