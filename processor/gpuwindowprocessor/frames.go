package gpuwindowprocessor

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// frameReader adds the samples of the frames of one node to the engine. The reader passes
// attributes to the engine only with the first sample of a series. For later samples, the reader
// uses the engine's handle for the series. The engine stores the reader with the node, and the
// node's lock guards the reader.
type frameReader struct {
	groups *componenthelper.Recent[groupKey, *group]
	last   *group          // Last group that was read.
	node   string          // Description of the current frame's node.
	lists  [8][]sampleKind // Most recent lists, which groups can share.
	newest int
	point  window.Point
}

// minGroups is the minimum capacity of the group cache. Groups in which all series are refused are
// also cached. A group that was removed from the cache is treated as a new group.
const minGroups = 10_000

// frameReaderOf returns the reader for the node of a frame, and makes this node the current node.
func frameReaderOf(in *window.Ingest, f *gpudata.Frame, maxSeries int) *frameReader {
	in.SetNode(f.Place.Node)
	r, _ := in.Attached(func() any {
		return &frameReader{groups: componenthelper.NewRecent[groupKey, *group](max(maxSeries, minGroups))}
	}).(*frameReader)
	return r
}

// groupKey identifies the series of one device, user, or process.
type groupKey struct {
	device   gpudata.Device
	user     userID
	scope    gpudata.Scope
	repeated bool
}

// userID identifies the user of a device. For the device itself, the userID is zero. A userID uses
// only one word of memory, because the cache has many keys and most keys have no user.
type userID struct{ handle unique.Handle[userIdentity] }

type userIdentity struct {
	holder gpudata.Holder
	pid    string
}

func newUser(identity userIdentity) userID {
	if identity == (userIdentity{}) {
		return userID{}
	}
	return userID{unique.Make(identity)}
}

func (u userID) matches(identity userIdentity) bool {
	if u == (userID{}) {
		return identity == userIdentity{}
	}
	return u.handle.Value() == identity
}

// group contains the series of a device, a user, or a process, together with their descriptions.
type group struct {
	key  groupKey
	text groupText
	// kinds contains the kinds of the samples, in the order of the last frame. Several groups may
	// share the list, so its elements must not be modified.
	kinds []sampleKind
	// series contains the engine's handles for the series. If a series does not exist, its handle
	// is nil.
	series      []*window.Series
	resource    *window.PlacedResource
	nextInFrame *group // group that followed this group in the last frame; most frames have the same order
	lastKept    time.Time
}

// groupText describes the node, the device, and the user or process of a group.
type groupText struct {
	host, node       string
	device           gpudata.Description
	owner            gpudata.Owner
	allocation       gpudata.Allocation
	strategy, source string
	replicas         int
	containerID      string
}

// sampleKind identifies a kind of sample in a group.
type sampleKind struct {
	metric *signal.Metric
	own    string
	more   []gpudata.Attr
}

// The read method adds all series of a frame to the engine, except those of processes on unknown
// devices.
func (r *frameReader) read(in *window.Ingest, f *gpudata.Frame, now time.Time) {
	r.groups.Age(now)
	r.last, r.node = nil, describeNode(f)
	f.Each(func(s *gpudata.Series) { r.series(in, f, s, now) })
}

func (r *frameReader) series(in *window.Ingest, f *gpudata.Frame, s *gpudata.Series, now time.Time) {
	g := r.group(f, s, now)
	in.SetResource(g.resource)
	kindsBefore := len(g.kinds)
	for i := range s.Samples {
		sample := &s.Samples[i]
		at := g.indexOf(i, sample)
		v := valueOf(sample)
		if in.CanAdd(g.series[at]) {
			in.Add(g.series[at], f.Time, sample.Start, v)
		} else {
			g.setSeries(at, r.resolve(in, f.Time, v, s, sample))
		}
	}
	if len(g.kinds) > kindsBefore {
		g.kinds, g.series = r.sharedKinds(g.kinds), slices.Clip(g.series)
	}
}

// If one of the most recent lists is equal to the kinds list, sharedKinds returns that recent list.
// Otherwise, sharedKinds adds the kinds list to the most recent lists, and returns kinds.
func (r *frameReader) sharedKinds(kinds []sampleKind) []sampleKind {
	for _, list := range r.lists {
		if slices.EqualFunc(list, kinds, func(a, b sampleKind) bool { return a.matches(b.metric, b.own, b.more) }) {
			return list
		}
	}
	kinds = slices.Clip(kinds)
	r.lists[r.newest], r.newest = kinds, (r.newest+1)%len(r.lists)
	return kinds
}

// describeNode returns the description of a frame's node as a single string.
func describeNode(f *gpudata.Frame) string {
	if len(f.NodeLabels) == 0 {
		return f.HostType
	}
	text := []string{f.HostType}
	for _, key := range slices.Sorted(maps.Keys(f.NodeLabels)) {
		text = append(text, key, f.NodeLabels[key])
	}
	return strings.Join(text, "\x00")
}

// group returns the group of a series. If the description of the group has changed, the group is
// reset.
func (r *frameReader) group(f *gpudata.Frame, s *gpudata.Series, now time.Time) *group {
	var identity userIdentity
	text := groupText{host: f.Host, node: r.node, device: s.Device.Description}
	if u := s.User; u != nil {
		identity.holder = u.Holder
		text.owner, text.allocation, text.strategy, text.source, text.replicas = u.Owner, u.Allocation, u.Strategy, u.Source, u.Replicas
	}
	if p := s.Process; p != nil {
		identity = userIdentity{p.Holder, p.PID}
		text.owner, text.containerID = p.Owner, p.ContainerID
	}
	g := r.expected(s, identity)
	if g == nil {
		key := groupKey{device: s.Device.Device, user: newUser(identity), scope: s.Scope, repeated: s.Repeated}
		if g, _ = r.groups.Get(key); g == nil {
			g = &group{key: key}
		}
	}
	if g.lastKept.IsZero() || now.Sub(g.lastKept) > componenthelper.RecentAge/2 {
		g.lastKept = now
		r.groups.Put(g.key, g)
	}
	if g.resource == nil || g.text != text {
		g.text, g.kinds, g.series, g.resource = text, nil, nil, resourceOf(f, s)
	}
	if r.last != nil {
		r.last.nextInFrame = g
	}
	r.last = g
	return g
}

// The expected method returns the group that followed the previous group in the last frame. If the
// series s does not belong to this group, the result is nil.
func (r *frameReader) expected(s *gpudata.Series, identity userIdentity) *group {
	if r.last == nil || r.last.nextInFrame == nil {
		return nil
	}
	g := r.last.nextInFrame
	if k := &g.key; k.device != s.Device.Device || k.scope != s.Scope || k.repeated != s.Repeated || !k.user.matches(identity) {
		return nil
	}
	return g
}

// indexOf returns the index of the sample's kind, and adds the kind if it is new. The index i is
// checked first, because the order of samples is usually the same as in the last frame.
func (g *group) indexOf(i int, s *gpudata.Sample) int {
	if i < len(g.kinds) && g.kinds[i].matches(s.Metric, s.Own, s.More) {
		return i
	}
	for i := range g.kinds {
		if g.kinds[i].matches(s.Metric, s.Own, s.More) {
			return i
		}
	}
	g.kinds, g.series = append(g.kinds, sampleKind{s.Metric, s.Own, s.More}), append(g.series, nil)
	return len(g.kinds) - 1
}

// setSeries stores the handle of the kind with the given index. Kinds that differ only in
// attributes that describe samples have the same series. The engine uses the attributes of the
// sample that was last resolved, so setSeries removes the handles of the other kinds.
func (g *group) setSeries(at int, s *window.Series) {
	for i := range g.kinds {
		if g.kinds[i].metric == g.kinds[at].metric && g.kinds[i].own == g.kinds[at].own {
			g.series[i] = nil
		}
	}
	g.series[at] = s
}

func (k *sampleKind) matches(metric *signal.Metric, own string, more []gpudata.Attr) bool {
	return k.metric == metric && k.own == own && sameAttrs(k.more, more)
}

// sameAttrs reports whether two lists of attributes are equal. Usually, both lists share the same
// memory, because the samples of a component share their lists. All values are comparable.
func sameAttrs(a, b []gpudata.Attr) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// resourceOf returns the Resource of a series.
func resourceOf(f *gpudata.Frame, s *gpudata.Series) *window.PlacedResource {
	attrs := pcommon.NewMap()
	pdatagpu.PutResource(attrs, f, s)
	return &window.PlacedResource{Key: resourceKeyOf(attrs), Attrs: appendAttrs(nil, attrs)}
}

// The resolve method adds a sample of a series that has no handle or whose handle can no longer be
// used, and returns the new handle.
func (r *frameReader) resolve(in *window.Ingest, at int64, v window.Number, s *gpudata.Series, sample *gpudata.Sample) *window.Series {
	name, version := s.ScopeOf(sample).Text()
	in.SetScope(window.Scope{Name: name, Version: version})
	m := pdatagpu.MetricOf(sample)
	in.SetMetric(window.Metric{Name: m.Name, Unit: m.Unit, Description: m.Description, Kind: m.Kind})
	attrs := pcommon.NewMap()
	pdatagpu.PutPoint(attrs, s, sample)
	setAttributes(&r.point, attrs, nil)
	r.point.Time, r.point.Start, r.point.Value = at, sample.Start, v
	series, _ := in.Resolve(&r.point)
	return series
}

// valueOf returns the value of a sample. If a sample marks the end of a series, valueOf returns
// NaN.
func valueOf(s *gpudata.Sample) window.Number {
	switch {
	case s.Ended:
		return window.Double(math.NaN())
	case s.Metric.Int:
		return window.Int(int64(math.Round(s.Value)))
	default:
		return window.Double(s.Value)
	}
}
