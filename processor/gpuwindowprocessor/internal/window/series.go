package window

import (
	"iter"
	"math"
	"slices"
	"strings"
)

// MaxSampleTimes is the maximum number of distinct sample times of one device in one window. The
// limit is sufficient for one sample per second over one day.
const MaxSampleTimes = 1 << 17

// The exported fields of the following types are part of the state that Store returns.

// place is a Resource that has devices.
type place struct {
	Key     ResourceKey
	Info    *Resource
	windows perWindow[placeWindow]
	seq     uint64
	devices map[string]*device
	list    []*device // devices in the order in which they were created
	node    *node
}

func (p *place) isEmpty() bool { return len(p.devices) == 0 }

// placeWindow contains the Resource of a place that was last seen in one window.
type placeWindow struct {
	Time int64
	Info *Resource
}

// Resource contains the attributes of a Resource. A Resource must not be modified after it is
// created.
type Resource struct {
	Attrs     Attrs
	SchemaURL string
}

// The with method returns a Resource that has additional attributes. If an attribute already
// exists, the new value replaces the old value.
func (r *Resource) with(attrs []byte, schemaURL string) *Resource {
	if string(r.Attrs) == string(attrs) && r.SchemaURL == schemaURL {
		return r
	}
	d := details{Attrs: r.Attrs}
	d.merge(Attrs(attrs), 0)
	if d.Attrs == r.Attrs && r.SchemaURL == schemaURL {
		return r
	}
	return &Resource{Attrs: d.Attrs, SchemaURL: strings.Clone(schemaURL)}
}

// device is a device at a place. All points without a device share one device that has no ID.
type device struct {
	ID string
	deviceState
	windows     perWindow[deviceWindow]
	outputs     []*output
	place       *place
	seq         uint64
	description *description       // Description of the last sample that was resolved.
	consumed    int                // Number of series that rules read.
	series      []*Series          // Series in the order in which they were created.
	byIdentity  map[string]*Series // Nil if there are few series.
	carried     []*Series          // Series that windows carry.
	ordered     bool               // Whether outputs and carried series are sorted by their metrics.
}

type deviceState struct {
	Known          Attrs // Descriptive attributes as of the last closed window.
	Before         int64 // Last sample time in closed windows, or 0 if there is none.
	Newest, Second int64 // The two latest sample times, including samples that no rule reads. A missing time is 0.
	SentEnd        int64 // End of the last window whose coverage or number of samples was sent, or 0 if there is none.
}

// description contains the attributes of a point that describe its device. A description must not
// be modified after it is created.
type description struct{ attrs Attrs }

var noDescription description

// deviceWindow is the state of a device in one window.
type deviceWindow struct {
	Times   []int64 // distinct times of the samples that rules read, in order of arrival
	Known   details
	latest  int64        // The latest time in Times.
	hint    int          // The index that timeIndex last returned.
	applied *description // Description whose attributes are all in Known.
}

// output is one result series of a rule for one device. A rule has one output for each combination
// of values of its attributes.
type output struct {
	key      *outputKey
	lastSent int64 // end of the last window in which the output was sent, or 0 if there is none
	windows  perWindow[outputWindow]
	feeders  int // number of series that contribute to the output
}

type outputWindow struct {
	Function function
	Extra    *details // attributes that neither identify the series nor describe the device
}

// Series is an input series. A Series may be passed to Ingest.Add only while Ingest.CanAdd returns
// true for the Series.
type Series struct {
	seriesState
	shape       *shape // shape of the last sample that was resolved
	windows     perWindow[seriesWindow]
	description *description // Description of the last sample that was resolved.
	device      *device      // Nil if the series was refused.
	outputs     []*output
	next        *Series // series that followed this series in the last batch, and is expected to follow it in the next batch
	seq         uint64
	ended       bool
}

type seriesState struct {
	// Last is the latest sample time, and Start is the start time of that sample. If Last is 0, the
	// next sample is treated as the first one. For a counter that a rule reads, Value is the value
	// at the time Last, and Moved is the time at which the value last changed. For other series,
	// Value and Moved are not set.
	Last, Moved, Start int64
	Value              float64
	Seen               int64        // Wall clock time at which the last accepted sample arrived.
	Sent               *annotations // Annotations of the last value that was sent, or nil if there is none.
}

// seriesWindow is the state of a series in one window.
type seriesWindow struct {
	// Marks and More contain one bit for each sample time of the device. A bit is set if the series
	// has a sample with the corresponding sample time. Marks contains the first 64 bits, and More
	// contains the others.
	Marks uint64
	More  *[]uint64
	Last  *lastValue // only set for a series that windows carry
}

type lastValue struct {
	Time, Start int64
	Value       Number
	Notes       *annotations // nil if there is no value yet
}

// Ended reports whether the series has ended.
func (s *Series) Ended() bool { return s.ended }

// The matches method reports whether the point has the same device and the same attributes, in the
// same order, as the last sample of the series that was resolved.
func (s *Series) matches(p *Point) bool {
	return s.device.ID == p.Device && string(s.shape.attrs) == string(p.Own) && string(s.shape.notes.Attrs) == string(p.Notes) &&
		string(s.description.attrs) == string(p.About)
}

func (n *node) addPlace(p *place) {
	p.node, p.seq, p.devices = n, n.e.nextSeq(), map[string]*device{}
	n.places[p.Key] = p
	n.order = append(n.order, p)
}

func (p *place) addDevice(d *device) {
	d.place, d.seq = p, p.node.e.nextSeq()
	p.devices[d.ID] = d
	p.list = append(p.list, d)
}

// addSeries adds a series to the device. The series must already be included in the number of
// series.
func (d *device) addSeries(s *Series) {
	s.device, s.description, s.seq = d, &noDescription, d.place.node.e.nextSeq()
	for i := range s.shape.outputs {
		key := &s.shape.outputs[i]
		at := slices.IndexFunc(d.outputs, func(o *output) bool { return o.key.Rule == key.Rule && o.key.Own == key.Own })
		if at < 0 {
			at = len(d.outputs)
			d.outputs = append(d.outputs, &output{})
		}
		o := d.outputs[at]
		o.key = key
		o.feeders++
		s.outputs = append(s.outputs, o)
	}
	if s.shape.carried {
		d.carried = append(d.carried, s)
	}
	d.ordered = false
	if s.shape.consumed {
		d.consumed++
	}
	d.series = append(d.series, s)
	switch {
	case d.byIdentity != nil:
		d.byIdentity[s.shape.identity] = s
	case len(d.series) > few:
		d.byIdentity = make(map[string]*Series, 2*few)
		for _, s := range d.series {
			d.byIdentity[s.shape.identity] = s
		}
	}
}

// few is the maximum number of series of a device for which a linear search is used. A GPU usually
// has fewer series. A map would need more memory than the list of the series.
const few = 128

// The find method returns the series with the given identity, or nil if there is none.
func (d *device) find(identity string) *Series {
	if d.byIdentity != nil {
		return d.byIdentity[identity]
	}
	for _, s := range d.series {
		if s.shape.identity == identity {
			return s
		}
	}
	return nil
}

// perWindow contains one state for each open window. The states of windows that have been sent are
// reused. The first state is stored in the struct itself, because usually only one window is open.
type perWindow[T any] struct {
	first inWindow[T]
	more  *[]inWindow[T] // nil until two windows are open at the same time
}

type inWindow[T any] struct {
	Window *openWindow // nil until the state is used
	State  T
}

// The in method returns the state for the window w. If the second result is true, the state is
// either empty or still contains the data of a window that has been sent.
func (p *perWindow[T]) in(w *openWindow) (state *T, isNew bool) {
	if p.first.Window == w {
		return &p.first.State, false
	}
	free := &p.first
	if free.Window != nil && !free.Window.sent.Load() {
		free = nil
	}
	for at := range p.others() {
		if at.Window == w {
			return &at.State, false
		} else if at.Window.sent.Load() {
			free = at
		}
	}
	if free == nil {
		if p.more == nil {
			p.more = &[]inWindow[T]{}
		}
		*p.more = append(*p.more, inWindow[T]{})
		free = &(*p.more)[len(*p.more)-1]
	}
	free.Window = w
	return &free.State, true
}

// The find method returns the state for the window w, or nil if there is no such state.
func (p *perWindow[T]) find(w *openWindow) *T {
	for at := range p.open() {
		if at.Window == w {
			return &at.State
		}
	}
	return nil
}

// The open method iterates over the states of all windows that have not been sent.
func (p *perWindow[T]) open() iter.Seq[*inWindow[T]] {
	return func(yield func(*inWindow[T]) bool) {
		if w := p.first.Window; w != nil && !w.sent.Load() && !yield(&p.first) {
			return
		}
		for at := range p.others() {
			if !at.Window.sent.Load() && !yield(at) {
				return
			}
		}
	}
}

// The others method iterates over all states except the first.
func (p *perWindow[T]) others() iter.Seq[*inWindow[T]] {
	return func(yield func(*inWindow[T]) bool) {
		if p.more == nil {
			return
		}
		for i := range *p.more {
			if !yield(&(*p.more)[i]) {
				return
			}
		}
	}
}

func (d *device) in(w *openWindow) *deviceWindow {
	dw, isNew := d.windows.in(w)
	if isNew {
		*dw = deviceWindow{Times: dw.Times[:0], Known: details{Attrs: d.Known, Time: math.MinInt64}}
	}
	return dw
}

func (s *Series) in(w *openWindow) *seriesWindow {
	sw, isNew := s.windows.in(w)
	if isNew {
		sw.Marks, sw.More = 0, nil
		if sw.Last != nil {
			*sw.Last = lastValue{}
		}
	}
	return sw
}

func (o *output) in(w *openWindow) *outputWindow {
	ow, isNew := o.windows.in(w)
	switch {
	case ow.Function == nil:
		ow.Function = o.key.Rule.function.make()
	case isNew:
		ow.Function.reset()
		ow.Extra = nil
	}
	return ow
}

// recordTime updates the two latest sample times of the device.
func (d *device) recordTime(t int64) {
	switch {
	case t > d.Newest:
		d.Second, d.Newest = d.Newest, t
	case t < d.Newest && t > d.Second:
		d.Second = t
	}
}

// lastSampleBefore returns the latest sample time of the device that is before t, or 0 if there is
// none.
func (d *device) lastSampleBefore(t int64, era int) int64 {
	times := []int64{d.Newest, d.Second, d.Before}
	for at := range d.windows.open() {
		if at.Window.era == era {
			times = append(times, at.State.Times...)
		}
	}
	found := int64(0)
	for _, sampleTime := range times {
		if sampleTime < t {
			found = max(found, sampleTime)
		}
	}
	return found
}

// timeIndex returns the index of t in the device's list of sample times, and adds t if it is new.
// If the list would exceed MaxSampleTimes, timeIndex returns false.
func (dw *deviceWindow) timeIndex(t int64) (int, bool) {
	n, at := len(dw.Times), dw.hint
	switch {
	case n == 0 || t > dw.latest:
		at = n
	case dw.Times[at] == t:
	case at+1 < n && dw.Times[at+1] == t:
		// If all samples of one series arrive before the samples of the next series, the sample
		// times repeat in the same order.
		at++
	default:
		if at = slices.Index(dw.Times, t); at < 0 {
			at = n
		}
	}
	if at >= MaxSampleTimes {
		return 0, false
	}
	if at == n {
		dw.Times = append(dw.Times, t)
		dw.latest = max(dw.latest, t)
	}
	dw.hint = at
	return at, true
}

// The mark method records that the series has a sample at one of the device's sample times. The at
// parameter is the index of that time. The result reports whether the sample was already recorded.
func (sw *seriesWindow) mark(at int) (seen bool) {
	bits := &sw.Marks
	if at >= 64 {
		if sw.More == nil {
			sw.More = &[]uint64{}
		}
		for len(*sw.More) < at/64 {
			*sw.More = append(*sw.More, 0)
		}
		bits = &(*sw.More)[at/64-1]
	}
	bit := uint64(1) << (at % 64)
	seen = *bits&bit != 0
	*bits |= bit
	return seen
}
