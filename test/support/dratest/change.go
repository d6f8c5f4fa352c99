package dratest

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// Change draws random events that occur before the given time, and applies them to the world. After
// calling Change, the caller reads the telemetry and the other sources.
func (w *World) Change(t *rapid.T, now time.Time) {
	w.now = now
	for _, p := range w.pods {
		p.preparing = false
	}
	for range sampledFrom(t, "events", 0, 1, 2, 3, 4) {
		switch event := sampledFrom(t, "event", "create", "create", "create", "end", "delete", "restart", "taint", "publish", "hide", "orphan", "wait", "withdraw", "rename", "vanish", "join", "leave", "rule", "report", "report", "start"); event {
		case "create":
			w.create(t, fmt.Sprint("p", rapid.IntRange(0, 5).Draw(t, "pod")))
		case "end":
			if p := w.anyPod(t); p != nil {
				w.end(t, p)
			}
		case "delete":
			if p := w.anyPod(t); p != nil {
				w.delete(t, p)
			}
		case "restart":
			if p := w.anyPod(t); p != nil && !p.monitors {
				w.delete(t, p)
				w.create(t, p.name)
			}
		case "taint", "rule":
			w.changeTaints(t, event == "rule")
		case "report":
			w.report(t)
		case "start":
			w.restart(t)
		case "publish":
			w.generation++
			w.hidden, w.parts = false, rapid.IntRange(1, 2).Draw(t, "slices")
		case "hide": // publish only half of the pool, or publish all of it again
			w.hidden = !w.hidden
			w.parts = 2
			w.generation++
		case "rename": // a new driver release uses different names, or returns to the previous names
			if d := rapid.SampledFrom(w.devices).Draw(t, "device"); d.board != nil && (d.renamed || w.takes(d) > 0) {
				d.renamed = !d.renamed
				w.generation++
			}
		case "vanish":
			if p := w.anyPod(t); p != nil {
				w.vanish(p.claims[0])
			}
		case "join": // a new node joins, or a node that left returns
			if d := w.anyOther(t); d.removed {
				w.setRemoved(d.pool, false)
				w.generation++
			} else {
				w.join()
			}
		case "leave": // a node's slices are deleted together with the node; the node's pods are deleted later
			w.setRemoved(w.anyOther(t).pool, true)
		case "wait": // a claim waits because no device is free
			uid := w.uid()
			w.waiting = append(w.waiting, &claim{namespace: "ns", name: "claim-" + uid, uid: uid, wants: rapid.IntRange(1, 4).Draw(t, "wants")})
		case "withdraw":
			w.waiting = w.waiting[:len(w.waiting)/2]
		case "orphan": // an unused claim is deleted
			w.claims = slices.DeleteFunc(w.claims, func(c *claim) bool { return len(c.pods) == 0 })
		}
		w.settle()
	}
	w.recordTelemetry()
}

// vanish deletes a claim that is still in use, as if its finalizer had been removed. After the
// deletion, only the kubelet reports the claim, and the scheduler can allocate the claim's devices
// again. vanish does not delete claims for dynamic boards, because the partitions of these boards
// would vanish, too.
func (w *World) vanish(c *claim) {
	for _, r := range c.results {
		if r.admin || r.device.board != nil && r.device.board.kind == dynamic {
			return
		}
	}
	c.pods, c.gone = nil, false
	w.remove(c)
}

func (w *World) anyPod(t *rapid.T) *pod {
	if len(w.pods) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.pods).Draw(t, "which")
}

// anyOther draws a device on a node other than the observed node.
func (w *World) anyOther(t *rapid.T) *device {
	others := slices.DeleteFunc(slices.Clone(w.devices), func(d *device) bool { return d.pool == w.Node })
	return rapid.SampledFrom(others).Draw(t, "other node")
}

// setRemoved removes a node's ResourceSlices if removed is true, and publishes the ResourceSlices
// again otherwise.
func (w *World) setRemoved(node string, removed bool) {
	for _, d := range w.devices {
		if d.pool == node {
			d.removed = removed
		}
	}
}

func (w *World) uid() string {
	w.serial++
	return fmt.Sprint("uid-", w.serial)
}

// create adds a pod with the given name and random claims. If a pod with that name exists, create
// does nothing.
func (w *World) create(t *rapid.T, name string) {
	if slices.ContainsFunc(w.pods, func(p *pod) bool { return p.name == name }) {
		return
	}
	p := &pod{namespace: "ns", name: name, uid: w.uid(), node: w.Node, created: w.now, preparing: rapid.IntRange(0, 4).Draw(t, "preparing") == 0}
	switch kind := sampledFrom(t, "claim", "own", "own", "own", "shared", "group", "extended", "admin", "elsewhere", "stranger"); kind {
	case "admin":
		// Without permission to read claims, an observer knows only from a monitoring agent's name
		// that the agent does not hold devices.
		if p.monitors = !w.Claims || rapid.Bool().Draw(t, "monitors"); p.monitors {
			p.name = fmt.Sprintf("nvidia-dcgm-exporter-dra-%05d", w.serial)
		}
		w.allocate(t, p, &claim{template: true}, true)
	case "elsewhere":
		p.node = w.anyOther(t).pool
		w.allocate(t, p, &claim{template: true}, false)
	case "shared", "group":
		i := slices.IndexFunc(w.claims, func(c *claim) bool {
			return !c.template && !c.extended && !c.renamed() && c.group == (kind == "group") && c.results[0].device.pool == w.Node
		})
		if i < 0 {
			w.allocate(t, p, &claim{group: kind == "group"}, false)
			if len(p.claims) > 0 && rapid.Bool().Draw(t, "several") {
				w.share(t, &pod{namespace: p.namespace, name: p.name + "-too", uid: w.uid(), node: p.node, created: w.now}, p.claims[0])
			}
			break
		}
		p.claims = []*claim{w.claims[i]}
		w.claims[i].pods = append(w.claims[i].pods, p)
	case "stranger":
		i := slices.IndexFunc(w.claims, func(c *claim) bool { return !c.template && !c.extended && c.results[0].device.pool == w.Node })
		if i < 0 {
			return
		}
		p.stranger, p.claims = true, []*claim{w.claims[i]}
	default:
		w.allocate(t, p, &claim{extended: kind == "extended", template: kind == "own"}, false)
	}
	if len(p.claims) == 0 {
		return // the scheduler found no free device
	}
	w.drawContainers(t, p)
	p.unbound = !p.stranger && p.awaits()
	w.pods = append(w.pods, p)
}

// The share method adds pod p, which uses the existing claim c.
func (w *World) share(t *rapid.T, p *pod, c *claim) {
	if slices.ContainsFunc(w.pods, func(o *pod) bool { return o.name == p.name }) {
		return
	}
	p.claims = []*claim{c}
	c.pods = append(c.pods, p)
	w.drawContainers(t, p)
	p.unbound = p.awaits()
	w.pods = append(w.pods, p)
}

// allocate adds a new claim to a pod. If admin is true, the claim grants administrative access to
// all boards of the pod's node. Otherwise, free devices are allocated to the claim.
func (w *World) allocate(t *rapid.T, p *pod, c *claim, admin bool) {
	pick := func(d *device) {
		r := result{device: d, request: fmt.Sprint("r", len(c.results)), admin: admin, reported: &[]metav1.Condition{}}
		if d.board != nil && d.board.kind == shares && !admin {
			r.share = fmt.Sprint("share-", w.uid())
		}
		c.results = append(c.results, r)
	}
	c.tolerations = tolerateAll()
	if admin {
		for _, d := range w.devices {
			if d.driver == NVIDIA && d.pool == p.node && d.kind == "gpu" {
				pick(d)
			}
		}
	} else {
		c.tolerations = drawTolerations(t)
		w.claims = append(w.claims, c) // add the claim now, so that devices that are already picked for the claim count as allocated
		for range rapid.IntRange(1, 2).Draw(t, "devices") {
			free := slices.DeleteFunc(slices.Clone(w.devices), func(d *device) bool { return d.pool != p.node || !w.free(d, c) })
			if len(free) > 0 {
				pick(rapid.SampledFrom(free).Draw(t, "free"))
			}
		}
		w.remove(c)
	}
	if len(c.results) == 0 {
		return
	}
	c.namespace, c.uid, c.pods = p.namespace, w.uid(), []*pod{p}
	c.name = "claim-" + c.uid
	p.claims = append(p.claims, c)
	w.claims = append(w.claims, c)
}

func (w *World) drawContainers(t *rapid.T, p *pod) {
	c := p.claims[0]
	all := use{claim: c}
	one := use{claim: c, request: c.results[0].request}
	switch layout := sampledFrom(t, "containers", "one", "one", "two", "request", "init", "unused"); {
	case c.extended || layout == "request":
		// For an extended resource, the scheduler maps each request to the container that made the
		// request.
		p.containers = []container{{name: "main", uses: []use{one}}, {name: "side"}}
		for _, r := range c.results[1:] {
			p.containers[1].uses = append(p.containers[1].uses, use{claim: c, request: r.request})
		}
	case layout == "two":
		p.containers = []container{{name: "main", uses: []use{all}}, {name: "side", uses: []use{one}}}
	case layout == "init":
		p.containers = []container{{name: "setup", init: true, uses: []use{all}}, {name: "main"}}
	case layout == "unused":
		p.containers = []container{{name: "main"}}
	default:
		p.containers = []container{{name: "main", uses: []use{all}}}
	}
}

// The end method terminates a pod's containers. The pod's claims may remain reserved for a while.
func (w *World) end(t *rapid.T, p *pod) {
	if p.unbound || p.stranger {
		return // the containers have not started
	}
	p.ended = true
	if rapid.Bool().Draw(t, "release") {
		w.release(t, p)
	}
}

// delete removes a pod. Usually, the pod's claims are released. Sometimes, the claims remain
// reserved for the pod, because the claim controller has not yet noticed the removal.
func (w *World) delete(t *rapid.T, p *pod) {
	stay := rapid.IntRange(0, 3).Draw(t, "stay") == 0
	for _, c := range p.claims {
		c.gone = c.gone || stay && slices.Contains(c.pods, p)
	}
	w.release(t, p)
	w.pods = slices.DeleteFunc(w.pods, func(o *pod) bool { return o == p })
}

// release removes the pod's reservation from each of the pod's claims. If a claim has no other
// reservations, the claim is deleted if it came from a template or is for an extended resource.
// Other claims may remain allocated.
func (w *World) release(t *rapid.T, p *pod) {
	for _, c := range p.claims {
		c.pods = slices.DeleteFunc(c.pods, func(o *pod) bool { return o == p })
		if len(c.pods) == 0 && !c.gone && (c.template || c.extended || rapid.Bool().Draw(t, "deallocate")) {
			w.remove(c)
		}
	}
	w.settle()
}

// recordTelemetry records which instances the telemetry currently shows.
func (w *World) recordTelemetry() {
	for _, d := range w.devices {
		if d.instance == nil { // only devices on the observed node have instances
			continue
		}
		w.seen[d.instance] = w.now
		if w.Labels {
			if w.labeled[d.name] == nil {
				w.labeled[d.name] = map[*instance]time.Time{}
			}
			w.labeled[d.name][d.instance] = w.now
		}
	}
}

// renamed reports whether any device of the claim has a different name in the ResourceSlices.
func (c *claim) renamed() bool {
	return slices.ContainsFunc(c.results, func(r result) bool { return r.device.renamed })
}
