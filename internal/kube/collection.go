package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
)

// collection has the objects of one kind, and whether they are current.
//
// The reflector in the informer retries by itself, after less than a second at
// first and at most a minute apart; each of its attempts comes through here.
type collection struct {
	cache    *Cache
	kind     Kind
	source   source
	informer cache.SharedIndexInformer
	once     sync.Once
	changes  base.Notices

	mu      sync.Mutex
	started bool
	err     error // of the last attempt to list or watch; nil while a watch stands
	state   State
}

func newCollection(c *Cache, k Kind) *collection {
	col := &collection{cache: c, kind: k, source: newSource(c.client, c.options, k)}
	lw := &cache.ListWatch{ListWithContextFunc: col.list, WatchFuncWithContext: col.watch}
	col.informer = cache.NewSharedIndexInformerWithOptions(
		cache.ToListWatcherWithWatchListSemantics(lw, c.client), col.source.example, cache.SharedIndexInformerOptions{})
	// These fail only on an informer that was started.
	_ = col.informer.SetTransform(transform(c.options))
	_ = col.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) { // it lists anew at once
			col.attempted(err)
		}
	})
	_, _ = col.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { col.changes.Give() },
		UpdateFunc: func(any, any) { col.changes.Give() },
		DeleteFunc: func(any) { col.changes.Give() },
	})
	return col
}

func (col *collection) start() {
	col.once.Do(func() {
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
	if err != nil && !retriedAtOnce(err) {
		col.attempted(err)
	}
	// Only the watch that follows makes this a success: without it nothing is current.
	return objects, err
}

func (col *collection) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := col.source.watch(ctx, options)
	// An older server refuses to send the initial objects through a watch; they
	// are listed then.
	refused := options.SendInitialEvents != nil && apierrors.IsInvalid(err)
	if !refused && !retriedAtOnce(err) {
		col.attempted(err)
	}
	return w, err
}

// retriedAtOnce says that an error only means that a resource version is too old
// or too new for the server.
func retriedAtOnce(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.IsTimeout(err)
}

// attempted notes how an attempt to list or watch ended.
func (col *collection) attempted(err error) {
	if errors.Is(err, context.Canceled) { // the cache is being released
		return
	}
	col.mu.Lock()
	col.err = err
	col.mu.Unlock()
	col.update()
}

// update determines the state again. It logs a change and notifies subscribers.
func (col *collection) update() {
	col.mu.Lock()
	defer col.mu.Unlock()
	if !col.started {
		return
	}
	if col.state.become(phaseOf(col.state.Phase, col.err, col.informer.HasSynced()), col.err, time.Now()) {
		col.log()
		col.changes.Give()
	}
}

// phaseOf returns the phase after an attempt. An attempt that got no answer, as
// while the server is away, changes nothing about what the server refused before.
func phaseOf(before Phase, err error, synced bool) Phase {
	switch {
	case errors.Is(err, errNotServed):
		return Absent
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return Forbidden
	case err != nil && (before == Forbidden || before == Absent):
		return before
	case err != nil && synced:
		return Stale
	case synced:
		return Synced
	default:
		return Syncing
	}
}

// log says the state; mu is held.
func (col *collection) log() {
	logger := col.cache.logger.With(zap.Stringer("kind", col.kind), zap.Stringer("state", col.state.Phase))
	switch {
	case col.state.Err == nil && col.state.Phase == Synced:
		logger.Info("Kubernetes objects are current")
	case col.state.Err == nil: // the first moments
	case col.state.Phase == Absent:
		logger.Info("The API server does not serve these objects", zap.Error(col.state.Err))
	default:
		logger.Warn("Kubernetes objects cannot be read", zap.Error(col.state.Err))
	}
}
