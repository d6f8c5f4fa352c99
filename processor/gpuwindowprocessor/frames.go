package gpuwindowprocessor

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/pmetric"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// frameReader hands frames to the engine. The first sample of a series goes as the point that
// it is in metrics; then the engine's handle of the series is known.
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

func newFrameReader(r *reader, maxSeries int) frameReader {
	return frameReader{
		reader: r, groups: base.NewRecent[groupKey, *group](maxSeries),
		writer: pdatagpu.Writer{Remembered: 1}, // the first samples of a device come one after the other
	}
}

// groupKey is what tells the series of one device, user or process from others of that name.
type groupKey struct {
	device   gpudata.Device
	holder   gpudata.Holder
	pid      string
	scope    gpudata.Scope
	repeated bool
}

// group are the series of a device, a user or a process, with all that is said about them
// beside their samples.
type group struct {
	key  groupKey
	said said
	// kinds are those of the samples that came, which repeat in their order. The list is shared
	// and never changed.
	kinds []kind
	// series are the engine's handles of them, nil where it keeps nothing of one.
	series []*window.Series
	// resource is that of the group's points, nil before the first.
	resource *window.PlacedResource
	next     *group // that followed in the last frame: frames repeat
	kept     time.Time
}

// said is what the points of a group say beside its key and their own attributes.
type said struct {
	host, node       string
	owner            gpudata.Owner
	device           gpudata.Description
	allocation       gpudata.Allocation
	strategy, source string
	replicas         int
	containerID      string
}

// kind is what tells a sample from the others of a group.
type kind struct {
	metric *signal.Metric
	own    string
	more   []gpudata.Attr
}

// read hands all series of frames to the engine.
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
		if handle := g.series[at]; handle == nil || handle.Ended() || sample.Ended {
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

// share returns a list that other groups have, if one of the newest is like this one.
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

// describeNode returns what describes the node of a frame as one text.
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

// group returns the group of samples. One of which something else is said now begins anew.
func (r *frameReader) group(f *gpudata.Frame, s *gpudata.Series, now time.Time) *group {
	key := groupKey{device: s.Device.Device, scope: s.Scope, repeated: s.Repeated}
	says := said{host: f.Host, node: r.node, device: s.Device.Description}
	if u := s.User; u != nil {
		key.holder, says.owner = u.Holder, u.Owner
		says.allocation, says.strategy, says.source, says.replicas = u.Allocation, u.Strategy, u.Source, u.Replicas
	}
	if p := s.Process; p != nil {
		key.holder, key.pid, says.owner = p.Holder, p.PID, p.Owner
		says.containerID = p.ContainerID
	}
	var g *group
	if r.last != nil && r.last.next != nil && r.last.next.key == key {
		g = r.last.next
	} else if g, _ = r.groups.Get(key); g == nil {
		g = &group{key: key}
	}
	if g.kept.IsZero() || now.Sub(g.kept) > base.RecentAge/2 {
		g.kept = now
		r.groups.Put(key, g)
	}
	if g.said != says {
		g.said, g.kinds, g.series, g.resource = says, nil, nil, nil
	}
	if r.last != nil {
		r.last.next = g
	}
	r.last = g
	return g
}

// find returns the position of a sample among the kinds, which most often is the one that it
// had in the last frame.
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

// sameAttrs reports whether attributes are the same. Those of a component are shared by its
// samples, and their values can be compared.
func sameAttrs(a, b []gpudata.Attr) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// resolve takes in a sample as the point that it is in metrics, and returns its series.
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
