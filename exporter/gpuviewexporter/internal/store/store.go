package store

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

const (
	// defaultWindowLength is the length that is assumed for a window without a start time.
	defaultWindowLength = time.Minute
	// minStaleAge is the minimum age at which values without windows become stale. If three times
	// the length of a window is longer than minStaleAge, the longer time is used instead.
	minStaleAge = 5 * time.Minute
	// maxWindowLength is the maximum length of a window. A start time that would make the window
	// longer than maxWindowLength is ignored.
	maxWindowLength = 7 * 24 * time.Hour
	// minDelayTolerance is how late a window may arrive before its device counts as lost. If the
	// newest window was late by more than minDelayTolerance, the next window may be equally late,
	// up to maxDelayTolerance.
	minDelayTolerance = 10 * time.Second
	maxDelayTolerance = 2 * time.Minute
)

// Settings contains the retention and the limits of a store.
type Settings struct {
	// Retention is how long windows are stored.
	Retention time.Duration
	// MaxDevices is the maximum number of boards and MIG instances.
	MaxDevices int
	// MaxHolders is the maximum number of holders. A container counts once for each device that it
	// holds.
	MaxHolders int
}

// Outcome is the result of adding a point.
type Outcome uint8

// Each point has one outcome, except that a clamped point is also counted as Clamped.
const (
	// Accepted points are stored.
	Accepted Outcome = iota
	// Ignored points do not belong to anything that is shown.
	Ignored
	// NoValue points have no value.
	NoValue
	// Old points are older than the retention period.
	Old
	// Future points are more than a minute ahead of the clock.
	Future
	// Refused points would have exceeded a limit, such as the maximum number of devices.
	Refused
	// Implausible points contain a ratio that is far outside the valid range.
	Implausible
	// Clamped points contained a ratio that was slightly outside the range [0, 1] and was clamped.
	Clamped
	// Outcomes is the number of outcomes.
	Outcomes
)

func (o Outcome) String() string {
	return [Outcomes]string{"accepted", "ignored", "no_value", "old", "future", "refused", "implausible", "clamped"}[o]
}

// Place describes where a point comes from, according to its Resource. Namespace, Pod, PodUID and
// Container are empty for device series.
type Place struct {
	Cluster, Node, Namespace, Pod, PodUID, Container string
}

// Description contains the attributes of a device. An empty field means that the value is unknown.
// Newer values replace older values, unless the newer value is unknown.
type Description struct {
	// Parent is the hw.id of the board of a MIG instance.
	Parent     string
	Name       string
	Model      string
	Vendor     string
	MIGProfile string
	MIGUUID    string
}

// Hold describes how a container holds a device: the sharing strategy, the ResourceClaim and
// DeviceClass, and the workload and labels of the container's pod.
type Hold struct {
	Sharing, Claim, Class, WorkloadKind, Workload string
	Labels                                        gpudata.Labels
}

func (d *Description) update(n *Description) {
	updateText(&d.Parent, n.Parent)
	updateText(&d.Name, n.Name)
	updateText(&d.Model, n.Model)
	updateText(&d.Vendor, n.Vendor)
	updateText(&d.MIGProfile, n.MIGProfile)
	updateText(&d.MIGUUID, n.MIGUUID)
}

func (h *Hold) update(n *Hold) {
	updateText(&h.Sharing, n.Sharing)
	updateText(&h.Claim, n.Claim)
	updateText(&h.Class, n.Class)
	updateText(&h.WorkloadKind, n.WorkloadKind)
	updateText(&h.Workload, n.Workload)
	updateText(&h.Labels, n.Labels)
}

// updateText replaces a string with a newer string, unless the newer string is empty.
func updateText[T ~string](text *T, newer T) {
	if newer != "" && newer != *text {
		// Clone the string, because the original may share memory with all strings from a scrape.
		*text = T(strings.Clone(string(newer)))
	}
}

// Point is a data point of one of the metrics that [Lookup] knows.
type Point struct {
	Metric *Metric
	// Attribute is the value of the metric's own attribute. Reason is the reason why a signal is
	// missing.
	Attribute, Reason string
	// If the point counts claims, State is the state of the claims.
	State string
	// If the value is an amount of money, Currency is its currency.
	Currency Currency
	// Start and End are the start time and the timestamp of the point in Unix nanoseconds. If the
	// point has no start time, Start is 0.
	Start, End int64
	Value      float64
}

// Reading contains a value and its timestamp in Unix nanoseconds. A timestamp of 0 means that there
// is no value.
type Reading struct {
	at    int64
	value float64
}

// Device is a board or a MIG instance on one node.
type Device struct {
	// Number identifies the device. Numbers are never reused.
	Number uint64
	// Cluster and Node identify the device's location. ID is the hw.id of the device.
	Cluster, Node, ID string
	Description
	Series
	gauges  [NumGauges]Reading
	tracks  [numTracked]track
	holders map[Place]*Holder
	xids    xids
	energy  energyCounter
	// The delay field is the time between the end and the arrival of the newest window, in
	// nanoseconds.
	delay int64
	// The verdicts slice contains the verdicts from the newest scrape, indexed by signal. The
	// judged field is the timestamp of the newest scrape in Unix nanoseconds.
	verdicts []Verdict
	judged   int64
	// newestPoint is the timestamp of the newest point in Unix nanoseconds.
	newestPoint int64
}

// Holder is a container that holds a device or has held the device during the retention period.
type Holder struct {
	Place
	Hold
	Series
	gauges      [NumGauges]Reading
	spent       spentHistory
	newestPoint int64
}

type deviceKey struct{ cluster, node, id string }

type resourceKey struct{ cluster, resource string }

// Store keeps recent windows and the last values of other metrics. A Store is safe for concurrent
// use.
type Store struct {
	settings Settings

	mu      sync.RWMutex
	devices map[deviceKey]*Device
	nodes   map[nodeKey]*nodeState
	demand  map[resourceKey]*[NumDemands]Reading
	// The exporters map contains the exporters that gpu.exporter.up reports. The arrival time of
	// the last point of gpu.exporter.up is stored in exporterPointAt.
	exporters       map[exporterKey]*Exporter
	exporterPointAt int64
	// The claims map contains the devices that are allocated to claims. For each cluster, claimsAt
	// contains the timestamp of the newest list of claims.
	claims     map[claimKey]*claimState
	unreserved map[classKey]*Reading
	claimsAt   map[string]int64
	holders    int
	numbers    uint64
	// The newest field is the end of the newest window, and the step field is the length of that
	// window.
	newest    int64
	step      time.Duration
	swept     int64
	startedAt int64 // see [Store.Start]
	stats     Stats
	// For each limit, the refused array contains the time at which a point was last refused.
	limits  [numLimits]Limit
	refused [numLimits]int64
}

// Stats contains the numbers of stored items and received points.
type Stats struct {
	// Devices and Holders are the numbers of stored items.
	Devices, Holders int
	// Points contains the number of received points for each outcome.
	Points [Outcomes]uint64
}

// New returns an empty store.
func New(s Settings) *Store {
	return &Store{
		settings: s, limits: limits(s), devices: map[deviceKey]*Device{}, demand: map[resourceKey]*[NumDemands]Reading{},
		exporters: map[exporterKey]*Exporter{}, nodes: map[nodeKey]*nodeState{},
		claims: map[claimKey]*claimState{}, unreserved: map[classKey]*Reading{}, claimsAt: map[string]int64{},
	}
}

// Stats returns the numbers of stored items and received points.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := s.stats
	out.Devices, out.Holders = len(s.devices), s.holders
	return out
}

// Batch adds points to the store. The store is locked until [Batch.End] is called.
type Batch struct {
	s       *Store
	wall    time.Time
	now     int64
	oldest  int64
	node    *nodeState   // The node of the last point.
	nodes   []*nodeState // The nodes of all points.
	reached []Limit
	ahead   bool
	setBack bool
}

// Start records the time at which the exporter started. Counters that started later are counted from
// 0. If Start is not called, the time of the first batch is used.
func (s *Store) Start(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startedAt = cmp.Or(s.startedAt, now.UnixNano())
}

// Begin locks the store and starts a batch. The now parameter is the current wall clock time.
func (s *Store) Begin(now time.Time) *Batch {
	s.mu.Lock()
	s.startedAt = cmp.Or(s.startedAt, now.UnixNano())
	return &Batch{s: s, wall: now, now: now.UnixNano(), oldest: now.Add(-s.settings.Retention).UnixNano()}
}

// End unlocks the store.
func (b *Batch) End() {
	b.observeNodes()
	if b.s.newest > b.s.swept {
		b.s.swept = b.s.newest
		b.s.sweep(b.oldest)
		b.s.forgetExporters(b.now)
	}
	b.s.mu.Unlock()
}

// Ahead reports whether points in the batch were dropped because their timestamps were too far
// ahead of the clock.
func (b *Batch) Ahead() bool { return b.ahead }

// SetBack reports whether the data of a node was deleted because the node's clock was set back.
// Call SetBack after End.
func (b *Batch) SetBack() bool { return b.setBack }

// Count adds n to the number of points with the given outcome. Use Count for points that are not
// passed to Add, and for clamped points.
func (b *Batch) Count(o Outcome, n int) { b.s.stats.Points[o] += uint64(n) }

// Add adds a point about the device with the given hw.id. If the hw.id is empty, the point is not
// about a device. The hold parameter is used only for points about containers and for points about
// claims.
func (b *Batch) Add(place *Place, id string, d *Description, hold *Hold, p *Point) {
	outcome := b.add(place, id, d, hold, p)
	b.s.stats.Points[outcome]++
	switch {
	case outcome != Accepted || p.Metric.metricKind == exporterKind: // The expiration of exporters does not depend on the node's clock.
	case p.Metric.metricKind == claimKind: // The timestamp comes from the clock of gpu_cluster, not from the clock of the device's node.
		b.observe(&Place{Cluster: place.Cluster}, p)
	default:
		b.observe(place, p)
	}
}

func (b *Batch) add(place *Place, id string, d *Description, hold *Hold, p *Point) Outcome {
	// Columns and responses use float32. If a value overflows float32, treat the value as absent.
	if v := float64(float32(p.Value)); math.IsNaN(v) || math.IsInf(v, 0) {
		return NoValue
	}
	index, ok := p.Metric.byValue[p.Attribute]
	switch {
	case p.End <= b.oldest:
		return Old
	case gpudata.Ahead(p.End, b.wall):
		b.ahead = true
		return Future
	case p.Metric.metricKind == demandKind:
		return b.addDemand(place.Cluster, p)
	case p.Metric.metricKind == claimKind:
		return b.addClaim(place, id, d, hold, p)
	case p.Metric.metricKind == claimCountKind:
		return b.addClaimCount(place.Cluster, p)
	case p.Metric.metricKind == exporterKind:
		return b.report(place, p)
	case id == "" || !ok && p.Metric.byValue != nil || (p.Metric.metricKind == holderKind || p.Metric.metricKind == spendingKind) && place.Container == "",
		(p.Metric.metricKind == verdictKind || p.Metric.metricKind == errorKind || p.Metric.metricKind == energyKind) && place.Container != "":
		return Ignored
	}
	code, isXID := 0, false
	if p.Metric.metricKind == errorKind {
		if code, isXID = xidCode(p.Attribute); !isXID {
			return Ignored
		}
	}
	dev := b.device(place, id)
	if dev == nil {
		return b.refuse(deviceLimit)
	}
	if isXID && dev.xids.full(code) {
		return b.refuse(codeLimit)
	}
	var h *Holder
	series, readings := &dev.Series, &dev.gauges
	dev.update(d)
	if place.Container != "" {
		h = b.holder(dev, place)
		if h == nil {
			return b.refuse(holderLimit)
		}
		h.update(hold)
		h.newestPoint = max(h.newestPoint, p.End)
		series, readings = &h.Series, &h.gauges
	}
	dev.newestPoint = max(dev.newestPoint, p.End)
	switch p.Metric.metricKind {
	case windowKind:
		length := defaultWindowLength
		if p.Start > 0 && p.Start < p.End && p.End-p.Start <= int64(maxWindowLength) {
			length = time.Duration(p.End - p.Start)
		}
		if n := series.Len(); series == &dev.Series && (n == 0 || p.End > series.End(n-1)) {
			dev.delay = max(0, b.now-p.End)
		}
		series.set(series.row(p.End, float32(length.Seconds()), b.oldest), Field(index), float32(p.Value))
		if p.End > b.s.newest {
			b.s.newest, b.s.step = p.End, length
		}
	case gaugeKind:
		if p.End >= readings[index].at {
			readings[index] = Reading{p.End, p.Value}
		}
		if readings == &dev.gauges && index < numTracked {
			dev.tracks[index].add(p.End, float32(p.Value), int64(cmp.Or(b.s.step, defaultWindowLength)))
		}
	case spendingKind:
		h.spent.addPoint(Spending(index), p, b.s.startedAt, b.oldest)
	case verdictKind:
		dev.judge(index, p)
	case energyKind:
		dev.energy.addPoint(p)
	case errorKind:
		dev.xids.count(code, p, cmp.Or(b.s.step, defaultWindowLength))
	}
	return Accepted
}

// judge stores a verdict. The first verdict from a newer scrape deletes all verdicts from the
// previous scrape. If the newer scrape has no verdict on a signal, the signal is now measured at
// another level (for the board instead of its instances, or vice versa).
func (d *Device) judge(index uint8, p *Point) {
	switch {
	case p.End < d.judged:
		return
	case d.verdicts == nil:
		d.verdicts = make([]Verdict, len(diagnosed))
	case p.End > d.judged:
		clear(d.verdicts)
	}
	d.judged = p.End
	if p.Value > 0 {
		d.verdicts[index] = Available
		return
	}
	reason, _ := diagnose.ParseReason(p.Reason)
	d.verdicts[index] = Missing + Verdict(reason)
}

func (b *Batch) device(place *Place, id string) *Device {
	key := deviceKey{place.Cluster, place.Node, id}
	d := b.s.devices[key]
	if d == nil {
		if len(b.s.devices) >= b.s.settings.MaxDevices {
			return nil
		}
		key = deviceKey{strings.Clone(key.cluster), strings.Clone(key.node), strings.Clone(id)}
		b.s.numbers++
		d = &Device{Number: b.s.numbers, Cluster: key.cluster, Node: key.node, ID: key.id}
		b.s.devices[key] = d
	}
	return d
}

func (b *Batch) holder(d *Device, place *Place) *Holder {
	h := d.holders[*place]
	if h == nil {
		if b.s.holders >= b.s.settings.MaxHolders {
			return nil
		}
		b.s.holders++
		h = &Holder{Place: Place{
			Cluster: d.Cluster, Node: d.Node, Namespace: strings.Clone(place.Namespace), Pod: strings.Clone(place.Pod),
			PodUID: strings.Clone(place.PodUID), Container: strings.Clone(place.Container),
		}}
		if d.holders == nil {
			d.holders = map[Place]*Holder{}
		}
		d.holders[h.Place] = h
	}
	return h
}

func (b *Batch) addDemand(cluster string, p *Point) Outcome {
	if p.Attribute == "" {
		return Ignored
	}
	key := resourceKey{cluster, p.Attribute}
	r := b.s.demand[key]
	if r == nil {
		if len(b.s.demand) >= maxResources {
			return b.refuse(resourceLimit)
		}
		r = &[NumDemands]Reading{}
		b.s.demand[resourceKey{strings.Clone(cluster), strings.Clone(p.Attribute)}] = r
	}
	if p.End >= r[p.Metric.demand].at {
		r[p.Metric.demand] = Reading{p.End, p.Value}
	}
	return Accepted
}

// The sweep method deletes all items whose last point is not later than the time in the oldest
// parameter.
func (s *Store) sweep(oldest int64) {
	for key, d := range s.devices {
		for place, h := range d.holders {
			h.spent.expire(oldest)
			if h.expire(oldest); h.newestPoint <= oldest {
				delete(d.holders, place)
				s.holders--
			}
		}
		d.xids.expire(oldest)
		d.energy.expire(oldest)
		for i := range d.tracks {
			d.tracks[i].expire(oldest)
		}
		if d.expire(oldest); d.newestPoint <= oldest {
			s.holders -= len(d.holders)
			delete(s.devices, key)
		}
	}
	for key, r := range s.demand {
		if !slices.ContainsFunc(r[:], func(r Reading) bool { return r.at > oldest }) {
			delete(s.demand, key)
		}
	}
	s.sweepClaims(oldest)
	s.sweepNodes()
}
