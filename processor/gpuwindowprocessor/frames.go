package gpuwindowprocessor

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	"go.opentelemetry.io/collector/pdata/pmetric"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// frameReader adds the samples of frames to the engine. The first sample of a series is converted to
// a point of metrics and read like one. After that, the engine's handle of the series is known.
type frameReader struct {
	reader *reader
	writer pdatagpu.Writer
	groups *base.Recent[groupKey, *group]
	last   *group // that was read last
	// resource is the engine's current Resource, nil for none.
	resource *window.PlacedResource
	node     string    // what describes the node of the current frame
	lists    [8][]kind // that groups share, the newest ones
	newest   int
}

// minGroups is the minimum number of groups that are cached. Groups with refused series only count
// too, and a group that is no longer cached is read like a new one.
const minGroups = 10_000

func newFrameReader(r *reader, maxSeries int) frameReader {
	return frameReader{
		reader: r, groups: base.NewRecent[groupKey, *group](max(maxSeries, minGroups)),
		writer: pdatagpu.Writer{Remembered: 1}, // the first samples of a device come one after the other
	}
}

// groupKey identifies the series of one device, user or process.
type groupKey struct {
	device   gpudata.Device
	user     user
	scope    gpudata.Scope
	repeated bool
}

// user is the user of a device, zero for the device itself. It is one word long, because there are
// many keys and most have no user.
type user struct{ handle unique.Handle[identity] }

type identity struct {
	holder gpudata.Holder
	pid    string
}

func newUser(who identity) user {
	if who == (identity{}) {
		return user{}
	}
	return user{unique.Make(who)}
}

func (u user) is(who identity) bool {
	if u == (user{}) {
		return who == identity{}
	}
	return u.handle.Value() == who
}

// group has the series of a device, a user or a process, and everything that describes them except
// their samples.
type group struct {
	key  groupKey
	said said
	use  *use // nil if it is empty
	// kinds are the kinds of the samples, which repeat in the same order. The list is shared and
	// never changed.
	kinds []kind
	// series are the engine's handles of them, nil if there is none.
	series []*window.Series
	// resource is the Resource of the group's points, nil before the first.
	resource *window.PlacedResource
	next     *group // the next one in the last frame: frames repeat
	kept     time.Time
}

// said describes the place and the device of a group.
type said struct {
	host, node string
	device     gpudata.Description
}

// use describes the user or the process of a group.
type use struct {
	owner            gpudata.Owner
	allocation       gpudata.Allocation
	strategy, source string
	replicas         int
	containerID      string
}

func (u *use) is(o use) bool { return u == nil && o == (use{}) || u != nil && *u == o }

// kind distinguishes the samples of a group.
type kind struct {
	metric *signal.Metric
	own    string
	more   []gpudata.Attr
}

// read adds all series of frames to the engine.
func (r *frameReader) read(in *window.Ingest, frames []*gpudata.Frame, now time.Time) {
	r.groups.Age(now)
	r.last, r.resource = nil, nil
	for _, f := range frames {
		r.node = describeNode(f)
		f.Each(func(s *gpudata.Series) { r.series(in, f, s, now) })
	}
}

func (r *frameReader) series(in *window.Ingest, f *gpudata.Frame, s *gpudata.Series, now time.Time) {
	g := r.group(f, s, now)
	if g.resource != nil && r.resource != g.resource {
		in.SetPlaced(g.resource)
		r.resource = g.resource
	}
	known := len(g.kinds)
	for i := range s.Samples {
		sample := &s.Samples[i]
		at := g.find(i, sample)
		if !in.Takes(g.series[at]) || sample.Ended {
			g.series[at] = r.resolve(in, g, f, s, i)
			continue
		}
		v := window.Double(sample.Value)
		if sample.Metric.Int {
			v = window.Int(int64(math.Round(sample.Value)))
		}
		in.Add(g.series[at], f.Time, sample.Start, v)
	}
	if len(g.kinds) > known {
		g.kinds, g.series = r.share(g.kinds), slices.Clip(g.series)
	}
}

// share returns an equal list of other groups, if one of the newest is equal.
func (r *frameReader) share(kinds []kind) []kind {
	for _, list := range r.lists {
		if slices.EqualFunc(list, kinds, func(a, b kind) bool { return a.is(b.metric, b.own, b.more) }) {
			return list
		}
	}
	kinds = slices.Clip(kinds)
	r.lists[r.newest], r.newest = kinds, (r.newest+1)%len(r.lists)
	return kinds
}

// describeNode returns the description of the node of a frame as one text.
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

// group returns the group of samples. If its description has changed, it starts again.
func (r *frameReader) group(f *gpudata.Frame, s *gpudata.Series, now time.Time) *group {
	var who identity
	var how use
	if u := s.User; u != nil {
		who.holder = u.Holder
		how = use{owner: u.Owner, allocation: u.Allocation, strategy: u.Strategy, source: u.Source, replicas: u.Replicas}
	}
	if p := s.Process; p != nil {
		who = identity{p.Holder, p.PID}
		how = use{owner: p.Owner, containerID: p.ContainerID}
	}
	g := r.expected(s, who)
	if g == nil {
		key := groupKey{device: s.Device.Device, user: newUser(who), scope: s.Scope, repeated: s.Repeated}
		if g, _ = r.groups.Get(key); g == nil {
			g = &group{key: key}
		}
	}
	if g.kept.IsZero() || now.Sub(g.kept) > base.RecentAge/2 {
		g.kept = now
		r.groups.Put(g.key, g)
	}
	if says := (said{f.Host, r.node, s.Device.Description}); g.said != says || !g.use.is(how) {
		g.said, g.use, g.kinds, g.series, g.resource = says, nil, nil, nil, nil
		if how != (use{}) {
			use := how
			g.use = &use
		}
	}
	if r.last != nil {
		r.last.next = g
	}
	r.last = g
	return g
}

// expected returns the next group of the last frame, nil if it is not that of s.
func (r *frameReader) expected(s *gpudata.Series, who identity) *group {
	if r.last == nil || r.last.next == nil {
		return nil
	}
	g := r.last.next
	if k := &g.key; k.device != s.Device.Device || k.scope != s.Scope || k.repeated != s.Repeated || !k.user.is(who) {
		return nil
	}
	return g
}

// find returns the position of a sample among the kinds. Usually it is the same as in the last
// frame.
func (g *group) find(i int, s *gpudata.Sample) int {
	if i < len(g.kinds) && g.kinds[i].is(s.Metric, s.Own, s.More) {
		return i
	}
	for i := range g.kinds {
		if g.kinds[i].is(s.Metric, s.Own, s.More) {
			return i
		}
	}
	g.kinds, g.series = append(g.kinds, kind{s.Metric, s.Own, s.More}), append(g.series, nil)
	return len(g.kinds) - 1
}

func (k *kind) is(metric *signal.Metric, own string, more []gpudata.Attr) bool {
	return k.metric == metric && k.own == own && sameAttrs(k.more, more)
}

// sameAttrs reports whether attributes are equal. The samples of a component share them, and their
// values are comparable.
func sameAttrs(a, b []gpudata.Attr) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// resolve adds a sample as a point of metrics and returns its series.
func (r *frameReader) resolve(in *window.Ingest, g *group, f *gpudata.Frame, s *gpudata.Series, i int) *window.Series {
	one := *s
	one.Samples = s.Samples[i : i+1]
	md := pmetric.NewMetrics()
	r.writer.WriteSeries(f, &one, md)
	r.reader.read(in, md)
	if g.resource == nil {
		g.resource = &window.PlacedResource{Attrs: slices.Clone(r.reader.resource)}
		for i := range g.resource.Attrs {
			v := &g.resource.Attrs[i].Value
			v.Str = strings.Clone(v.Str)
		}
	}
	r.resource = g.resource
	return r.reader.last
}
