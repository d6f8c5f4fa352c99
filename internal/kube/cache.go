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

// Options specifies which objects a [Cache] contains. Acquire returns the same cache for equal
// options.
type Options struct {
	Config Config

	// NodeName limits the cache to the pods on one node, the node's ResourceSlices, and the Node
	// object. If NodeName is empty, the cache covers the entire cluster. If NodeName is set, the
	// cache also keeps the container IDs and owners of pods, and all labels of nodes.
	NodeName string

	// Namespace limits pods, Jobs, ResourceClaims, and ResourceClaimTemplates to one namespace. If
	// Namespace is empty, the cache covers all namespaces.
	Namespace string

	// LabelSelector limits the cache to pods that match the selector. LabelSelector does not affect
	// other kinds of objects. If LabelSelector is empty, the cache covers all pods.
	LabelSelector string
}

// Cache stores API objects and reports whether they are up to date. All methods are safe for
// concurrent use. Callers must not modify the returned objects, because they are shared.
type Cache struct {
	options   Options
	client    kubernetes.Interface // Nil if the cache is Off.
	offReason error                // Why the cache is Off, or nil if the configuration disables the API server.
	logger    *zap.Logger

	ctx     context.Context // context of the informers
	cancel  context.CancelFunc
	running sync.WaitGroup

	kinds [numKinds]*collection // Nil if the cache is Off.

	users int // guarded by caches.mu
}

// caches contains the caches that Acquire has returned and that have not been released by all
// users.
var caches = struct {
	mu sync.Mutex
	m  map[Options]*Cache
}{m: map[Options]*Cache{}}

// Acquire returns the cache for the given options. Callers with equal options share a cache, which
// uses the telemetry settings of the first caller. Acquire does not open a connection. If a
// kubeconfig file cannot be used, Acquire returns an error. If there is no service account, the
// cache is Off. For each successful call to Acquire, the caller must call Release once.
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

// configInUse reports whether a cache with this configuration already exists. If so, messages about
// the configuration have already been logged. The caller must hold caches.mu.
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
	// Without this logger, client-go would log each failed attempt. Package kube logs each state
	// change once.
	c.ctx, c.cancel = context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	if client != nil {
		for k := range numKinds {
			c.kinds[k] = newCollection(c, k)
		}
	}
	return c
}

// Release indicates that a caller of Acquire no longer uses the cache. When the last caller
// releases the cache, Release stops the informers and waits until they have stopped. Callers must
// end all subscriptions before they call Release.
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

// Need starts to fetch the objects of the given kinds, unless the cache is already fetching them.
// Need returns immediately.
func (c *Cache) Need(kinds ...Kind) {
	for _, k := range kinds {
		if col := c.kinds[k]; col != nil {
			col.start()
		}
	}
}

// WaitSynced waits until all given kinds are settled (see [State.Settled]). If ctx is done before
// all kinds are settled, the error names a kind that is not settled and states the reason.
func (c *Cache) WaitSynced(ctx context.Context, kinds ...Kind) error {
	for _, k := range kinds {
		subscribe := func(f func()) func() { return c.Subscribe(k, f) }
		if err := waitSettled(ctx, subscribe, func() State { return c.State(k) }); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	return nil
}

// State returns the state of the objects of a kind.
func (c *Cache) State(k Kind) State {
	if col := c.kinds[k]; col != nil {
		col.mu.Lock()
		defer col.mu.Unlock()
		return col.state
	}
	return State{Phase: Off, Err: c.offReason}
}

// Subscribe starts a goroutine that calls f whenever objects of the kind or the state of the kind
// change. If several changes occur during a call to f or shortly after it, f is called only once
// more for all of them. The returned unsubscribe function waits until f has returned, so f must not
// call unsubscribe.
func (c *Cache) Subscribe(k Kind, f func()) (unsubscribe func()) {
	if col := c.kinds[k]; col != nil {
		return col.changes.Subscribe(f)
	}
	return func() {}
}

// SubscribeObjects first passes all existing objects of the kind to the handler, and then passes
// every change, in order. The returned unsubscribe function waits until the handler has returned,
// so the handler must not call unsubscribe.
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

// Client returns the client for the API server, which components use for leader election and
// events. If the cache is Off, the client is nil.
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

// getObject returns the object with the given key. The key is <namespace>/<name>, or only the name
// if the object is cluster-scoped.
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
