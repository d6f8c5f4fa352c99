package attribution

import (
	"cmp"
	"maps"
	"slices"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// Entry contains the holders and attributes of one device in a Table. It is immutable.
type Entry struct {
	// Facts are attributes of the device that come from slices and schedulers. The processor adds
	// the Facts to the device's points.
	Facts gpudata.Description
	// Source is the value of gpu.holder.source that identifies the source of Holders. The source of
	// Holders is either the kubelet or claims. If neither source shows whether the device has a
	// holder, Source is empty. If Source is set and both Holders and Assigned are empty, nobody
	// holds the device, unless the partial field is true.
	Source string
	// Holders are the holders according to Source. The slice is sorted.
	Holders []Holding
	// Assigned are the holders according to schedulers' annotations. The slice is sorted.
	Assigned []Holding

	// The partial field is true if holders may be missing, because the source lists a reservation
	// pod whose group is unknown, or a claim that is also reserved for unknown pods.
	partial bool
	// ambiguous is true if the kubelet lists the device for several claims and it is unknown which
	// claim holds the device. Only one of the claims can hold the device, and all other claims must
	// have administrative access.
	ambiguous bool
	// released is true if nobody holds the device after all pods in Holders have ended. If the
	// holders come from claims, released can be true, because claims are watched. If the holders
	// come from the kubelet, released is always false, because the kubelet responded before the
	// pods ended.
	released bool
	// mayOmitClaims is true if Source is a kubelet that might not list DRA devices.
	mayOmitClaims bool
	sharing       string // sharing is the sharing strategy from the node's label.
	// A device without holders counts as free only in the interval [after, until), in nanoseconds
	// since the epoch.
	after, until int64
}

// Cut returns the Entry to use for a board that has instances in a frame. If e shows that nobody
// holds the board, the returned Entry does not show that the board is free, because the board's
// instances may have holders. Drivers can create and remove instances with each allocation, so only
// the frame shows whether the board had instances at the time of the frame. The receiver e may be
// nil.
func (e *Entry) Cut() *Entry {
	if e == nil || e.Source == "" || len(e.Holders) > 0 && !e.released {
		return e
	}
	cut := *e
	cut.released = false
	if len(cut.Holders) == 0 {
		cut.Source = ""
	}
	return &cut
}

// Table contains the holders of all devices from a given time until the next table applies. A Table
// is immutable.
type Table struct {
	from    int64
	entries map[string]*Entry
	stats   Stats
}

// builder builds a table.
type builder struct {
	sources *Sources
	pods    podLog
	devices map[string]gpudata.Description
	join    *joiner
	drivers []string
	claims  map[podKey][]*ClaimedDevice // The keys are the namespaces and names of claims.
	until   int64                       // The until field is the time at which devices without holders stop counting as free.

	t         *Table
	unmatched map[string]Reason // unmatched contains the device IDs that match no device.
	// listed contains the devices that the kubelet lists for containers that do not hold the
	// device.
	listed map[string]bool
	// disputed contains the times before which devices do not count as free, because a pod holds a
	// device that could not be identified. The boards time applies to all boards, and the instances
	// time applies to all instances.
	disputed struct{ boards, instances int64 }
}

// build creates a table from the sources' data. A holder that the kubelet lists by name is resolved
// to the pod that had that name when the kubelet responded. The grace parameter is how long a
// device without holders counts as free after the kubelet's last response, in nanoseconds.
func build(from int64, s *Sources, pods podLog, devices map[string]gpudata.Description, labeled map[DRADevice]string, drivers []string, grace int64) *Table {
	b := &builder{
		sources: s, pods: pods, devices: devices, drivers: drivers,
		join:      newJoiner(devices, labeled, s.Devices, s.Instances),
		claims:    make(map[podKey][]*ClaimedDevice, len(s.Claims)),
		t:         &Table{from: from, entries: make(map[string]*Entry, len(devices))},
		until:     forever,
		unmatched: map[string]Reason{},
		listed:    map[string]bool{},
	}
	b.t.stats.UnknownIDs = map[string]string{}
	if s.Listing.State == kube.Stale {
		b.until = s.Listing.Time + grace
	}
	for i := range s.Claims {
		c := &s.Claims[i]
		b.claims[podKey{c.Namespace, c.Claim}] = append(b.claims[podKey{c.Namespace, c.Claim}], c)
	}
	unmatchedSlices := b.addFacts()
	if s.SlicesHidden {
		unmatchedSlices = deviceKinds{true, true}
	}
	unmatchedIDs, dynamic := b.addListing()
	b.addClaims(dynamic)
	b.addAssignments()
	b.addUnheldDevices(dynamic, unmatchedIDs, unmatchedSlices)
	for id, e := range b.t.entries {
		b.finish(id, e)
	}
	for raw, r := range b.unmatched {
		b.t.stats.Unattributed[r]++
		b.t.stats.Unmatched[r] = first(b.t.stats.Unmatched[r], raw)
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

// addFacts copies device attributes from slices and annotations to the entries. The unmatched
// result contains the possible kinds of the devices in slices that match no device in the
// telemetry.
func (b *builder) addFacts() (unmatched deviceKinds) {
	for _, d := range slices.SortedFunc(maps.Keys(b.join.slices), compareDRA) {
		id, reason := b.join.draDeviceID(d)
		if reason != Joined {
			unmatched.add(reason, b.join.slices[d].Kind)
			continue
		}
		// Use only the first matching device, because a driver can list a board again for
		// passthrough to a virtual machine.
		if f := &b.entry(id).Facts; f.Allocation.Device == "" {
			s := b.join.slices[d]
			f.Allocation = gpudata.Allocation{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
			f.Profile = s.Profile
			if exporters.IsInstance(s.UUID) {
				f.MIGUUID = s.UUID
			}
		}
	}
	// If a GPU instance has several compute instances, each compute instance is a MIG device with
	// its own UUID, so recordName marks the GPU instance as ambiguous.
	uuids := map[string]string{}
	for uuid, id := range b.join.annotated {
		recordName(uuids, id, uuid)
	}
	for id, uuid := range uuids {
		if f := &b.entry(id).Facts; id != "" && f.MIGUUID == "" {
			f.MIGUUID = uuid
		}
	}
	return unmatched
}

// addHolder adds a holder of a device. If the holder is a reservation pod, addHolder adds the pods
// in the reservation pod's group instead. If the device is not in the telemetry, addHolder records
// that the device is not scraped. Before the first scrape, addHolder does not record that a device
// is not scraped.
func (b *builder) addHolder(id, source string, h Holding) {
	if h.Pod == "" {
		return
	}
	e := b.entry(id)
	e.Source = source
	if b.pods.reserves(h.Holder) {
		members := b.groupMembers(h)
		e.Holders = append(e.Holders, members...)
		e.partial = e.partial || len(members) == 0
	} else {
		e.Holders = append(e.Holders, h)
	}
	if _, scraped := b.devices[id]; !scraped && len(b.devices) > 0 {
		b.unmatched[id] = NotScraped
	}
}

// The first function returns whichever string sorts first. Empty strings are ignored.
func first(a, b string) string {
	if a == "" {
		return b
	}
	return min(a, b)
}

// finish sorts the holders in a device's entry and merges the holdings of each container into one.
// If the device is allocated exclusively to several pods or claims, finish counts a conflict.
func (b *builder) finish(id string, e *Entry) {
	e.Holders, e.Assigned = unique(e.Holders), unique(e.Assigned)
	if _, conflict := strategy(e.Holders, e.sharing); conflict || e.ambiguous {
		b.t.stats.Conflicts++
		b.t.stats.Conflicting = first(b.t.stats.Conflicting, id)
	}
}

// merge combines the holdings of each container into one. The argument must be sorted, and the
// result is also sorted.
func merge(sorted []Holding) []Holding {
	merged := sorted[:0]
	raw := "" // raw is the device ID in the previous holding.
	for _, h := range sorted {
		if n := len(merged); n > 0 && merged[n-1].Same(h.Holder) {
			last := &merged[n-1]
			last.Replica = last.Replica || h.Replica
			if h.raw != raw {
				last.Replicas += h.Replicas
			} else {
				last.Replicas = max(last.Replicas, h.Replicas)
			}
			raw = h.raw
			last.several = last.several || h.several || last.Allocation != h.Allocation
			if last.UID == "" { // An empty UID sorts before all other UIDs.
				last.UID, last.from, last.until = h.UID, h.from, h.until
			}
			continue
		}
		raw = h.raw
		merged = append(merged, h)
	}
	return merged
}
