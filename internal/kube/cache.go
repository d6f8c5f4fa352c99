package kube

import (
	"context"
	"fmt"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.uber.org/zap"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Options say what a [Cache] holds. Acquire with equal options gives the same
// cache.
type Options struct {
	Config Config

	// NodeName restricts pods to those bound to the node, resource slices to
	// those of the node and nodes to the node itself; empty: the whole cluster.
	// The containers' statuses and the owners of pods, and all labels of the node, are kept only
	// when it is set.
	NodeName string

	// Namespace restricts pods, jobs, claims and claim templates; empty: all.
	Namespace string

	// LabelSelector restricts pods; empty: all. Other kinds ignore it.
	LabelSelector string
}

// Cache holds API objects, current as far as its states say. All methods are
// safe for concurrent use; objects that it returns are shared and must not be
// changed.
type Cache struct {
	options Options
	client  kubernetes.Interface // nil: off
	off     error                // why, when the configuration does not say it
	logger  *zap.Logger

	ctx     context.Context // of the informers
	cancel  context.CancelFunc
	running sync.WaitGroup

	kinds [kinds]*collection // nil when off

	users int // guarded by caches.mu
}

// caches are those that Acquire gave out.
var caches = struct {
	mu sync.Mutex
	m  map[Options]*Cache
}{m: map[Options]*Cache{}}

// Acquire returns the cache for the options, which it shares with everyone who
// asked for the same; set is the first one's. It opens no connection. It fails
// when a kubeconfig cannot be used; a missing service account gives a cache that
// is Off. Every success needs one Release.
func Acquire(o Options, set component.TelemetrySettings) (*Cache, error) {
	caches.mu.Lock()
	defer caches.mu.Unlock()
	if c := caches.m[o]; c != nil {
		c.users++
		return c, nil
	}
	config, off, err := o.Config.restConfig()
	if err != nil {
		return nil, err
	}
	var client kubernetes.Interface
	if config != nil {
		if client, err = kubernetes.NewForConfig(config); err != nil {
			return nil, err
		}
	}
	c := NewCache(client, o, set)
	if c.off = off; off != nil && !configInUse(o.Config) {
		c.logger.Info("The Kubernetes API server is not used", zap.Error(off))
	}
	caches.m[o] = c
	return c, nil
}

// configInUse says that there is a cache with this configuration, whose messages were logged
// already. caches.mu is held.
func configInUse(config Config) bool {
	for o := range caches.m {
		if o.Config == config {
			return true
		}
	}
	return false
}

// NewCache returns a cache with a client of its own. A nil client gives a cache that is Off.
func NewCache(client kubernetes.Interface, o Options, set component.TelemetrySettings) *Cache {
	logger := set.Logger
	if o.LabelSelector != "" {
		logger = logger.With(zap.String("label_selector", o.LabelSelector))
	}
	c := &Cache{options: o, client: client, logger: logger, users: 1}
	// State changes are logged here, once; client-go would log each attempt.
	c.ctx, c.cancel = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	if client != nil {
		for k := range kinds {
			c.kinds[k] = newCollection(c, k)
		}
	}
	return c
}

// Release gives the cache back. The last one stops the informers and waits for
// them. Subscriptions must have ended before.
func (c *Cache) Release() {
	caches.mu.Lock()
	c.users--
	last := c.users == 0
	if last && caches.m[c.options] == c {
		delete(caches.m, c.options)
	}
	caches.mu.Unlock()
	if last {
		c.cancel()
		c.running.Wait()
	}
}

// Need starts to fetch the kinds, if not yet done, and returns at once.
func (c *Cache) Need(kinds ...Kind) {
	for _, k := range kinds {
		if col := c.kinds[k]; col != nil {
			col.start()
		}
	}
}

// WaitSynced waits until the state of each kind is settled: that is also Stale,
// Forbidden, Absent or Off. When ctx ends before, the error says for which kinds
// and why.
func (c *Cache) WaitSynced(ctx context.Context, kinds ...Kind) error {
	for _, k := range kinds {
		subscribe := func(f func()) func() { return c.Subscribe(k, f) }
		if err := waitSettled(ctx, subscribe, func() State { return c.State(k) }); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// State returns the state of a kind.
func (c *Cache) State(k Kind) State {
	if col := c.kinds[k]; col != nil {
		col.mu.Lock()
		defer col.mu.Unlock()
		return col.state
	}
	return State{Phase: Off, Err: c.off}
}

// Subscribe calls f, in a goroutine of its own, after objects of the kind or its
// state have changed: once for any number of changes while f runs or shortly
// after it ran. Unsubscribe waits until f has returned; f must not call it.
func (c *Cache) Subscribe(k Kind, f func()) (unsubscribe func()) {
	if col := c.kinds[k]; col != nil {
		return col.changes.Subscribe(f)
	}
	return func() {}
}

// SubscribeObjects hands every object of the kind, the present ones first, and
// every later change to the handler, in order. Unsubscribe waits until the
// handler has returned; the handler must not call it.
func (c *Cache) SubscribeObjects(k Kind, handler cache.ResourceEventHandler) (unsubscribe func()) {
	col := c.kinds[k]
	if col == nil {
		return func() {}
	}
	registration, err := col.informer.AddEventHandler(handler)
	if err != nil { // the cache was released
		return func() {}
	}
	return sync.OnceFunc(func() { _ = cache.ShutDownEventHandler(col.informer, registration) })
}

// Len returns how many objects of a kind are in the cache.
func (c *Cache) Len(k Kind) int {
	if col := c.kinds[k]; col != nil {
		return len(col.informer.GetStore().ListKeys())
	}
	return 0
}

// Pods returns all pods in the cache.
func (c *Cache) Pods() []*corev1.Pod { return list[*corev1.Pod](c, Pods) }

// Pod returns one pod.
func (c *Cache) Pod(namespace, name string) (*corev1.Pod, bool) {
	return get[*corev1.Pod](c, Pods, namespace+"/"+name)
}

// Nodes returns all nodes in the cache.
func (c *Cache) Nodes() []*corev1.Node { return list[*corev1.Node](c, Nodes) }

// Node returns one node.
func (c *Cache) Node(name string) (*corev1.Node, bool) { return get[*corev1.Node](c, Nodes, name) }

// ResourceSlices returns all resource slices in the cache.
func (c *Cache) ResourceSlices() []*resourcev1.ResourceSlice {
	return list[*resourcev1.ResourceSlice](c, ResourceSlices)
}

// ResourceClaims returns all resource claims in the cache.
func (c *Cache) ResourceClaims() []*resourcev1.ResourceClaim {
	return list[*resourcev1.ResourceClaim](c, ResourceClaims)
}

// ResourceClaim returns one resource claim.
func (c *Cache) ResourceClaim(namespace, name string) (*resourcev1.ResourceClaim, bool) {
	return get[*resourcev1.ResourceClaim](c, ResourceClaims, namespace+"/"+name)
}

// Job returns one job.
func (c *Cache) Job(namespace, name string) (*batchv1.Job, bool) {
	return get[*batchv1.Job](c, Jobs, namespace+"/"+name)
}

// Client returns the client of the API server, for leader election and events;
// nil when the cache is Off.
func (c *Cache) Client() kubernetes.Interface { return c.client }

// list returns all objects of a kind, in no order.
func list[T any](c *Cache, k Kind) []T {
	col := c.kinds[k]
	if col == nil {
		return nil
	}
	objects := col.informer.GetStore().List()
	typed := make([]T, 0, len(objects))
	for _, object := range objects {
		if t, ok := object.(T); ok {
			typed = append(typed, t)
		}
	}
	return typed
}

// get returns the object with a key, namespace/name or name.
func get[T any](c *Cache, k Kind, key string) (T, bool) {
	var none T
	col := c.kinds[k]
	if col == nil {
		return none, false
	}
	object, exists, err := col.informer.GetStore().GetByKey(key)
	if err != nil || !exists {
		return none, false
	}
	typed, ok := object.(T)
	return typed, ok
}
