// Package declared reads what pods declare about GPUs: memory budgets and parts of a device's
// compute capacity. The sections of gpu_k8s share one reader.
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
	// Acquire returns the cache of API objects. If it is nil, the API server is not used.
	Acquire func() (*kube.Cache, error)
	// Budgets are the configured sources of budgets.
	Budgets gpushare.BudgetOptions
	// Claims is true if ResourceClaims are also read.
	Claims bool
	// Unreadable is called once for each pod with unreadable annotations.
	Unreadable func(pod *corev1.Pod, err error)
}

// Reader reads the pods of a node, or of the cluster. It is safe for concurrent use after it has
// started.
type Reader struct {
	options     Options
	cache       *kube.Cache // nil if the API server is not used
	unsubscribe func()

	mu      sync.Mutex
	pods    map[types.UID]*Pod // pods that were read
	byUID   map[types.UID]*corev1.Pod
	changed atomic.Bool // pods and byUID are outdated
}

// Pod is a pod with its declarations.
type Pod struct {
	*corev1.Pod
	// Budgets are the memory budgets.
	Budgets []gpushare.Budget
	compute compute
}

// NewReader returns a reader that has not started.
func NewReader(o Options) *Reader { return &Reader{options: o, pods: map[types.UID]*Pod{}} }

// Section returns a section that only starts and stops the reader. It must come after the sections
// that use the reader, because sections start in reverse order.
func (r *Reader) Section() pdatagpu.Section {
	return pdatagpu.Section{Start: r.start, Shutdown: r.shutdown}
}

// start starts watching the objects. It fails if the kubeconfig is invalid. It does not wait for
// the API server's first answer, because a failure may be temporary.
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
	r.cache.Need(r.Kinds()...) //nolint:contextcheck // the informers continue after start returns
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

// State returns the state of a kind. It is Off if the API server is not used.
func (r *Reader) State(k kube.Kind) kube.State {
	if r.cache == nil {
		return kube.State{Phase: kube.Off, Err: errors.New("the API server is not used")}
	}
	return r.cache.State(k)
}

// Claim returns a ResourceClaim. It returns false if claims are not read.
func (r *Reader) Claim(namespace, name string) (*resourcev1.ResourceClaim, bool) {
	if r.cache == nil || !r.options.Claims {
		return nil, false
	}
	return r.cache.ResourceClaim(namespace, name)
}

// Pod returns the pod of a container, or nil if it is unknown.
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
	if pod == nil || h.UID != "" && string(pod.UID) != h.UID { // another pod may have the same name
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

// read returns the declarations of the current version of a pod. The caller holds the lock.
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
