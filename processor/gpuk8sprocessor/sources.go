package gpuk8sprocessor

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// sources reads data from the kubelet and the API server, and updates a Tracker with the data.
type sources struct {
	cfg     *Config
	set     component.TelemetrySettings
	tracker *attribution.Tracker

	kubelet *kube.PodResources // kubelet is nil if the kubelet is not read.
	cache   *kube.Cache        // cache is nil if the API server is not read.
	kinds   []kube.Kind

	mu           sync.Mutex // The update method locks mu.
	host         component.Host
	reportedLost string // reportedLost contains the sources that the last component status reported as lost.
	// logged contains the resources for which a device ID with an unknown format was logged.
	logged map[string]bool
	doubts doubts

	maxStartWait time.Duration // maxStartWait is the maximum time that start waits for the first responses from the sources.

	unsubscribe []func()
	stop        context.CancelFunc // stop ends the periodic calls to update.
	refreshing  sync.WaitGroup
}

func newSources(cfg *Config, set component.TelemetrySettings, tracker *attribution.Tracker) *sources {
	return &sources{cfg: cfg, set: set, tracker: tracker, maxStartWait: waitForSources, logged: map[string]bool{}}
}

// maxLoggedResources is the maximum number of resources in sources.logged. A node usually has about
// ten resources.
const maxLoggedResources = 100

// open creates the clients but does not send any requests. If the kubeconfig cannot be used, open
// returns an error.
func (s *sources) open() error {
	if s.cfg.NodeName == "" {
		if s.cfg.Sources.PodResources.Enabled || s.cfg.Sources.DRA.Enabled {
			s.set.Logger.Info("node_name and " + componenthelper.NodeNameEnv + " are not set, so no device is treated as a device of this node: " +
				"holders are found only in labels and processes.")
		}
		return nil
	}
	if s.cfg.Kubernetes.AuthType != kube.AuthNone {
		cache, err := kube.Acquire(kube.Options{Config: s.cfg.Kubernetes, NodeName: s.cfg.NodeName}, s.set)
		if err != nil {
			return err
		}
		s.cache = cache
		s.kinds = kindsOf(s.cfg)
	}
	if s.cfg.Sources.PodResources.Enabled {
		s.kubelet = kube.NewPodResources(s.cfg.Sources.PodResources, s.set.Logger)
	}
	return nil
}

// kindsOf returns the kinds of API objects that are read with the given configuration.
func kindsOf(cfg *Config) []kube.Kind {
	kinds := []kube.Kind{kube.Pods, kube.Nodes}
	if cfg.Sources.DRA.Enabled {
		kinds = append(kinds, kube.ResourceSlices)
	}
	if cfg.Claims {
		kinds = append(kinds, kube.ResourceClaims)
	}
	if cfg.Jobs {
		kinds = append(kinds, kube.Jobs)
	}
	return kinds
}

// start opens the clients and starts reading the sources. If the kubeconfig cannot be used, start
// returns an error. If a source does not respond, start does not return an error, because the
// source can respond later.
func (s *sources) start(ctx context.Context, host component.Host) error {
	if err := s.open(); err != nil {
		return err
	}
	s.run(ctx, host)
	return nil
}

// run starts reading the sources. Before updating the tracker, run waits up to maxStartWait for the
// first responses from the sources.
func (s *sources) run(ctx context.Context, host component.Host) {
	s.host = host
	if s.cache != nil {
		s.cache.Need(s.kinds...) //nolint:contextcheck // The informers keep running after start returns.
	}
	if s.kubelet != nil {
		s.kubelet.Start()
	}
	// Wait for the first responses from the sources before updating the tracker. The tracker's
	// first state also applies to earlier samples that arrive late, so the first state should be
	// complete.
	s.wait(ctx)
	changed := func() { s.update(time.Now()) }
	if s.cache != nil {
		for _, k := range s.kinds {
			s.unsubscribe = append(s.unsubscribe, s.cache.Subscribe(k, changed))
		}
	}
	if s.kubelet != nil {
		s.unsubscribe = append(s.unsubscribe, s.kubelet.Subscribe(changed))
		var running context.Context
		running, s.stop = context.WithCancel(context.WithoutCancel(ctx)) // Ignore the cancellation of ctx, which is canceled when start returns.
		// Call update even if the kubelet's response has not changed, because a pod may have been
		// replaced by a new pod with the same name.
		s.refreshing.Go(func() { componenthelper.EveryTick(running, s.cfg.Sources.PodResources.Interval, s.update) })
	}
	changed()
}

// wait waits up to maxStartWait for the first responses from the sources.
func (s *sources) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.maxStartWait)
	defer cancel()
	if s.cache != nil {
		if err := s.cache.WaitSynced(ctx, s.kinds...); err != nil {
			s.set.Logger.Info("The API server has not answered yet.", zap.Error(err))
		}
	}
	if s.kubelet != nil && s.kubelet.WaitSettled(ctx) != nil {
		s.set.Logger.Info("The kubelet has not answered yet.")
	}
}

// shutdown stops reading the sources. Calling shutdown without start, or more than once, is
// allowed.
func (s *sources) shutdown() {
	for _, f := range s.unsubscribe {
		f()
	}
	s.unsubscribe = nil
	if s.stop != nil {
		s.stop()
		s.refreshing.Wait()
	}
	if s.kubelet != nil {
		s.kubelet.Shutdown()
	}
	if s.cache != nil {
		s.cache.Release()
		s.cache = nil
	}
}

// update passes the newest data from all sources to the tracker.
func (s *sources) update(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lost, err := s.lostSources() // Read the state before the data, so that the data is not older than the state.
	var a attribution.Sources
	if s.kubelet != nil {
		resources, at, state := s.kubelet.Snapshot()
		if a.Listing.State = usablePhase(state); a.Listing.State != kube.Off {
			a.Listing.Time = at.UnixNano()
			a.Listing.Containers = readContainers(resources, s.cfg)
		}
	}
	if s.cache != nil {
		s.readCache(&a)
	}
	s.tracker.Update(now, a)
	s.logUnknownIDs()
	stats := s.tracker.Stats()
	s.doubts.log(s.set.Logger, now, &stats)
	s.reportStatus(lost, err)
}

// logUnknownIDs logs each resource whose device IDs have an unknown format. Each resource is logged
// only once. The caller holds mu.
func (s *sources) logUnknownIDs() {
	for resource, id := range s.tracker.Stats().UnknownIDs {
		if s.logged[resource] || len(s.logged) >= maxLoggedResources {
			continue
		}
		s.logged[resource] = true
		s.set.Logger.Warn("The kubelet lists a device ID in an unknown form, which may identify any GPU. While a container has this ID, "+
			"no GPU of the node is reported as a GPU without a holder. If the resource is not a GPU, add it to other_resource_names.",
			zap.String("resource", resource), zap.String("id", id))
	}
}

// usablePhase returns the phase of a source if that phase is Synced or Stale. For all other phases,
// usablePhase returns Off.
func usablePhase(state kube.State) kube.Phase {
	if state.Phase == kube.Synced || state.Phase == kube.Stale {
		return state.Phase
	}
	return kube.Off
}

// objects contains the objects that were read from the API server.
type objects struct {
	pods                                []*corev1.Pod
	node                                *corev1.Node // node is nil if the Node object is unknown.
	slices                              []*resourcev1.ResourceSlice
	claims                              []*resourcev1.ResourceClaim
	podsState, slicesState, claimsState kube.Phase
}

func (s *sources) readCache(a *attribution.Sources) {
	o := objects{
		podsState: s.cache.State(kube.Pods).Phase, slicesState: s.cache.State(kube.ResourceSlices).Phase,
		claimsState: s.cache.State(kube.ResourceClaims).Phase,
	}
	o.pods = s.cache.Pods()
	if node, ok := s.cache.Node(s.cfg.NodeName); ok {
		o.node = node
	}
	if s.cfg.Sources.DRA.Enabled {
		o.slices = s.cache.ResourceSlices()
	}
	if s.cfg.Claims {
		o.claims = s.cache.ResourceClaims()
	}
	readObjects(s.cfg, &o, s.findJob, a)
}

// readObjects copies the data in the API server's objects to the given attribution.Sources.
func readObjects(cfg *Config, o *objects, job findJob, a *attribution.Sources) {
	pods := nodePods{uids: map[types.UID]bool{}, byClaim: map[claimKey][]groupedPod{}}
	if a.PodsState = usablePhase(kube.State{Phase: o.podsState}); a.PodsState != kube.Off {
		for _, pod := range o.pods {
			pods.add(pod)
			read := readPod(pod, cfg.PodLabels, job)
			a.Pods = append(a.Pods, read)
			if !read.Ended {
				a.Instances = append(a.Instances, readInstances(pod)...)
			}
		}
	}
	pods.podsKnown = a.PodsState != kube.Off
	if o.node != nil {
		readNode(o.node, cfg.NodeLabels, a)
	}
	if cfg.Sources.DRA.Enabled {
		var complete bool
		a.Devices, complete = readSlices(o.slices, cfg.Sources.DRA.Drivers)
		a.SlicesHidden = !complete || o.slicesState == kube.Syncing || o.slicesState == kube.Forbidden
	}
	if cfg.Claims {
		a.ClaimsState = usablePhase(kube.State{Phase: o.claimsState})
		for _, claim := range o.claims {
			if claim.Status.Allocation == nil {
				continue
			}
			if reserved, others, onThisNode := pods.reservedPods(claim); onThisNode {
				a.Claims = append(a.Claims, readClaim(claim, reserved, others)...)
			}
		}
	}
}

// findJob returns the controller of a Job. The second result is false if the Job is unknown or if
// Jobs are not read.
func (s *sources) findJob(namespace, name string) (*metav1.OwnerReference, bool) {
	job, found := s.cache.Job(namespace, name)
	if !found {
		return nil, false
	}
	return metav1.GetControllerOfNoCopy(job), true
}

// each calls f for every source that is read. The last argument of f is the last time at which the
// source's data was up to date. The time is zero if the data was never up to date, or if the API
// server denies access or does not serve the kind of objects.
func (s *sources) each(now time.Time, f func(name string, state kube.State, current time.Time)) {
	if s.kubelet != nil {
		_, at, state := s.kubelet.Snapshot()
		f("pod_resources", state, at)
	}
	if s.cache == nil {
		return
	}
	for _, k := range s.kinds {
		state := s.cache.State(k)
		var current time.Time
		switch state.Phase {
		case kube.Synced:
			current = now
		case kube.Stale:
			current = state.Since
		}
		f(k.String(), state, current)
	}
}

// observeStates is the callback for the source_state self-metric.
func (s *sources) observeStates(_ context.Context, o metric.Int64Observer) error {
	s.each(time.Now(), func(name string, state kube.State, _ time.Time) {
		state.Observe(o, attribute.String("source", name))
	})
	return nil
}

// observeAges is the callback for the source_age self-metric.
func (s *sources) observeAges(_ context.Context, o metric.Float64Observer) error {
	now := time.Now()
	s.each(now, func(name string, _ kube.State, current time.Time) {
		if !current.IsZero() {
			o.Observe(now.Sub(current).Seconds(), metric.WithAttributes(attribute.String("source", name)))
		}
	})
	return nil
}

// lostSources returns the names and phases of the sources that currently cannot be read, and the
// error of one of them. If all sources can be read, the returned text is "".
func (s *sources) lostSources() (lost string, err error) {
	s.each(time.Now(), func(name string, state kube.State, _ time.Time) {
		if state.Failing() {
			lost += name + " is " + state.Phase.String() + "; "
			err = state.Err
		}
	})
	return lost, err
}

// reportStatus reports a new component status if the set of lost sources has changed. The caller
// holds mu.
func (s *sources) reportStatus(lost string, err error) {
	if s.host == nil || lost == s.reportedLost {
		return
	}
	s.reportedLost = lost
	if err != nil {
		err = fmt.Errorf("%sonly data that was read before is used: %w", lost, err)
	}
	componenthelper.ReportStatus(s.host, err)
}
