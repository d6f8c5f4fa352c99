package gpuk8sprocessor

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/attribution"
)

// sharingStrategyLabel is what gpu-feature-discovery tells of a node: none, mps
// or time-slicing.
const sharingStrategyLabel = "nvidia.com/gpu.sharing-strategy"

// sources feeds a Tracker with what the kubelet and the API server say.
type sources struct {
	cfg     *Config
	set     component.TelemetrySettings
	tracker *attribution.Tracker

	kubelet *kube.PodResources // nil: not asked
	cache   *kube.Cache        // nil: not asked
	kinds   []kube.Kind

	mu      sync.Mutex // of update
	host    component.Host
	trouble string // what the component's status says

	unsubscribe []func()
	stop        chan struct{}
	stopped     sync.WaitGroup
}

func newSources(cfg *Config, set component.TelemetrySettings, tracker *attribution.Tracker) *sources {
	return &sources{cfg: cfg, set: set, tracker: tracker}
}

// open makes the clients, without asking anything. It fails when a kubeconfig
// cannot be used.
func (s *sources) open() error {
	if s.cfg.NodeName == "" {
		if s.cfg.Sources.PodResources.Enabled || s.cfg.Sources.DRA.Enabled {
			s.set.Logger.Info("Without node_name and " + base.NodeNameEnv + " no device is known to be of this node: " +
				"holders come from labels and processes only")
		}
		return nil
	}
	if s.cfg.Kubernetes.AuthType != kube.AuthNone {
		cache, err := kube.Acquire(kube.Options{Config: s.cfg.Kubernetes, NodeName: s.cfg.NodeName}, s.set)
		if err != nil {
			return err
		}
		s.cache = cache
		s.kinds = []kube.Kind{kube.Pods, kube.Nodes}
		if s.cfg.Sources.DRA.Enabled {
			s.kinds = append(s.kinds, kube.ResourceSlices)
		}
		if s.cfg.Claims {
			s.kinds = append(s.kinds, kube.ResourceClaims)
		}
	}
	if s.cfg.Sources.PodResources.Enabled {
		if most := attribution.MaxObservations * s.cfg.Sources.PodResources.Interval; s.cfg.History > most {
			s.set.Logger.Warn("Who held a device is known for the last answers of the kubelet only, which is shorter than history. "+
				"Lengthen sources::pod_resources::interval, or shorten history.",
				zap.Duration("history", s.cfg.History), zap.Duration("known", most))
		}
		s.kubelet = kube.NewPodResources(s.cfg.Sources.PodResources.client(), s.set.Logger)
	}
	return nil
}

// start fails when a kubeconfig cannot be used. That answers do not come is no
// failure: they may come later.
func (s *sources) start(ctx context.Context, host component.Host) error {
	if err := s.open(); err != nil {
		return err
	}
	s.run(ctx, host)
	return nil
}

// run begins to ask and waits for first answers, at most for the configured time.
func (s *sources) run(ctx context.Context, host component.Host) {
	s.host = host
	if s.cache != nil {
		s.cache.Need(s.kinds...) //nolint:contextcheck // Informers outlive the start.
	}
	if s.kubelet != nil {
		s.kubelet.Start()
	}
	// Nothing is taken over before all that comes in time has come: the first
	// state also serves samples that were under way.
	s.wait(ctx)
	changed := func() { s.update(time.Now()) }
	if s.cache != nil {
		for _, k := range s.kinds {
			s.unsubscribe = append(s.unsubscribe, s.cache.Subscribe(k, changed))
		}
	}
	if s.kubelet != nil {
		s.unsubscribe = append(s.unsubscribe, s.kubelet.Subscribe(changed))
		s.stop = make(chan struct{})
		s.stopped.Add(1)
		go s.refresh()
	}
	changed()
}

// wait waits for first answers, at most for the configured time.
func (s *sources) wait(ctx context.Context) {
	if s.cfg.WaitForSources == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.WaitForSources)
	defer cancel()
	if s.cache != nil {
		if err := s.cache.WaitSynced(ctx, s.kinds...); err != nil {
			s.set.Logger.Info("The API server has not answered yet", zap.Error(err))
		}
	}
	if s.kubelet == nil {
		return
	}
	answered := make(chan struct{}, 1)
	defer s.kubelet.Subscribe(func() {
		select {
		case answered <- struct{}{}:
		default:
		}
	})()
	for {
		if _, _, state := s.kubelet.Snapshot(); state.Settled() {
			return
		}
		select {
		case <-answered:
		case <-ctx.Done():
			s.set.Logger.Info("The kubelet has not answered yet")
			return
		}
	}
}

// refresh looks at every answer of the kubelet, also at those that say the same
// as before: a pod's name may have become another pod's between them.
func (s *sources) refresh() {
	defer s.stopped.Done()
	ticker := time.NewTicker(s.cfg.Sources.PodResources.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.update(time.Now())
		}
	}
}

// shutdown stops asking. It may be called without start and twice.
func (s *sources) shutdown() {
	for _, f := range s.unsubscribe {
		f()
	}
	s.unsubscribe = nil
	if s.stop != nil {
		close(s.stop)
		s.stopped.Wait()
		s.stop = nil
	}
	if s.kubelet != nil {
		s.kubelet.Shutdown()
	}
	if s.cache != nil {
		s.cache.Release()
		s.cache = nil
	}
}

// update hands what the sources say now to the tracker.
func (s *sources) update(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	trouble := s.inTrouble() // before the rest, which is at least as new when it is said
	var a attribution.Sources
	if s.kubelet != nil {
		resources, at, state := s.kubelet.Snapshot()
		if a.Listing.State = believe(state); a.Listing.State != attribution.Off {
			a.Listing.Time = at.UnixNano()
			a.Listing.Containers = s.containers(resources)
		}
	}
	if s.cache != nil {
		s.readCache(&a)
	}
	s.tracker.Update(now, a)
	s.reportStatus(trouble)
}

// believe tells how far a source can be believed.
func believe(state kube.State) attribution.State {
	switch state.Phase {
	case kube.Synced:
		return attribution.Current
	case kube.Stale:
		return attribution.Old
	default:
		return attribution.Off
	}
}

func (s *sources) readCache(a *attribution.Sources) {
	uids := map[types.UID]bool{}
	if a.PodsState = believe(s.cache.State(kube.Pods)); a.PodsState != attribution.Off {
		for _, pod := range s.cache.Pods() {
			uids[pod.UID] = true
			read := readPod(pod)
			a.Pods = append(a.Pods, read)
			if !read.Ended {
				a.Instances = append(a.Instances, readInstances(pod)...)
			}
		}
	}
	if node, ok := s.cache.Node(s.cfg.NodeName); ok {
		a.Sharing = sharing(node.Labels[sharingStrategyLabel])
	}
	if s.cfg.Sources.DRA.Enabled {
		for _, slice := range s.cache.ResourceSlices() {
			a.Slices = append(a.Slices, readSlice(slice))
		}
		phase := s.cache.State(kube.ResourceSlices).Phase
		a.SlicesHidden = phase == kube.Syncing || phase == kube.Forbidden
	}
	if s.cfg.Claims {
		a.ClaimsState = believe(s.cache.State(kube.ResourceClaims))
		for _, claim := range s.cache.ResourceClaims() {
			if claim.Status.Allocation != nil && isOfNode(claim, a, uids) {
				a.Claims = append(a.Claims, readClaim(claim))
			}
		}
	}
}

// isOfNode reports whether a pod of this node uses a claim: claims are those of
// the whole cluster. Without the right to read pods nobody knows.
func isOfNode(c *resourcev1.ResourceClaim, a *attribution.Sources, uids map[types.UID]bool) bool {
	return a.PodsState == attribution.Off || slices.ContainsFunc(c.Status.ReservedFor,
		func(r resourcev1.ResourceClaimConsumerReference) bool { return uids[r.UID] })
}

// sharing returns gpu.sharing.strategy for the node label's value.
func sharing(label string) string {
	switch label {
	case "time-slicing":
		return signal.SharingTimeSlicing
	case "mps":
		return signal.SharingMPS
	}
	return ""
}

// containers keeps what is about GPUs.
func (s *sources) containers(all []kube.ContainerResources) []attribution.ContainerResources {
	var out []attribution.ContainerResources
	for i := range all {
		c := &all[i]
		r := attribution.ContainerResources{Namespace: c.Namespace, Pod: c.Pod, Container: c.Container}
		for _, d := range c.Devices {
			if s.cfg.isGPU(d.Resource) {
				r.Devices = append(r.Devices, readDevice(d))
			}
		}
		if s.cfg.Sources.DRA.Enabled {
			for _, d := range c.Claims {
				r.Claimed = append(r.Claimed, attribution.ClaimedDevice{
					Namespace: d.Namespace, Claim: d.Claim, ShareID: d.ShareID,
					DRADevice: attribution.DRADevice{Driver: d.Driver, Pool: d.Pool, Device: d.Device},
				})
			}
		}
		if len(r.Devices)+len(r.Claimed) > 0 {
			out = append(out, r)
		}
	}
	return out
}

func readDevice(d kube.DeviceRef) attribution.DeviceRef {
	out := attribution.DeviceRef{Raw: d.ID}
	id, err := kube.ParseDeviceID(d.Resource, d.ID)
	if err != nil {
		return out // counted as unattributed
	}
	out.UUID, out.MIGUUID, out.GPUInstance, out.Replica = id.UUID, id.MIGUUID, id.GPUInstance, id.Replica != ""
	if id.Index >= 0 {
		out.Name = "nvidia" + strconv.Itoa(id.Index)
	}
	return out
}

func readPod(p *corev1.Pod) attribution.Pod {
	out := attribution.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Created: p.CreationTimestamp.UnixNano(),
		Ended:   p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		// The kubelet's name for a static pod is what it hashed the pod's file to.
		StaticUID: p.Annotations[corev1.MirrorPodAnnotationKey],
	}
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			if _, id, ok := strings.Cut(statuses[i].ContainerID, "://"); ok && id != "" {
				out.Containers = append(out.Containers, attribution.PodContainer{Name: statuses[i].Name, ID: id})
			}
		}
	}
	for _, c := range kube.ContainerClaims(p) {
		out.Claims = append(out.Claims, attribution.PodClaim(c))
	}
	return out
}

// readInstances returns the MIG devices that a scheduler wrote on the pod; what
// cannot be read is of no use here and reported where budgets are made.
func readInstances(p *corev1.Pod) []attribution.Instance {
	if len(p.Annotations) == 0 {
		return nil
	}
	allocations, _ := gpushare.Allocations(p.Annotations)
	var out []attribution.Instance
	for i := range allocations {
		if m := allocations[i].MIG; m != nil && m.GPUInstance >= 0 {
			out = append(out, attribution.Instance{
				MIGUUID: m.UUID, UUID: allocations[i].UUID, GPUInstance: strconv.Itoa(m.GPUInstance),
			})
		}
	}
	return out
}

func readSlice(s *resourcev1.ResourceSlice) attribution.Slice {
	out := attribution.Slice{
		Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name,
		Generation: s.Spec.Pool.Generation, Count: s.Spec.Pool.ResourceSliceCount,
	}
	for i := range s.Spec.Devices {
		d := &s.Spec.Devices[i]
		attributes := map[string]string{}
		for name, v := range d.Attributes {
			if v.StringValue != nil {
				attributes[string(name)] = *v.StringValue
			}
		}
		out.Devices = append(out.Devices, attribution.SliceDevice{Name: d.Name, Attributes: attributes})
	}
	return out
}

func readClaim(c *resourcev1.ResourceClaim) attribution.Claim {
	out := attribution.Claim{Namespace: c.Namespace, Name: c.Name, UID: string(c.UID)}
	classes := map[string]string{}
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly != nil {
			classes[r.Name] = r.Exactly.DeviceClassName
		}
		for _, sub := range r.FirstAvailable {
			classes[r.Name+"/"+sub.Name] = sub.DeviceClassName
		}
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		result := attribution.ClaimResult{
			DRADevice: attribution.DRADevice{Driver: r.Driver, Pool: r.Pool, Device: r.Device},
			Request:   r.Request, Class: classes[r.Request],
			Admin: r.AdminAccess != nil && *r.AdminAccess,
		}
		if r.ShareID != nil {
			result.ShareID = string(*r.ShareID)
		}
		out.Results = append(out.Results, result)
	}
	for _, p := range c.Status.ReservedFor {
		if p.APIGroup == "" && p.Resource == "pods" {
			out.ReservedFor = append(out.ReservedFor, attribution.PodRef{Name: p.Name, UID: string(p.UID)})
		}
	}
	return out
}

// each calls f with the state of every source that is asked, and when it was
// last current; zero when it never was.
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

// observeStates is the callback of source_state.
func (s *sources) observeStates(_ context.Context, o metric.Int64Observer) error {
	s.each(time.Now(), func(name string, state kube.State, _ time.Time) {
		for _, phase := range kube.Phases() {
			v := int64(0)
			if phase == state.Phase {
				v = 1
			}
			o.Observe(v, metric.WithAttributes(attribute.String("source", name), attribute.String("state", phase.String())))
		}
	})
	return nil
}

// observeAges is the callback of source_age.
func (s *sources) observeAges(_ context.Context, o metric.Float64Observer) error {
	now := time.Now()
	s.each(now, func(name string, _ kube.State, current time.Time) {
		if !current.IsZero() {
			o.Observe(now.Sub(current).Seconds(), metric.WithAttributes(attribute.String("source", name)))
		}
	})
	return nil
}

// inTrouble says which sources were lost, nil for none. A source that was never there
// is no trouble.
func (s *sources) inTrouble() *troubleError {
	var e troubleError
	look := func(name string, state kube.State) {
		if state.Phase == kube.Stale || state.Phase == kube.Forbidden {
			e.text += name + " is " + state.Phase.String() + "; "
			e.cause = state.Err
		}
	}
	if s.kubelet != nil {
		_, _, state := s.kubelet.Snapshot()
		look("pod_resources", state)
	}
	if s.cache != nil {
		for _, k := range s.kinds {
			look(k.String(), s.cache.State(k))
		}
	}
	if e.text == "" {
		return nil
	}
	return &e
}

// reportStatus tells the component's status when other sources are lost than before,
// and when all are back; mu is held.
func (s *sources) reportStatus(e *troubleError) {
	trouble := ""
	if e != nil {
		trouble = e.text
	}
	if s.host == nil || trouble == s.trouble {
		return
	}
	s.trouble = trouble
	if e == nil {
		base.ReportStatus(s.host, nil)
		return
	}
	base.ReportStatus(s.host, e)
}

// troubleError says which sources are not what they should be.
type troubleError struct {
	text  string
	cause error
}

func (e *troubleError) Error() string {
	if e.cause == nil {
		return e.text + "the last known state is used"
	}
	return e.text + "the last known state is used: " + e.cause.Error()
}

func (e *troubleError) Unwrap() error { return e.cause }
