package budgetstage

import (
	"maps"
	"slices"
	"strings"
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

// pods says what pods declare. It is not safe for concurrent use.
type pods struct {
	options gpushare.BudgetOptions
	// unreadable is called once for each pod with annotations that cannot be read.
	unreadable func(pod *corev1.Pod, err error)

	cache *kube.Cache // nil: not asked
	phase func() kube.Phase
	kinds []kube.Kind
	unsub func()

	declared map[types.UID]declared
	byUID    map[types.UID]*corev1.Pod
	changed  atomic.Bool // byUID and declared are of old
}

// declared is what one version of a pod declares.
type declared struct {
	version string
	budgets []gpushare.Budget
}

func newPods(cfg *Config, unreadable func(*corev1.Pod, error)) *pods {
	p := &pods{
		options:    gpushare.BudgetOptions{Resources: map[string]int64{}, Annotation: cfg.Sources.Annotation.Key},
		unreadable: unreadable,
		kinds:      []kube.Kind{kube.Pods},
		declared:   map[types.UID]declared{},
	}
	for _, r := range cfg.Sources.ExtendedResources {
		p.options.Resources[r.Name] = units[r.Unit]
	}
	if cfg.Sources.DRA.Enabled {
		p.kinds = append(p.kinds, kube.ResourceClaims)
	}
	return p
}

// start begins to read; it waits for nothing.
func (p *pods) start(cache *kube.Cache) {
	p.cache = cache
	p.phase = func() kube.Phase { return cache.State(kube.Pods).Phase }
	p.changed.Store(true)
	cache.Need(p.kinds...)
	p.unsub = cache.Subscribe(kube.Pods, func() { p.changed.Store(true) })
}

func (p *pods) stop() {
	if p.cache != nil {
		p.unsub()
		p.cache.Release()
		p.cache = nil
	}
}

// refresh follows changes of the cache.
func (p *pods) refresh() {
	if p.cache == nil || !p.changed.Swap(false) {
		return
	}
	p.byUID = map[types.UID]*corev1.Pod{}
	for _, pod := range p.cache.Pods() {
		p.byUID[pod.UID] = pod
	}
	maps.DeleteFunc(p.declared, func(uid types.UID, _ declared) bool { return p.byUID[uid] == nil })
}

// off reports whether the API server is not used for declarations.
func (p *pods) off() bool {
	return p.cache == nil || p.phase() == kube.Off
}

// current reports whether the pod cache is up to date. While updates do not arrive, a pod may have
// changed or removed its declaration.
func (p *pods) current() bool {
	return p.phase() == kube.Synced
}

// pod returns the pod of a container, nil when it is not known.
func (p *pods) pod(h gpudata.Holder) *corev1.Pod {
	if p.cache == nil {
		return nil
	}
	if h.Pod == "" || h.Namespace == "" {
		return p.byUID[types.UID(h.UID)]
	}
	pod, ok := p.cache.Pod(h.Namespace, h.Pod)
	if !ok || h.UID != "" && string(pod.UID) != h.UID {
		return nil // another pod of that name
	}
	return pod
}

// complete fills in what the API server knows of the container of a process, id
// being the runtime's.
func (p *pods) complete(h *gpudata.Holder, id string) {
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

// declare fills in what the pod of a user declares. A user without a container's name has the
// container of a pod that has only one.
func (p *pods) declare(u *budget.User) {
	if p.off() {
		u.Declarations, u.Unasked = true, true
		return
	}
	pod := p.pod(u.Holder)
	if pod == nil || !p.current() {
		return
	}
	u.Declarations = true
	if u.Container == "" && len(pod.Spec.Containers) == 1 {
		u.Container = pod.Spec.Containers[0].Name
	}
	d, ok := p.declared[pod.UID]
	if !ok || d.version != pod.ResourceVersion {
		var err error
		d.version = pod.ResourceVersion
		if d.budgets, err = gpushare.Budgets(pod, p.options); err != nil && !ok {
			p.unreadable(pod, err)
		}
		p.declared[pod.UID] = d
	}
	u.Declared = d.budgets
	if u.Of != nil && u.Of.Allocation.Claim != "" {
		u.Claims = p.consumed(pod, u.Container, &u.Of.Allocation)
	}
}

// consumed returns the memory that the claims of a pod's container consume of a device. The
// samples carry one claim, which names the device; a container may have several claims on it.
func (p *pods) consumed(pod *corev1.Pod, container string, a *gpudata.Allocation) []budget.Claim {
	if !slices.Contains(p.kinds, kube.ResourceClaims) {
		return nil
	}
	var out []budget.Claim
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
			of := budget.Claim{ID: strings.Join([]string{pod.Namespace, used.Claim, r.Request, share}, "/"), Bytes: bytes}
			if bytes > 0 && !slices.Contains(out, of) { // a container may name a request and the whole claim
				out = append(out, of)
			}
		}
	}
	return out
}

// memory returns the memory of the device that a result consumes, in bytes, 0 where it is not
// given. An unqualified name is the driver's.
func memory(r *resourcev1.DeviceRequestAllocationResult) int64 {
	for _, name := range []resourcev1.QualifiedName{"memory", resourcev1.QualifiedName(r.Driver + "/memory")} {
		if q, ok := r.ConsumedCapacity[name]; ok {
			return gpushare.Units(q)
		}
	}
	return 0
}
