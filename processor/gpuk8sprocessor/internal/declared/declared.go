// Package declared reads what pods declare about GPUs: memory budgets and fractions of a device's
// compute capacity. The sections of gpu_k8s share one [Reader].
package declared

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/collector/component"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Options configure a Reader.
type Options struct {
	// Acquire returns the cache of API objects. If the function Acquire is nil, the API server is
	// not used.
	Acquire func() (*kube.Cache, error)
	// Budgets are the configured sources of budgets.
	Budgets gpushare.BudgetOptions
	// Claims is true if ResourceClaims are also read.
	Claims bool
	// Unreadable is called once for each pod that has unreadable annotations.
	Unreadable func(pod *corev1.Pod, err error)
}

// Reader reads the declarations of the pods on a node or in the entire cluster. After the Reader
// has started, it is safe for concurrent use.
type Reader struct {
	options     Options
	cache       *kube.Cache // cache is nil if the API server is not used.
	unsubscribe func()

	mu      sync.Mutex
	pods    map[types.UID]*Pod // pods that were read
	byUID   map[types.UID]*corev1.Pod
	changed atomic.Bool // changed is true if pods and byUID are outdated.
}

// Pod is a pod with its declarations.
type Pod struct {
	*corev1.Pod
	// Budgets are the memory budgets.
	Budgets []gpushare.Budget
	compute compute
}

// NewReader returns a Reader that has not been started.
func NewReader(o Options) *Reader { return &Reader{options: o, pods: map[types.UID]*Pod{}} }

// Section returns a section that only starts and stops the Reader. Sections start in reverse order,
// so this section must be placed after all sections that use the Reader.
func (r *Reader) Section() pdatagpu.Section {
	return pdatagpu.Section{Start: r.start, Shutdown: r.shutdown}
}

// start begins to watch the API objects. If the kubeconfig is invalid, start returns an error.
// Failures of the API server can be temporary, so start does not wait for the API server's first
// answer.
func (r *Reader) start(context.Context, component.Host) error {
	if r.options.Acquire == nil {
		return nil
	}
	cache, err := r.options.Acquire()
	if err != nil {
		return err
	}
	r.cache = cache
	r.Changed()
	r.cache.Need(r.Kinds()...) //nolint:contextcheck // The informers keep running after start returns.
	r.unsubscribe = r.cache.Subscribe(kube.Pods, r.Changed)
	return nil
}

// Changed records that the pods in the cache have changed.
func (r *Reader) Changed() { r.changed.Store(true) }

func (r *Reader) shutdown(context.Context) error {
	if r.cache != nil {
		r.unsubscribe()
		r.cache.Release()
		r.cache = nil
	}
	return nil
}

// Kinds returns the kinds of objects that are read.
func (r *Reader) Kinds() []kube.Kind {
	if r.options.Claims {
		return []kube.Kind{kube.Pods, kube.ResourceClaims}
	}
	return []kube.Kind{kube.Pods}
}

// State returns the state of a kind of objects. If the API server is not used, the phase is Off.
func (r *Reader) State(k kube.Kind) kube.State {
	if r.cache == nil {
		return kube.State{Phase: kube.Off, Err: errors.New("the API server is not used")}
	}
	return r.cache.State(k)
}

// Claim returns a ResourceClaim. The second result is false if the claim is unknown or if claims
// are not read.
func (r *Reader) Claim(namespace, name string) (*resourcev1.ResourceClaim, bool) {
	if r.cache == nil || !r.options.Claims {
		return nil, false
	}
	return r.cache.ResourceClaim(namespace, name)
}

// Pod returns the pod of a container, or nil if the pod is unknown.
func (r *Reader) Pod(h gpudata.Holder) *Pod {
	if r.cache == nil || h.Pod == "" && h.UID == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	var pod *corev1.Pod
	if h.Pod == "" || h.Namespace == "" {
		pod = r.byUID[types.UID(h.UID)]
	} else {
		pod, _ = r.cache.Pod(h.Namespace, h.Pod)
	}
	if pod == nil || h.UID != "" && string(pod.UID) != h.UID { // The UIDs can differ, because another pod can have the same name.
		return nil
	}
	return r.read(pod)
}

// refresh updates pods and byUID if the cache has changed. The caller holds the lock.
func (r *Reader) refresh() {
	if !r.changed.Swap(false) {
		return
	}
	r.byUID = map[types.UID]*corev1.Pod{}
	for _, pod := range r.cache.Pods() {
		r.byUID[pod.UID] = pod
	}
	maps.DeleteFunc(r.pods, func(uid types.UID, _ *Pod) bool { return r.byUID[uid] == nil })
}

// read returns the pod with its declarations. The declarations are read again only if the pod has
// changed. The caller holds the lock.
func (r *Reader) read(pod *corev1.Pod) *Pod {
	p := r.pods[pod.UID]
	if p != nil && p.ResourceVersion == pod.ResourceVersion {
		return p
	}
	budgets, err := gpushare.Budgets(pod, r.options.Budgets)
	if err != nil && p == nil {
		r.options.Unreadable(pod, err)
	}
	p = &Pod{pod, budgets, readCompute(pod)}
	r.pods[pod.UID] = p
	return p
}
