package gpuclusterreceiver

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/gpuclusterreceiver/internal/demand"
)

// The kinds slice lists the kinds of Kubernetes objects that the receiver reads.
var kinds = []kube.Kind{
	kube.Pods, kube.Nodes, kube.ResourceSlices, kube.ResourceClaims, kube.DeviceClasses, kube.ResourceClaimTemplates,
	kube.DeviceTaintRules,
}

// The store type keeps a demand.Cluster in sync with the objects in the cache.
type store struct {
	families   gpushare.Families
	conditions *regexp.Regexp // Matches the condition types to emit.
	changed    func()         // Called after every change.
	logger     *zap.Logger
	dropped    atomic.Int64            // The number of dropped device attributes and dropped device IDs.
	tooLong    componenthelper.Trouble // Limits how often dropped attributes are logged.

	mu      sync.Mutex
	cluster *demand.Cluster
	// The stored map contains the number of existing objects of each kind that have reached the
	// store, including objects that the cluster ignores.
	stored map[kube.Kind]int

	completeKinds map[kube.Kind]bool // also guarded by mu
}

func newStore(cfg *Config, changed func(), logger *zap.Logger) (*store, error) {
	families, err := cfg.families()
	if err != nil {
		return nil, err
	}
	conditions, err := compileConditions(cfg.NodeConditions)
	if err != nil {
		return nil, err
	}
	return &store{
		families:      families,
		conditions:    conditions,
		changed:       changed,
		logger:        logger,
		cluster:       demand.New(cfg.demandOptions(families)),
		stored:        map[kube.Kind]int{},
		completeKinds: map[kube.Kind]bool{},
	}, nil
}

// subscribe makes the store follow changes in the cache until the returned function is called.
func (s *store) subscribe(c *kube.Cache) (unsubscribe func()) {
	ends := []func(){
		c.SubscribeObjects(kube.Pods, handle(s, kube.Pods, func(p *corev1.Pod) func() {
			pod := convertPod(p, s.families)
			s.dropped.Add(pod.HealthDropped)
			return func() { s.cluster.SetPod(pod) }
		}, s.cluster.DeletePod)),
		c.SubscribeObjects(kube.Nodes, handle(s, kube.Nodes, func(n *corev1.Node) func() {
			node := convertNode(n, s.conditions)
			return func() { s.cluster.SetNode(node) }
		}, clusterScoped(s.cluster.DeleteNode))),
		c.SubscribeObjects(kube.ResourceSlices, handle(s, kube.ResourceSlices, func(o *resourcev1.ResourceSlice) func() {
			slice, dropped := convertSlice(o)
			s.recordDropped(slice, dropped)
			return func() { s.cluster.SetSlice(slice) }
		}, clusterScoped(s.cluster.DeleteSlice))),
		c.SubscribeObjects(kube.ResourceClaims, handle(s, kube.ResourceClaims, unconverted(s.cluster.SetClaim), s.cluster.DeleteClaim)),
		c.SubscribeObjects(kube.DeviceClasses, handle(s, kube.DeviceClasses, unconverted(s.cluster.SetClass), clusterScoped(s.cluster.DeleteClass))),
		c.SubscribeObjects(kube.ResourceClaimTemplates, handle(s, kube.ResourceClaimTemplates, unconverted(s.cluster.SetTemplate), s.cluster.DeleteTemplate)),
		c.SubscribeObjects(kube.DeviceTaintRules, handle(s, kube.DeviceTaintRules, unconverted(s.cluster.SetTaintRule), clusterScoped(s.cluster.DeleteTaintRule))),
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// recordDropped counts the attributes that were dropped from the devices of a slice, and logs them
// unless dropped attributes have been logged recently.
func (s *store) recordDropped(slice *demand.Slice, attributes []string) {
	s.dropped.Add(int64(len(attributes)))
	if len(attributes) == 0 || !s.tooLong.ShouldLog(time.Now()) {
		return
	}
	slices.Sort(attributes)
	s.logger.Warn(fmt.Sprintf("Attributes of advertised devices are dropped from k8s.resourceslice.device: their values are longer than %d bytes, "+
		"or they would describe the device (such as its uuid) but have several values. Further ones are only counted.", maxValue),
		zap.String("k8s.resourceslice.name", slice.Name), zap.String("dra.driver", slice.Spec.Driver), zap.Strings("attributes", slices.Compact(attributes)))
}

// The unconverted function returns a function that stores objects of type T without converting
// them.
func unconverted[T any](set func(T)) func(T) func() {
	return func(object T) func() { return func() { set(object) } }
}

func clusterScoped(remove func(name string)) func(namespace, name string) {
	return func(_, name string) { remove(name) }
}

// The handle function returns the event handler for the objects of one kind. The handler calls the
// convert function without holding the lock. The handler holds the lock while it calls the remove
// function, or the function that convert returned.
func handle[T any](s *store, k kube.Kind, convert func(T) func(), remove func(namespace, name string)) cache.ResourceEventHandler {
	set := func(object any, delta int) {
		typed, ok := object.(T)
		if !ok {
			return
		}
		apply := convert(typed)
		s.mu.Lock()
		apply()
		s.stored[k] += delta
		s.mu.Unlock()
		s.changed()
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { set(object, 1) },
		UpdateFunc: func(_, object any) { set(object, 0) },
		DeleteFunc: func(object any) {
			name, err := cache.DeletionHandlingObjectToName(object)
			if err != nil {
				return
			}
			s.mu.Lock()
			remove(name.Namespace, name.Name)
			s.stored[k]--
			s.mu.Unlock()
			s.changed()
		},
	}
}

// isComplete reports whether all objects from the initial list of the kind have reached the store.
// The n function returns the number of objects in the cache. The last objects may reach the store
// shortly after the cache is complete.
func (s *store) isComplete(k kube.Kind, n func() int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.completeKinds[k] {
		s.completeKinds[k] = s.stored[k] >= n()
	}
	return s.completeKinds[k]
}

// The points method appends the points for the observed kinds to the out slice.
func (s *store) points(now time.Time, seen demand.Observed, out []demand.Point) ([]demand.Point, demand.Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster.Points(now, seen, out)
}
