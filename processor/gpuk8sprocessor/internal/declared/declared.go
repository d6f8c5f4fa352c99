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
	// Acquire returns the cache of API objects. If Acquire is nil, the API server is not used.
	Acquire func() (*kube.Cache, error)
	// Budgets contains the configured options for reading budgets.
	Budgets gpushare.BudgetOptions
	// If Claims is true, the Reader also reads ResourceClaims.
	Claims bool
	// Unreadable is called once for each pod, when the Reader first finds that an annotation of the
	// pod is unreadable.
	Unreadable func(pod *corev1.Pod, err error)
}

// Reader reads the declarations of the pods on a node or in the entire cluster. A Reader is safe
// for concurrent use after the Reader has started.
type Reader struct {
	options     Options
	cache       *kube.Cache // cache is nil if the API server is not used.
	unsubscribe func()

	mu      sync.Mutex
	pods    map[types.UID]*Pod // pods that were read
	byUID   map[types.UID]*corev1.Pod
	changed atomic.Bool // changed is true if pods and byUID are outdated.
}

// Pod is a pod together with the pod's declarations.
type Pod struct {
	*corev1.Pod
	// Budgets are the memory budgets.
	Budgets []gpushare.Budget
	compute compute
	// unreadable is true if an annotation of this or an earlier version of the pod is unreadable.
	unreadable bool
}

// NewReader returns a Reader that has not been started.
func NewReader(o Options) *Reader { return &Reader{options: o, pods: map[types.UID]*Pod{}} }

// Section returns a section that only starts and stops the Reader. Sections start in reverse order,
// so this section must be placed after all sections that use the Reader.
func (r *Reader) Section() pdatagpu.Section {
	return pdatagpu.Section{Start: r.start, Shutdown: r.shutdown}
}

// start begins watching the API objects. If the kubeconfig is invalid, start returns an error. API
// server failures can be temporary, so start does not wait for the first response from the API
// server.
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

// Kinds returns the kinds of API objects that the Reader reads.
func (r *Reader) Kinds() []kube.Kind {
	if r.options.Claims {
		return []kube.Kind{kube.Pods, kube.ResourceClaims}
	}
	return []kube.Kind{kube.Pods}
}

// State returns the state of one kind of API object. If the API server is not used, the phase is
// Off.
func (r *Reader) State(k kube.Kind) kube.State {
	if r.cache == nil {
		return kube.State{Phase: kube.Off, Err: errors.New("the API server is not used")}
	}
	return r.cache.State(k)
}

// Claim returns a ResourceClaim. If the claim is unknown or claims are not read, the second result
// is false.
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

// read returns the pod together with the pod's declarations. The declarations are read again only
// if the pod has changed. The caller holds the lock.
func (r *Reader) read(pod *corev1.Pod) *Pod {
	p := r.pods[pod.UID]
	if p != nil && p.ResourceVersion == pod.ResourceVersion {
		return p
	}
	reported := p != nil && p.unreadable
	budgets, err := gpushare.Budgets(pod, r.options.Budgets)
	if err != nil && !reported {
		r.options.Unreadable(pod, err)
	}
	p = &Pod{pod, budgets, readCompute(pod), reported || err != nil}
	r.pods[pod.UID] = p
	return p
}
