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
	// Facts are attributes of the device from slices and schedulers. They are added to the
	// attributes of the device's points.
	Facts gpudata.Description
	// Source is the source of Holders: the value of gpu.holder.source for the kubelet or for
	// claims. It is empty if neither lists the device. If Source is set and both Holders and
	// Assigned are empty, nobody holds the device.
	Source string
	// Holders are the holders that the source names, sorted.
	Holders []Holding
	// Assigned are the holders according to schedulers' annotations, sorted.
	Assigned []Holding

	// partial is true if holders are missing because the source lists a reservation pod with an
	// unknown group.
	partial bool
	// ambiguous is true if the kubelet lists the device for several claims and it is unknown which
	// claim holds the device. All other claims must have administrative access.
	ambiguous bool
	// released is true if nobody holds the device after all Holders have ended. This applies to
	// holders from claims, because claims are watched. It does not apply to the kubelet's list,
	// which predates the end of its pods.
	released bool
	sharing  string // from the node's label
	// A device without holders counts as free only in the interval [after, until), in nanoseconds
	// since the epoch.
	after, until int64
}

// Cut returns the entry for a board that has instances in a frame. If the entry shows that nobody
// holds the board, Cut makes the holders unknown, because the instances may have holders. Drivers
// can create and remove instances with each allocation, so only the frame shows whether the board
// has instances at that time. e may be nil.
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

// Table contains the sources' answers that apply from a point in time. It is immutable.
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
	claims  map[podKey][]*ClaimedDevice // by the claim's namespace and name
	until   int64                       // when devices without holders stop counting as free

	t         *Table
	unmatched map[string]Reason // device IDs that match no device
	// listed are the devices that the kubelet lists without a holder.
	listed map[string]bool
	// disputed contains the end of the last pod whose assigned device could not be matched. boards
	// applies if the device may be any board, and instances if it may be any instance.
	disputed struct{ boards, instances int64 }
}

// build creates the table from the sources. It resolves the holders to the pods that had their
// names when the kubelet answered. grace is how long a device without holders counts as free after
// the kubelet stops answering, in nanoseconds.
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
	unmatchedClaims := b.addClaims()
	if dynamic {
		unmatchedClaims = deviceKinds{} // a claim that the kubelet does not list is not used yet
	}
	b.addAssignments()
	b.addUnheldDevices(dynamic, unmatchedIDs, unmatchedClaims, unmatchedSlices)
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

// addFacts records the device attributes in slices and annotations. unmatched contains the kinds of
// devices to which unmatched slice entries may refer.
func (b *builder) addFacts() (unmatched deviceKinds) {
	for _, d := range slices.SortedFunc(maps.Keys(b.join.slices), compareDRA) {
		id, reason := b.join.draDeviceID(d)
		if reason != Joined {
			unmatched.add(reason, b.join.slices[d].Kind)
			continue
		}
		// A driver can list a board a second time for passthrough to a virtual machine.
		if f := &b.entry(id).Facts; f.Allocation.Device == "" {
			s := b.join.slices[d]
			f.Allocation = gpudata.Allocation{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
			f.Profile = s.Profile
			if exporters.IsInstance(s.UUID) {
				f.MIGUUID = s.UUID
			}
		}
	}
	// A GPU instance with several compute instances has one MIG device per compute instance.
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
// of the group instead. Before the first scrape, it is unknown which devices are in the telemetry.
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

// first returns the string that sorts first. An empty string means no value.
func first(a, b string) string {
	if a == "" {
		return b
	}
	return min(a, b)
}

// finish sorts the holders of a device's entry and merges those of the same container. It counts
// devices that are allocated exclusively to two pods or claims.
func (b *builder) finish(id string, e *Entry) {
	e.Holders, e.Assigned = unique(e.Holders), unique(e.Assigned)
	if _, conflict := strategy(e.Holders, e.sharing); conflict || e.ambiguous {
		b.t.stats.Conflicts++
		b.t.stats.Conflicting = first(b.t.stats.Conflicting, id)
	}
}

// merge merges the holdings of each container. The result stays sorted.
func merge(sorted []Holding) []Holding {
	merged := sorted[:0]
	raw := "" // of the previous holding
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
			if last.UID == "" { // sorts before a UID
				last.UID, last.from, last.until = h.UID, h.from, h.until
			}
			continue
		}
		raw = h.raw
		merged = append(merged, h)
	}
	return merged
}
