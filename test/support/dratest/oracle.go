package dratest

import (
	"slices"
	"strings"
)

// Holder is a container that holds a device. If no source names the container, Container is empty.
type Holder struct{ Namespace, Pod, UID, Container string }

// Verdict contains the expected holders of a device.
type Verdict struct {
	// Known is false if no source provides enough information.
	Known bool
	// Holders contains the holders in sorted order. An empty list means that the device is free.
	Holders []Holder
	// Board is the hw.id of the device's board, and Slices is the device's share of the board, in
	// sevenths.
	Board  string
	Slices float64
}

// Holders returns the expected holders of each instance, and of each board without instances, that
// the telemetry shows. The keys are hw.id values. Holders applies the rules in docs/signals.md to
// the allocations.
func (w *World) Holders() map[string]Verdict {
	out := map[string]Verdict{}
	for id, d := range w.shown() {
		v := Verdict{Board: d.board.uuid, Slices: 7}
		if d.instance != nil && d.instance.id == id {
			v.Slices = d.slices()
		}
		v.Known, v.Holders = w.holders(id)
		out[id] = v
	}
	for _, d := range w.devices { // the telemetry does not identify the devices of other vendors
		if d.driver != NVIDIA && d.pool == w.Node {
			out[otherID(d)] = Verdict{Board: otherID(d), Slices: 7}
		}
	}
	return out
}

// shown returns the devices that the telemetry shows and that can be held, keyed by hw.id. For a
// board with instances, shown returns only the instances.
func (w *World) shown() map[string]*device {
	out := map[string]*device{}
	cut := map[*board]bool{}
	for _, d := range w.devices {
		if d.instance != nil {
			out[d.instance.id] = d
			cut[d.board] = true
		}
	}
	for _, d := range w.devices {
		if d.pool == w.Node && d.board != nil && !cut[d.board] && d.kind == "gpu" {
			out[d.board.uuid] = d
		}
	}
	return out
}

func otherID(d *device) string { return "other-" + d.driver }

// identity returns the hw.id of a device, or "" if no source identifies the device.
func (w *World) identity(d *device) string {
	return w.identityIf(d, !w.hidden && !d.renamed)
}

// identityIf is like identity, but the caller specifies whether a complete pool lists the device.
func (w *World) identityIf(d *device, listed bool) string {
	switch {
	case d.kind == "gpu" && listed:
		return d.board.uuid
	case d.kind == "gpu":
		return ""
	case listed && d.uuid != "" && w.MIGUUIDs && d.instance != nil:
		return d.instance.id
	}
	if id := w.alone(d); listed && id != "" {
		return id
	}
	return w.label(d)
}

// alone returns the ID of the only instance on the device's board that has the device's profile. If
// the driver does not advertise exactly one such instance, or the telemetry does not show exactly
// one, alone returns "".
func (w *World) alone(d *device) (id string) {
	advertised, shown := 0, 0
	for _, o := range w.devices {
		if o.board == d.board && o.profile == d.profile {
			advertised++
		}
	}
	for i, at := range w.seen {
		if i.device.board == d.board && i.device.profile == d.profile && w.now.Sub(at) <= Remembered {
			shown++
			id = i.id
		}
	}
	if advertised != 1 || shown != 1 {
		return ""
	}
	return id
}

// The label method returns the ID of the instance that the exporter most recently labeled with the
// device's name, or "" if there is no such instance.
func (w *World) label(d *device) (id string) {
	var last *instance
	for i, at := range w.labeled[d.name] {
		if w.now.Sub(at) <= Remembered && (last == nil || at.After(w.labeled[d.name][last])) {
			last = i
		}
	}
	if last == nil {
		return ""
	}
	return last.id
}

// entry is a device that is allocated to a container or a pod.
type entry struct {
	holder Holder
	result result
}

// listed returns the NVIDIA devices that the kubelet lists.
func (w *World) listed() (out []entry) {
	if !w.Kubelet {
		return nil
	}
	for _, p := range w.pods {
		if !w.running(p) {
			continue
		}
		for _, e := range p.has() {
			if e.holder.Container != "" && e.result.device.driver == NVIDIA {
				out = append(out, e)
			}
		}
	}
	return out
}

// The has method returns the devices of a pod's claims, with one entry for each container that uses
// a device. If no regular container uses a device, its entry has no container name.
func (p *pod) has() (out []entry) {
	for _, c := range p.claims {
		for _, r := range c.results {
			named := false
			for _, of := range p.containers {
				for _, u := range of.uses {
					if !of.init && u.claim == c && (u.request == "" || u.request == r.request) {
						named = true
						out = append(out, entry{Holder{p.namespace, p.name, p.uid, of.name}, r})
					}
				}
			}
			if !named {
				out = append(out, entry{Holder{p.namespace, p.name, p.uid, ""}, r})
			}
		}
	}
	return out
}

// reserved returns the NVIDIA devices in claims that are reserved for pods on the observed node.
func (w *World) reserved() (out []entry) {
	if !w.Claims {
		return nil
	}
	for _, p := range w.pods {
		if p.node != w.Node || p.unbound {
			continue
		}
		for _, e := range p.has() {
			c := w.claimOf(p, e)
			if slices.Contains(c.pods, p) && e.result.device.driver == NVIDIA && !e.result.admin {
				out = append(out, e)
			}
		}
	}
	return out
}

func (w *World) claimOf(p *pod, e entry) *claim {
	i := slices.IndexFunc(p.claims, func(c *claim) bool { return slices.Contains(c.results, e.result) })
	return p.claims[i]
}

// A doubts value records whether unidentified devices might be boards, instances, or either.
type doubts struct{ boards, instances bool }

func (d doubts) about(id string) bool {
	if strings.Contains(id, "/") {
		return d.instances
	}
	return d.boards
}

func (w *World) doubt(entries []entry) (d doubts) {
	for _, e := range entries {
		if w.identity(e.result.device) != "" {
			continue
		}
		d.instances = true
		// A device that is not in any complete pool can be a board or an instance.
		d.boards = d.boards || w.hidden || e.result.device.renamed
	}
	return d
}

func (w *World) holders(id string) (known bool, holders []Holder) {
	listed, reserved := w.listed(), w.reserved()
	observed, unread := false, false // observed: the kubelet lists the device; unread: the device is in a claim that cannot be read
	claims := map[*claim]bool{}
	for _, e := range listed {
		if w.identity(e.result.device) != id {
			continue
		}
		observed = true
		p := w.podOf(e)
		c := w.claimOf(p, e)
		if p.ended || w.admin(p, e) {
			continue
		}
		unread = unread || !w.Claims || !slices.Contains(w.claims, c)
		if e.result.device.board.kind != shares || w.hidden || e.result.device.renamed {
			claims[c] = true
		}
		holders = append(holders, e.holder)
	}
	if len(claims) > 1 && unread {
		return false, nil // one of the claims may grant only administrative access
	}
	if len(holders) == 0 && !observed {
		for _, e := range reserved {
			if w.identity(e.result.device) == id && !w.podOf(e).ended {
				holders = append(holders, e.holder)
			}
		}
	}
	if len(holders) > 0 {
		return true, w.unique(holders)
	}
	dynamic := len(listed) > 0
	ended := func(e entry) bool { return w.podOf(e).ended }
	missing := w.doubt(slices.DeleteFunc(listed, func(e entry) bool { return ended(e) || w.admin(w.podOf(e), e) }))
	switch {
	case w.Kubelet && missing.about(id):
		return false, nil
	case dynamic:
		return true, nil // the kubelet lists devices of DRA drivers, but not this device
	case !w.Claims || w.doubt(slices.DeleteFunc(reserved, ended)).about(id):
		return false, nil
	}
	return w.advertised(id), nil
}

// advertised reports whether a ResourceSlice describes the device. If a ResourceSlice describes the
// device, an allocation of the device would be visible in a claim.
func (w *World) advertised(id string) bool {
	return slices.ContainsFunc(w.devices, func(d *device) bool {
		if d.driver != NVIDIA || d.pool != w.Node || w.hidden {
			return false
		}
		if d.renamed && w.label(d) == id { // the exporter's labels contain the same device name as the claim
			return w.alone(d) == id || d.uuid != "" && w.MIGUUIDs
		}
		return w.identityIf(d, true) == id
	})
}

// admin reports whether a container is known to have only administrative access.
func (w *World) admin(p *pod, e entry) bool {
	if w.Claims && slices.Contains(w.claims, w.claimOf(p, e)) {
		return e.result.admin
	}
	return p.monitors
}

func (w *World) podOf(e entry) *pod {
	i := slices.IndexFunc(w.pods, func(p *pod) bool { return p.uid == e.holder.UID })
	return w.pods[i]
}

func (w *World) unique(holders []Holder) []Holder {
	slices.SortFunc(holders, func(a, b Holder) int { return strings.Compare(a.UID+a.Container, b.UID+b.Container) })
	return slices.Compact(holders)
}
