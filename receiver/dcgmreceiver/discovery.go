package dcgmreceiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// discoveryTimeout is how long the receiver waits at startup for the list of pods from the API
// server. If the list has not arrived by then, the receiver scrapes the pods that have been found
// so far, or the fallback if no pod has been found.
const discoveryTimeout = 10 * time.Second

// errNoNodeName is the reason why an agent cannot find its exporter.
var errNoNodeName = errors.New("discovery::node_name is empty and the environment variable " + componenthelper.NodeNameEnv + " is not set")

// The discovery type finds the exporters and runs one scrape loop for each exporter.
type discovery struct {
	cfg      DiscoveryConfig
	receiver *dcgmReceiver
	acquire  func(kube.Options, component.TelemetrySettings) (*kube.Cache, error)

	// selectors contains cfg.Selectors, followed by the selectors in cfg.Others.
	selectors []labels.Selector
	// If the scope is node, caches contains one cache for all pods on the node. If the scope is
	// cluster, caches contains one cache per selector. If the scope is node and the node name is
	// unknown, caches is empty.
	caches []*kube.Cache

	// mu guards targets and caches. The run method reads caches without the lock, because caches
	// changes only before run starts and when run returns.
	mu      sync.Mutex
	targets map[scrapeTarget]*scrapeLoop
}

// scrapeTarget identifies the target of a scrape loop: either the exporter in a pod or the
// fallback.
type scrapeTarget struct {
	url      string // URL of the pod's exporter, or empty for the fallback
	node     string
	fallback bool
	// honorTimestamps is true if the receiver uses the exporter's timestamps.
	honorTimestamps bool
}

// scrapeLoop scrapes one target.
type scrapeLoop struct {
	endpoints []*endpoint // the endpoints in the order in which the loop tries them
	stop      context.CancelFunc
}

func newDiscovery(r *dcgmReceiver, cfg DiscoveryConfig) *discovery {
	return &discovery{cfg: cfg, receiver: r, acquire: kube.Acquire, targets: map[scrapeTarget]*scrapeLoop{}}
}

// open acquires the caches. If the kubeconfig cannot be used, open returns an error.
func (d *discovery) open() error {
	if d.cfg.Scope == scopeNode && d.cfg.NodeName == "" {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	texts := slices.Clone(d.cfg.Selectors)
	for _, other := range d.cfg.Others {
		texts = append(texts, other.Selector)
	}
	o := kube.Options{Config: d.cfg.Kubernetes, Namespace: d.cfg.Namespace}
	for _, text := range texts {
		selector, err := labels.Parse(text)
		if err != nil {
			return fmt.Errorf("discovery: selector %q: %w", text, err) // not reached, because Validate rejects invalid selectors
		}
		d.selectors = append(d.selectors, selector)
	}
	if d.cfg.Scope == scopeNode {
		// An agent uses one watch for all pods on its node, because a node has few pods and other
		// components of the agent also watch the same pods. A central collector uses one watch per
		// selector, because it must not cache all pods in the cluster.
		o.NodeName, texts = d.cfg.NodeName, []string{""}
	}
	for _, text := range texts {
		o.LabelSelector = text
		c, err := d.acquire(o, d.receiver.settings.TelemetrySettings)
		if err != nil {
			d.releaseLocked()
			return fmt.Errorf("discovery::kubernetes: %w", err)
		}
		d.caches = append(d.caches, c)
	}
	return nil
}

// The pods method returns a list of matching pods for each selector, or no lists if there are no
// caches. The second result is true if the lists are complete, or if waiting longer is not expected
// to complete them.
func (d *discovery) pods() (found [][]*corev1.Pod, settled bool) {
	settled = true
	for _, c := range d.caches {
		settled = settled && c.State(kube.Pods).Settled()
	}
	if d.cfg.Scope != scopeNode { // each cache contains only the pods that match its selector, without labels
		for _, c := range d.caches {
			found = append(found, c.Pods())
		}
		return found, settled
	}
	for _, c := range d.caches {
		pods := c.Pods()
		for _, selector := range d.selectors {
			found = append(found, slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) }))
		}
	}
	return found, settled
}

func (d *discovery) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.releaseLocked()
}

func (d *discovery) releaseLocked() {
	for _, c := range d.caches {
		c.Release()
	}
	d.caches = nil
}

// The run method starts and stops scrape loops when the pods change, and returns when the first
// context ends.
func (d *discovery) run(scraping, consuming context.Context) {
	defer d.release()
	changed := componenthelper.NewNotice()
	var unsubscribes []func()
	for _, c := range d.caches {
		unsubscribes = append(unsubscribes, c.Subscribe(kube.Pods, changed.Notify))
		c.Need(kube.Pods) //nolint:contextcheck // The cache may be shared, and exists until its last user releases it.
	}
	defer func() {
		for _, unsubscribe := range unsubscribes {
			unsubscribe()
		}
	}()
	timeout := time.NewTimer(discoveryTimeout)
	defer timeout.Stop()
	for waiting := true; ; {
		if targets, known := d.findTargets(waiting); known {
			d.updateLoops(scraping, consuming, targets)
			d.reportStatus()
		}
		select {
		case <-scraping.Done():
			return
		case <-changed:
		case <-timeout.C:
			waiting = false
		}
	}
}

// findTargets returns the current targets. The second result is false if the waiting argument is
// true and the pods method reports that the lists of pods may soon be complete.
func (d *discovery) findTargets(waiting bool) (targets map[scrapeTarget]*url.URL, known bool) {
	found, settled := d.pods()
	if waiting && !settled {
		return nil, false
	}
	targets = map[scrapeTarget]*url.URL{}
	scrape := func(pod *corev1.Pod, port int, honorTimestamps bool) {
		u := d.cfg.urlOf(pod.Status.PodIP, port)
		targets[scrapeTarget{url: u.String(), node: pod.Spec.NodeName, honorTimestamps: honorTimestamps}] = u
	}
	// the index of the first selector from cfg.Others
	first := min(len(d.cfg.Selectors), len(found))
	for _, pod := range exporters(found[:first]) {
		scrape(pod, d.cfg.portOf(pod), false)
	}
	for i, pods := range found[first:] {
		other := &d.cfg.Others[i]
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { return !other.has(p) })
		for _, pod := range exporters([][]*corev1.Pod{pods}) {
			scrape(pod, other.Port, other.HonorTimestamps)
		}
	}
	if len(targets) == 0 {
		targets[scrapeTarget{node: d.ownNode(), fallback: true}] = nil
	}
	return targets, true
}

// ownNode returns the node that localhost refers to, or "" if the node is unknown.
func (d *discovery) ownNode() string {
	if d.cfg.Scope == scopeNode {
		return d.cfg.NodeName
	}
	return ""
}

// The exporters function returns one pod per node, because two exporters on the same node would
// expose the same devices. For each node, the function uses the first selector that matches a pod.
// If several pods on a node match that selector, the function returns the oldest one, so that the
// target does not change while a replacement pod starts.
func exporters(found [][]*corev1.Pod) []*corev1.Pod {
	nodes := map[string]bool{}
	var chosen []*corev1.Pod
	for _, pods := range found {
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool {
			return p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" || p.DeletionTimestamp != nil || nodes[p.Spec.NodeName]
		})
		slices.SortFunc(pods, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
				strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
		for _, p := range pods {
			if !nodes[p.Spec.NodeName] {
				nodes[p.Spec.NodeName] = true
				chosen = append(chosen, p)
			}
		}
	}
	return chosen
}

// updateLoops starts and stops scrape loops so that there is one loop per target.
func (d *discovery) updateLoops(scraping, consuming context.Context, targets map[scrapeTarget]*url.URL) {
	d.mu.Lock()
	defer d.mu.Unlock()
	started, stopped := 0, 0
	for t, l := range d.targets {
		if _, wanted := targets[t]; !wanted {
			l.stop()
			delete(d.targets, t)
			stopped++
		}
	}
	for t, u := range targets {
		if d.targets[t] == nil {
			d.targets[t] = d.start(scraping, consuming, d.endpointsOf(t, u))
			started++
		}
	}
	if started+stopped == 0 {
		return
	}
	for t, l := range d.targets {
		if t.fallback {
			d.logFallback(l)
			return
		}
	}
	d.receiver.settings.Logger.Info("Exporters found among the pods",
		zap.Int("exporters", len(d.targets)), zap.Int("started", started), zap.Int("stopped", stopped))
}

// reportStatus reports a problem while nothing is scraped because the pods cannot be listed. If the
// receiver scrapes an exporter or the fallback, that endpoint reports its own problems.
func (d *discovery) reportStatus() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.targets {
		if len(l.endpoints) > 0 {
			d.receiver.status.Report("discovery", nil)
			return
		}
	}
	d.receiver.status.Report("discovery", d.listError())
}

// listError returns why the pods cannot be listed, or nil if they can be listed.
func (d *discovery) listError() error {
	for _, c := range d.caches {
		if state := c.State(kube.Pods); state.Err != nil {
			return fmt.Errorf("discovery: pods: %s: %w", state.Phase, state.Err)
		}
	}
	return nil
}

// logFallback logs which fallback endpoints the receiver scrapes, and why.
func (d *discovery) logFallback(l *scrapeLoop) {
	urls := []string{}
	for _, e := range l.endpoints {
		urls = append(urls, e.urlFull)
	}
	reason := zap.Skip()
	if d.caches == nil {
		reason = zap.Error(errNoNodeName)
	}
	if err := d.listError(); err != nil {
		reason = zap.Error(err)
	}
	message := "No exporter found among the pods. Scraping the fallback."
	if len(urls) == 0 {
		message = "No exporter found among the pods. Nothing is scraped."
	}
	d.receiver.settings.Logger.Info(message, zap.Strings("fallback", urls), reason)
}

// endpointsOf returns the endpoints of a target in the order in which the loop tries them. For a
// central collector, localhost is not one of the endpoints.
func (d *discovery) endpointsOf(t scrapeTarget, u *url.URL) []*endpoint {
	if !t.fallback {
		e := newEndpointOn(d.receiver, u, t.node)
		e.honorTimestamps = e.honorTimestamps || t.honorTimestamps
		return []*endpoint{e}
	}
	var endpoints []*endpoint
	if d.cfg.Scope == scopeNode {
		local := d.cfg.urlOf("localhost", d.cfg.Port)
		if t.node == "" {
			endpoints = append(endpoints, newEndpoint(d.receiver, local))
		} else {
			endpoints = append(endpoints, newEndpointOn(d.receiver, local, t.node))
		}
	}
	if d.cfg.Fallback != "" {
		service, err := parseEndpoint(string(d.cfg.Fallback))
		if err == nil { // Validate has already checked the URL
			endpoints = append(endpoints, newEndpoint(d.receiver, service))
		}
	}
	return endpoints
}

// The start method starts a new scrape loop for the endpoints of one exporter. If there are no
// endpoints, the method returns a loop that does nothing.
func (d *discovery) start(scraping, consuming context.Context, endpoints []*endpoint) *scrapeLoop {
	ctx, stop := context.WithCancel(scraping)
	if len(endpoints) > 0 {
		s := d.receiver.newSchedule()
		d.receiver.loops.Go(func() {
			s.run(ctx, func() {
				if d.receiver.hasMemory(consuming) {
					scrapeFirst(ctx, consuming, endpoints)
				}
			}, func(n int64) { d.receiver.skip(consuming, n) })
			for _, e := range endpoints {
				componenthelper.SetScrapeError(e.urlFull, nil)
			}
			if scraping.Err() == nil { // the target was removed, but the receiver is still running
				for _, e := range endpoints {
					e.sendEnd(consuming)
					e.clearStatus()
				}
			}
		})
	}
	return &scrapeLoop{endpoints: endpoints, stop: stop}
}

// scrapeFirst scrapes the endpoints in order until a scrape succeeds. If a scrape succeeds, the
// failures of the previous endpoints are not reported. If all scrapes fail, scrapeFirst reports
// only the failure of the last endpoint. For the other endpoints, scrapeFirst ends the series of
// gpu.exporter.up. If ctx ends during a scrape, scrapeFirst reports nothing.
func scrapeFirst(ctx, consuming context.Context, endpoints []*endpoint) {
	for i, e := range endpoints {
		a := e.attempt(ctx)
		if a == nil {
			return
		}
		if a.failure != nil && i+1 < len(endpoints) {
			continue
		}
		others := slices.Concat(endpoints[:i], endpoints[i+1:])
		for _, other := range others {
			other.sendEnd(consuming)
		}
		e.deliver(consuming, a)
		for _, other := range others {
			other.clearStatus()
		}
		return
	}
}

// cacheSize returns the number of series in the parsers' caches of all discovered endpoints. If the
// receiver does not use discovery, cacheSize returns 0.
func (d *discovery) cacheSize() (size int64) {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.targets {
		for _, e := range l.endpoints {
			size += e.cacheSize.Load()
		}
	}
	return size
}

// observeEndpoints records the number of exporters that are scraped. The fallback counts as one
// exporter.
func (d *discovery) observeEndpoints(o metric.Int64Observer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var pods, fallbacks int64
	for t, l := range d.targets {
		switch {
		case !t.fallback:
			pods++
		case len(l.endpoints) > 0:
			fallbacks++
		}
	}
	o.Observe(pods, originPod)
	o.Observe(fallbacks, originFallback)
}

// observeState records the state of discovery, which is off if there are no caches, synced if all
// caches are synced, and otherwise the state of the first cache that is not synced. If the receiver
// does not use discovery, observeState records nothing.
func (d *discovery) observeState(o metric.Int64Observer) {
	if d != nil {
		kube.State{Phase: d.phase()}.Observe(o)
	}
}

func (d *discovery) phase() kube.Phase {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.caches) == 0 {
		return kube.Off
	}
	for _, c := range d.caches {
		if p := c.State(kube.Pods).Phase; p != kube.Synced {
			return p
		}
	}
	return kube.Synced
}
