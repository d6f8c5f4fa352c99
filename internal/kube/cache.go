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

// Options selects the objects in a [Cache]. Acquire returns the same cache for equal options.
type Options struct {
	Config Config

	// NodeName limits the cache to one node: its pods, its ResourceSlices, and its Node object. If
	// NodeName is empty, the cache covers the entire cluster. Only if NodeName is set, the cache
	// keeps container statuses and owners of pods, and all labels of the node.
	NodeName string

	// Namespace limits pods, Jobs, ResourceClaims, and ResourceClaimTemplates to one namespace. If
	// it is empty, the cache covers all namespaces.
	Namespace string

	// LabelSelector limits pods, but no other kind. If it is empty, the cache covers all pods.
	LabelSelector string
}

// Cache stores API objects and reports how current they are. All methods are safe for concurrent
// use. Callers must not modify the returned objects, which are shared.
type Cache struct {
	options   Options
	client    kubernetes.Interface // nil if the cache is Off
	offReason error                // why the cache is Off; nil if the configuration disables it
	logger    *zap.Logger

	ctx     context.Context // context of the informers
	cancel  context.CancelFunc
	running sync.WaitGroup

	kinds [numKinds]*collection // nil if the cache is Off

	users int // guarded by caches.mu
}

// caches contains the caches that Acquire returned and that are still in use.
var caches = struct {
	mu sync.Mutex
	m  map[Options]*Cache
}{m: map[Options]*Cache{}}

// Acquire returns the cache for the options. Callers with equal options share a cache. set is used
// only for the first of these callers. Acquire does not open a connection. It returns an error if a
// kubeconfig cannot be used. If there is no service account, the cache is Off. Call Release once
// after each successful call.
func Acquire(o Options, set component.TelemetrySettings) (*Cache, error) {
	caches.mu.Lock()
	defer caches.mu.Unlock()
	if c := caches.m[o]; c != nil {
		c.users++
		return c, nil
	}
	config, offReason, err := o.Config.restConfig()
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
	if c.offReason = offReason; offReason != nil && !configInUse(o.Config) {
		c.logger.Info("The Kubernetes API server is not used", zap.Error(offReason))
	}
	caches.m[o] = c
	return c, nil
}

// configInUse reports whether a cache with this configuration exists. If so, the messages about the
// configuration have already been logged. The caller must hold caches.mu.
func configInUse(config Config) bool {
	for o := range caches.m {
		if o.Config == config {
			return true
		}
	}
	return false
}

// NewCache returns a cache with its own client. If the client is nil, the cache is Off.
func NewCache(client kubernetes.Interface, o Options, set component.TelemetrySettings) *Cache {
	logger := set.Logger
	if o.LabelSelector != "" {
		logger = logger.With(zap.String("label_selector", o.LabelSelector))
	}
	c := &Cache{options: o, client: client, logger: logger, users: 1}
	// This package logs each change of state once. client-go would log each attempt.
	c.ctx, c.cancel = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	if client != nil {
		for k := range numKinds {
			c.kinds[k] = newCollection(c, k)
		}
	}
	return c
}

// Release ends one use of the cache. When the last user releases the cache, Release stops the
// informers and waits for them. All subscriptions must have ended.
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

// Need starts fetching the kinds unless they are already being fetched. It returns immediately.
func (c *Cache) Need(kinds ...Kind) {
	for _, k := range kinds {
		if col := c.kinds[k]; col != nil {
			col.start()
		}
	}
}

// WaitSynced waits until each kind is settled (see [State.Settled]). If ctx is done first, the
// error contains the kinds that are not settled, and the reasons.
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
	return State{Phase: Off, Err: c.offReason}
}

// Subscribe calls f in a separate goroutine whenever objects of the kind or its state have changed.
// All changes during a call or shortly after it together result in one more call. unsubscribe waits
// until f has returned, so f must not call unsubscribe.
func (c *Cache) Subscribe(k Kind, f func()) (unsubscribe func()) {
	if col := c.kinds[k]; col != nil {
		return col.changes.Subscribe(f)
	}
	return func() {}
}

// SubscribeObjects passes all objects of the kind to the handler, followed by every change, in
// order. unsubscribe waits until the handler has returned, so the handler must not call
// unsubscribe.
func (c *Cache) SubscribeObjects(k Kind, handler cache.ResourceEventHandler) (unsubscribe func()) {
	col := c.kinds[k]
	if col == nil {
		return func() {}
	}
	registration, err := col.informer.AddEventHandler(handler)
	if err != nil { // the cache has been released
		return func() {}
	}
	return sync.OnceFunc(func() { _ = cache.ShutDownEventHandler(col.informer, registration) })
}

// Len returns the number of objects of a kind.
func (c *Cache) Len(k Kind) int {
	if col := c.kinds[k]; col != nil {
		return len(col.informer.GetStore().ListKeys())
	}
	return 0
}

// Pods returns all pods in the cache.
func (c *Cache) Pods() []*corev1.Pod { return listObjects[*corev1.Pod](c, Pods) }

// Pod returns one pod.
func (c *Cache) Pod(namespace, name string) (*corev1.Pod, bool) {
	return getObject[*corev1.Pod](c, Pods, namespace+"/"+name)
}

// Nodes returns all nodes in the cache.
func (c *Cache) Nodes() []*corev1.Node { return listObjects[*corev1.Node](c, Nodes) }

// Node returns one node.
func (c *Cache) Node(name string) (*corev1.Node, bool) {
	return getObject[*corev1.Node](c, Nodes, name)
}

// ResourceSlices returns all ResourceSlices in the cache.
func (c *Cache) ResourceSlices() []*resourcev1.ResourceSlice {
	return listObjects[*resourcev1.ResourceSlice](c, ResourceSlices)
}

// ResourceClaims returns all ResourceClaims in the cache.
func (c *Cache) ResourceClaims() []*resourcev1.ResourceClaim {
	return listObjects[*resourcev1.ResourceClaim](c, ResourceClaims)
}

// ResourceClaim returns one ResourceClaim.
func (c *Cache) ResourceClaim(namespace, name string) (*resourcev1.ResourceClaim, bool) {
	return getObject[*resourcev1.ResourceClaim](c, ResourceClaims, namespace+"/"+name)
}

// Job returns one Job.
func (c *Cache) Job(namespace, name string) (*batchv1.Job, bool) {
	return getObject[*batchv1.Job](c, Jobs, namespace+"/"+name)
}

// Client returns the client for the API server. It is used for leader election and events. It is
// nil if the cache is Off.
func (c *Cache) Client() kubernetes.Interface { return c.client }

func listObjects[T any](c *Cache, k Kind) []T {
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

// getObject returns the object with the given key. The key is namespace/name, or name for
// cluster-scoped objects.
func getObject[T any](c *Cache, k Kind, key string) (T, bool) {
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
