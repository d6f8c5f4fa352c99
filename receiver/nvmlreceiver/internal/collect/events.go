package collect

import (
	"errors"
	"strconv"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// maxEvents bounds the events that one collection takes. Others are taken by the next one.
const maxEvents = 1000

// countedEvents marks XID errors as counted one by one.
var countedEvents = []gpudata.Attr{{Key: signal.EventSource, Value: signal.EventSourceCounter}}

// watch has the XID errors of a board or an instance.
type watch struct {
	// since is when the driver began to keep a board's events, zero where it does not.
	// refused says that it will not.
	since   time.Time
	refused bool
	// xids are the errors so far, by code; news says that one came in this collection.
	xids map[uint64]xidCount
	news bool
}

// xidCount is how often a code came after a time.
type xidCount struct {
	start time.Time
	n     float64
}

// watchXIDs has the driver keep the XID errors of a board.
func (r *reader) watchXIDs(board nvml.Device, m *memo) {
	if !r.events || r.lost || m.watch.refused || !m.watch.since.IsZero() {
		return
	}
	if r.eventSet == 0 {
		set, err := r.lib.NewEventSet()
		if r.failedApart(err) {
			m.watch.refused = true
			return
		}
		r.eventSet = set
	}
	if r.watched[board] != m.device.ID { // it was lost meanwhile
		err := r.lib.WatchXIDs(board, r.eventSet)
		if r.failedApart(err) {
			m.watch.refused = true
			if errors.Is(err, nvml.ErrUnknown) {
				r.endEvents(r.lib)
			}
			return
		}
	}
	m.watch.since, r.watched[board] = r.options.Now(), m.device.ID
}

// endEvents gives the set of events back. Boards are watched anew by the next collection.
func (c *Collector) endEvents(lib Library) {
	if c.eventSet == 0 {
		return
	}
	_ = lib.FreeEventSet(c.eventSet) // There is nothing to be done about it.
	c.eventSet = 0
	clear(c.watched)
	for _, generation := range []map[string]*memo{c.known, c.met} {
		for _, m := range generation {
			m.watch.since = time.Time{}
		}
	}
}

// takeEvents counts the XID errors since the last collection.
func (c *Collector) takeEvents(lib Library) {
	if c.eventSet == 0 {
		return
	}
	for range maxEvents {
		e, err := lib.NextXID(c.eventSet)
		switch {
		case errors.Is(err, nvml.ErrTimeout):
			return
		case err != nil:
			c.stats.CallsFailed++
			c.endEvents(lib)
			return
		}
		m := c.subject(lib, e)
		if m == nil || e.Code == 0 || e.Code > catalogue.MaxCode {
			c.stats.ValuesDropped++
			continue
		}
		count, ok := m.watch.xids[e.Code]
		if !ok {
			count.start = c.ended
		}
		count.n++
		if m.watch.xids == nil {
			m.watch.xids = map[uint64]xidCount{}
		}
		m.watch.xids[e.Code], m.watch.news = count, true
	}
}

// subject returns what is remembered of the device of an event: its instance, else its board,
// which may be lost by now and no longer say who it is.
func (c *Collector) subject(lib Library, e nvml.XIDEvent) *memo {
	id, err := lib.UUID(e.Device)
	if err != nil {
		id = c.watched[e.Device]
	}
	board := c.known[id]
	if board == nil || e.Instance == nvml.NoInstance {
		return board
	}
	of := instanceOf(board.device, e.Instance).ID
	for _, m := range c.known {
		if m.device.ID == of {
			return m
		}
	}
	return board
}

// xidSamples adds the XID errors of a board that is watched, and those of its instances, or a 0
// where none has come.
func (r *reader) xidSamples(m *memo) {
	since := m.watch.since
	if since.IsZero() || since.After(r.began) || since.Equal(r.began) {
		return // nothing was observed yet
	}
	add := func(m *memo) {
		if len(m.watch.xids) == 0 {
			r.point(m.device, gpudata.Sample{Metric: signal.HwErrors, Start: since.UnixNano()})
		}
		r.xids(m)
	}
	add(m)
	for i := range r.instances {
		add(r.instances[i].memo)
	}
}

// xids adds the XID errors of a device.
func (c *Collector) xids(m *memo) {
	m.watch.news = false
	for code, count := range m.watch.xids {
		c.point(m.device, gpudata.Sample{
			Metric: signal.HwErrors, Own: signal.ErrorTypeXIDPrefix + strconv.FormatUint(code, 10), More: countedEvents,
			Start: count.start.UnixNano(), Value: count.n,
		})
	}
}

// lastXIDs adds the XID errors of a device that is lost since it had them.
func (c *Collector) lastXIDs(m *memo) {
	if m.watch.news {
		c.xids(m)
	}
}
