package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// collection contains the objects of one kind and the state of the kind.
//
// The informer's reflector calls the list and watch methods. If an attempt fails, the reflector
// retries after a delay, which increases from less than a second to up to a minute.
type collection struct {
	cache     *Cache
	kind      Kind
	source    source
	informer  cache.SharedIndexInformer
	startOnce sync.Once
	changes   componenthelper.Notices

	mu      sync.Mutex
	started bool
	err     error // error of the last attempt to list or watch; nil while a watch is open
	state   State
}

func newCollection(c *Cache, k Kind) *collection {
	col := &collection{cache: c, kind: k, source: newSource(c.client, c.options, k)}
	lw := &cache.ListWatch{ListWithContextFunc: col.list, WatchFuncWithContext: col.watch}
	col.informer = cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lw, c.client), col.source.example, cache.SharedIndexInformerOptions{})
	// Before the informer has been started, SetTransform and the following calls cannot fail.
	_ = col.informer.SetTransform(transform(c.options))
	_ = col.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) { // the reflector immediately lists the objects again
			col.recordAttempt(err)
		}
	})
	_, _ = col.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { col.changes.Notify() },
		UpdateFunc: func(any, any) { col.changes.Notify() },
		DeleteFunc: func(any) { col.changes.Notify() },
	})
	return col
}

func (col *collection) start() {
	col.startOnce.Do(func() {
		col.mu.Lock()
		col.started = true
		col.mu.Unlock()
		col.update()
		ctx := col.cache.ctx
		col.cache.running.Go(func() { col.informer.RunWithContext(ctx) })
		col.cache.running.Go(func() {
			select {
			case <-col.informer.HasSyncedChecker().Done():
				col.update()
			case <-ctx.Done():
			}
		})
	})
}

func (col *collection) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	objects, err := col.source.list(ctx, options)
	if err != nil && !isRetriedImmediately(err) {
		col.recordAttempt(err)
	}
	// A successful list request does not count as a successful attempt, because the objects are up
	// to date only when the watch is open.
	return objects, err
}

func (col *collection) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := col.source.watch(ctx, options)
	// Older API servers cannot send the initial objects through a watch. If the server rejects a
	// watch with initial objects, the reflector lists the objects instead.
	refused := options.SendInitialEvents != nil && apierrors.IsInvalid(err)
	if !refused && !isRetriedImmediately(err) {
		col.recordAttempt(err)
	}
	if err != nil {
		return nil, err
	}
	failed := func(err error) {
		if ctx.Err() == nil {
			col.recordAttempt(err)
		}
	}
	return watch.NewStreamWatcher(recorder{w, failed},
		apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "Recording")), nil
}

// recorder reads the events of a watch and calls failed for events that report an error. After a
// restart, for example, an API server can open a watch and send only the error that the resource
// version is too old. After an error inside a watch, the reflector waits before it lists the objects
// again, so the objects may be outdated.
type recorder struct {
	from   watch.Interface
	failed func(error)
}

// Decode implements [watch.Decoder].
func (r recorder) Decode() (watch.EventType, runtime.Object, error) {
	e, open := <-r.from.ResultChan()
	if !open {
		return "", nil, io.EOF
	}
	if e.Type == watch.Error {
		r.failed(apierrors.FromObject(e.Object))
	}
	return e.Type, e.Object, nil
}

// Close implements [watch.Decoder].
func (r recorder) Close() { r.from.Stop() }

// isRetriedImmediately reports whether the error means only that the resource version is too old or
// too new for the server, in which case the reflector retries immediately.
func isRetriedImmediately(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err)
}

// recordAttempt records the result of an attempt to list or watch.
func (col *collection) recordAttempt(err error) {
	if errors.Is(err, context.Canceled) { // the cache is being released, so this is not a failure
		return
	}
	col.mu.Lock()
	col.err = err
	col.mu.Unlock()
	col.update()
}

// update computes the state of the kind. If the state has changed, update logs the new state and
// notifies subscribers.
func (col *collection) update() {
	col.mu.Lock()
	defer col.mu.Unlock()
	if !col.started {
		return
	}
	if col.state.update(nextPhase(col.state.Phase, col.err, col.informer.HasSynced()), col.err, time.Now()) {
		col.log()
		col.changes.Notify()
	}
}

// nextPhase returns the phase after an attempt. While the server does not respond, the Forbidden
// and Absent phases persist.
func nextPhase(previous Phase, err error, synced bool) Phase {
	switch {
	case errors.Is(err, errNotServed):
		return Absent
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return Forbidden
	case err != nil && (previous == Forbidden || previous == Absent):
		return previous
	case err != nil && synced:
		return Stale
	case synced:
		return Synced
	default:
		return Syncing
	}
}

// log logs the state. The caller must hold mu.
func (col *collection) log() {
	logger := col.cache.logger.With(zap.Stringer("kind", col.kind), zap.Stringer("state", col.state.Phase))
	switch {
	case col.state.Err == nil && col.state.Phase == Synced:
		logger.Info("Kubernetes objects are current")
	case col.state.Err == nil: // the first attempt is still in progress
	case col.state.Phase == Absent:
		logger.Info("The API server does not serve these objects", zap.Error(col.state.Err))
	default:
		logger.Warn("Kubernetes objects cannot be read", zap.Error(col.state.Err))
	}
}
