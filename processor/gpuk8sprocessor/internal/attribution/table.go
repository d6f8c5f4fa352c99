package attribution

import (
	"cmp"
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Entry is the row of one device in a table. It is never changed.
type Entry struct {
	// Facts are attributes of the device from slices and schedulers, beside its points.
	Facts gpudata.Description
	// Source is the source of the device's holders, as gpu.holder.source has it; empty when none
	// knows the device. No other source is used for a device with a
	// Source, even when there are no Holders, unless the source's last answer is too old.
	Source string
	// Holders are those that the source names, sorted.
	Holders []Holding

	sharing string // what the node's label says
	until   int64  // when the right to say nobody ends, in nanoseconds
}

// Table has the answers of the sources from one moment on. It is never changed.
type Table struct {
	from    int64
	entries map[string]*Entry
	stats   Stats
}

// doubt tells which devices the allocations that cannot be joined may be about.
type doubt struct {
	boards, instances bool
}

func (d doubt) about(instance bool) bool { return d.boards && !instance || d.instances && instance }

func (d *doubt) add(r Reason, kind string) {
	if r == UnknownMIG || kind == "mig" {
		d.instances = true
		return
	}
	d.boards, d.instances = true, true
}

// builder makes a table.
type builder struct {
	sources *Sources
	pods    podLog
	devices map[string]gpudata.Description
	join    *joiner
	drivers []string
	claims  map[podKey][]*ClaimedDevice // by the claim's namespace and name
	until   int64                       // when the right to say nobody ends

	t    *Table
	lost map[string]Reason // ids that could not be joined
}

// build makes the table from the sources, with holders resolved to the pods that had their names
// when the kubelet answered. grace is the time in nanoseconds for which "no holder" stays valid
// after the kubelet stops answering.
func build(from int64, s *Sources, pods podLog, devices map[string]gpudata.Description, drivers []string, grace int64) *Table {
	b := &builder{
		sources: s, pods: pods, devices: devices, drivers: drivers,
		join:   newJoiner(devices, s.Devices, s.Instances),
		claims: make(map[podKey][]*ClaimedDevice, len(s.Claims)),
		t:      &Table{from: from, entries: make(map[string]*Entry, len(devices))},
		until:  forever,
		lost:   map[string]Reason{},
	}
	if s.Listing.State == kube.Stale {
		b.until = s.Listing.Time + grace
	}
	for i := range s.Claims {
		c := &s.Claims[i]
		b.claims[podKey{c.Namespace, c.Claim}] = append(b.claims[podKey{c.Namespace, c.Claim}], c)
	}
	unseen := b.facts()
	if s.SlicesHidden {
		unseen = doubt{true, true}
	}
	missing, dynamic := b.listing()
	claimed := b.allocations()
	if dynamic {
		claimed = doubt{} // a claim that the kubelet does not list nobody uses yet
	}
	b.nobody(dynamic, missing, claimed, unseen)
	for _, e := range b.t.entries {
		b.finish(e)
	}
	for _, r := range b.lost {
		b.t.stats.Unattributed[r]++
	}
	return b.t
}

func compareDRA(a, b DRADevice) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
}

func (b *builder) entry(id string) *Entry {
	e := b.t.entries[id]
	if e == nil {
		e = &Entry{sharing: b.sources.Sharing, until: b.until}
		b.t.entries[id] = e
	}
	return e
}

// facts notes what slices and annotations tell about devices. It returns which
// devices those of slices without a device may be.
func (b *builder) facts() (unseen doubt) {
	for _, d := range slices.SortedFunc(maps.Keys(b.join.slices), compareDRA) {
		id, reason := b.join.dra(d)
		if reason != Joined {
			unseen.add(reason, b.join.slices[d].Kind)
			continue
		}
		// A board can be listed twice, to be passed through to a machine too.
		if f := &b.entry(id).Facts; f.Allocation.Device == "" {
			s := b.join.slices[d]
			f.Allocation = gpudata.Allocation{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
			f.Profile = s.Profile
			if exporters.IsInstance(s.UUID) {
				f.MIGUUID = s.UUID
			}
		}
	}
	// An instance of several compute instances has as many MIG devices.
	only := map[string]string{}
	for uuid, id := range b.join.written {
		note(only, id, uuid)
	}
	for id, uuid := range only {
		if f := &b.entry(id).Facts; id != "" && f.MIGUUID == "" {
			f.MIGUUID = uuid
		}
	}
	return unseen
}

// listing enters the kubelet's answer. It returns which devices an id without a
// device may mean, and whether the kubelet lists DRA devices at all.
func (b *builder) listing() (missing doubt, dynamic bool) {
	l := &b.sources.Listing
	if l.State == kube.Off {
		return doubt{}, false
	}
	for i := range l.Containers {
		c := &l.Containers[i]
		if c.Pod == "" || c.Namespace == "" {
			continue
		}
		h := Holding{Holder: gpudata.Holder{Namespace: c.Namespace, Pod: c.Pod, Container: c.Container}, until: forever}
		ended := false
		if a := b.pods.at(c.Namespace, c.Pod, l.Time); a != nil {
			h.UID, h.from, h.until = a.UID, a.from, a.holding()
			ended = a.ended <= l.Time // kubelets before 1.34 list pods that ended
		}
		for j := range c.Devices {
			d := &c.Devices[j]
			id, reason := b.join.ref(d)
			if reason != Joined {
				b.lost[d.Raw] = reason
				missing.add(reason, "")
				continue
			}
			held := h
			held.Replica, held.raw = d.Replica, d.Raw
			if d.Replica {
				held.Replicas = 1
			}
			b.hold(id, signal.HolderSourcePodResources, held, ended)
		}
		for j := range c.Claimed {
			d := &c.Claimed[j]
			if !slices.Contains(b.drivers, d.Driver) {
				continue
			}
			dynamic = true
			device := draDevice(&d.Allocation)
			id, reason := b.join.dra(device)
			if reason != Joined {
				b.lost[rawDRA(device)] = reason
				missing.add(reason, b.join.slices[device].Kind)
				continue
			}
			held := h
			held.raw = rawDRA(device)
			var admin bool
			held.Allocation, admin = b.allocation(d)
			b.hold(id, signal.HolderSourcePodResources, held, ended || admin)
		}
	}
	return missing, dynamic
}

func rawDRA(d DRADevice) string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// allocation returns what is known of a device that the kubelet lists, and whether it is
// administrative access.
func (b *builder) allocation(d *ClaimedDevice) (a gpudata.Allocation, admin bool) {
	a = d.Allocation
	for _, c := range b.claims[podKey{d.Namespace, d.Claim}] {
		if draDevice(&c.Allocation) == draDevice(&d.Allocation) && c.ShareID == d.ShareID {
			return c.Allocation, c.Admin
		}
		a.ClaimUID = c.ClaimUID
	}
	return a, false
}

// hold enters a holder of a device, or only that the source knows the device. Before the first
// scrape it is unknown which devices scrapes show.
func (b *builder) hold(id, source string, h Holding, no bool) {
	e := b.entry(id)
	e.Source = source
	if no || h.Pod == "" {
		return
	}
	e.Holders = append(e.Holders, h)
	if _, shown := b.devices[id]; !shown && len(b.devices) > 0 {
		b.lost[id] = NotScraped
	}
}

// allocations enters what the API server knows of devices that the kubelet does
// not list. It returns which devices an allocated one without a device may be.
func (b *builder) allocations() (missing doubt) {
	if b.sources.ClaimsState == kube.Off {
		return doubt{}
	}
	mine := map[string]bool{} // devices that this source knows
	for i := range b.sources.Claims {
		c := &b.sources.Claims[i]
		if c.Admin || !slices.Contains(b.drivers, c.Driver) || len(c.ReservedFor) == 0 {
			continue
		}
		device := draDevice(&c.Allocation)
		id, reason := b.join.dra(device)
		if reason != Joined {
			if b.here(c) {
				b.lost[rawDRA(device)] = reason
				missing.add(reason, b.join.slices[device].Kind)
			}
			continue
		}
		if b.entry(id).Source != "" && !mine[id] {
			continue
		}
		mine[id] = true
		for _, p := range c.ReservedFor {
			h := Holding{Holder: p, until: forever, raw: rawDRA(device), Allocation: c.Allocation}
			named := false
			if pod := b.pods.find(p.Namespace, p.Pod, p.UID); pod != nil {
				h.from, h.until = pod.from, pod.holding()
				for k := range pod.Claims {
					u := &pod.Claims[k]
					if u.Claim == c.Claim && u.Uses(c.Request) {
						named = true
						h.Container = u.Container
						b.hold(id, signal.HolderSourceDRA, h, false)
					}
				}
			}
			if !named {
				b.hold(id, signal.HolderSourceDRA, h, false)
			}
		}
	}
	return missing
}

// here reports whether a pod of this node uses the claim: the devices of other
// nodes are no business of ours.
func (b *builder) here(c *ClaimedDevice) bool {
	return slices.ContainsFunc(c.ReservedFor, func(p gpudata.Holder) bool { return b.pods.find(p.Namespace, p.Pod, p.UID) != nil })
}

// nobody enters the devices that certainly have no holder. dynamic says that the kubelet lists
// DRA devices. missing are the devices that its ids without a device may mean, claimed those
// that such claims may mean, and unseen those that may be a DRA driver's though no slice says
// so.
func (b *builder) nobody(dynamic bool, missing, claimed, unseen doubt) {
	boards := map[string]bool{} // with instances
	for _, d := range b.devices {
		if d.Parent != "" {
			boards[d.Parent] = true
		}
	}
	inSlice := map[string]bool{}
	for d := range b.join.slices {
		if id, reason := b.join.dra(d); reason == Joined {
			inSlice[id] = true
		}
	}
	for id, d := range b.devices {
		e := b.entry(id)
		if e.Source != "" || boards[id] || !exporters.IsBoard(id) {
			continue
		}
		instance := d.Parent != ""
		if claimed.about(instance) {
			continue
		}
		off := b.sources.Listing.State == kube.Off
		listing := !off && !missing.about(instance)
		switch {
		// A kubelet that lists no DRA device at all may not know how to.
		case listing && (dynamic || !inSlice[id] && !unseen.about(instance)):
			e.Source = signal.HolderSourcePodResources
		case inSlice[id] && b.sources.ClaimsState == kube.Synced && (listing || off):
			e.Source = signal.HolderSourceDRA
		}
	}
}

// finish sorts an entry's holders, makes one of each container and notes
// devices that two pods were given as if each had it alone.
func (b *builder) finish(e *Entry) {
	e.Holders = unique(e.Holders)
	if _, conflict := strategy(e.Holders, e.sharing); conflict {
		b.t.stats.Conflicts++
	}
}

// merge makes one holder of all of a container. Sorted holders stay sorted.
func merge(sorted []Holding) []Holding {
	out := sorted[:0]
	raw := "" // of the one before
	for _, h := range sorted {
		if n := len(out); n > 0 && out[n-1].Same(h.Holder) {
			last := &out[n-1]
			last.Replica = last.Replica || h.Replica
			if h.raw != raw {
				last.Replicas += h.Replicas
			} else {
				last.Replicas = max(last.Replicas, h.Replicas)
			}
			raw = h.raw
			last.several = last.several || h.several || last.Allocation != h.Allocation
			if last.UID == "" { // sorts before a UID
				last.UID, last.from, last.until = h.UID, h.from, h.until
			}
			continue
		}
		raw = h.raw
		out = append(out, h)
	}
	return out
}
