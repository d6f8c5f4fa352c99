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

// maxEvents is the maximum number of events that are read per collection. Remaining events are read
// in the next collection.
const maxEvents = 1000

// countedEvents is the attribute that marks XID errors whose source counts every event.
var countedEvents = []gpudata.Attr{{Key: signal.EventSource, Value: signal.EventSourceCounter}}

// xidState contains the XID errors of a board or an instance that have been counted so far.
type xidState struct {
	// The since field is the time at which the driver started to record the events of a board, or
	// zero if the driver does not record events. The refused field is true if an attempt to make
	// the driver record events has failed, after which no further attempts are made.
	since   time.Time
	refused bool
	// The xids map contains the number of errors for each XID code. The hasNew field is true if the
	// current collection has read a new error.
	xids   map[uint64]xidCount
	hasNew bool
}

// xidCount is the number of errors with one XID code that have occurred since the start time.
type xidCount struct {
	start time.Time
	n     float64
}

// watchXIDs makes the driver record the XID errors of a board.
func (r *reader) watchXIDs(board nvml.Device, m *deviceCache) {
	if !r.events || r.lost || m.watch.refused || !m.watch.since.IsZero() {
		return
	}
	if r.eventSet == 0 {
		set, err := r.lib.NewEventSet()
		if r.failedOptional(err) {
			m.watch.refused = true
			return
		}
		r.eventSet = set
	}
	if r.watched[board] != m.device.ID { // The board is new, or was lost in the meantime.
		err := r.lib.WatchXIDs(board, r.eventSet)
		if r.failedOptional(err) {
			m.watch.refused = true
			if errors.Is(err, nvml.ErrUnknown) {
				r.endEvents(r.lib)
			}
			return
		}
	}
	m.watch.since, r.watched[board] = r.options.Now(), m.device.ID
}

// endEvents frees the event set. The next call to watchXIDs creates a new event set, and each board
// is watched again when it is read the next time.
func (c *Collector) endEvents(lib Library) {
	if c.eventSet == 0 {
		return
	}
	_ = lib.FreeEventSet(c.eventSet) // Ignore the error, because it cannot be handled.
	c.eventSet = 0
	clear(c.watched)
	for _, generation := range []map[string]*deviceCache{c.previous, c.current} {
		for _, m := range generation {
			m.watch.since = time.Time{}
		}
	}
}

// readEvents counts the XID errors that occurred since the last collection.
func (c *Collector) readEvents(lib Library) {
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
		m := c.eventDevice(lib, e)
		if m == nil || e.Code == 0 || e.Code > catalogue.MaxCode {
			c.stats.ValuesDropped++
			continue
		}
		count, ok := m.watch.xids[e.Code]
		if !ok {
			count.start = c.collectionEnd
		}
		count.n++
		if m.watch.xids == nil {
			m.watch.xids = map[uint64]xidCount{}
		}
		m.watch.xids[e.Code], m.watch.hasNew = count, true
	}
}

// eventDevice returns the cached state of the device on which an event occurred: the instance or,
// if the instance is unknown, the board. If the board is unknown, eventDevice returns nil. If a
// lost board no longer returns its UUID, eventDevice uses the UUID that was known when the receiver
// started to watch the board.
func (c *Collector) eventDevice(lib Library, e nvml.XIDEvent) *deviceCache {
	id, err := lib.UUID(e.Device)
	if err != nil {
		id = c.watched[e.Device]
	}
	board := c.previous[id]
	if board == nil || e.Instance == nvml.NoInstance {
		return board
	}
	instanceID := instanceOf(board.device, e.Instance).ID
	for _, m := range c.previous {
		if m.device.ID == instanceID {
			return m
		}
	}
	return board
}

// xidSamples adds the XID error samples of a watched board and its instances. For a device without
// errors, xidSamples adds a sample with the value 0.
func (r *reader) xidSamples(m *deviceCache) {
	since := m.watch.since
	if since.IsZero() || since.After(r.collectionStart) || since.Equal(r.collectionStart) {
		return // no events have been observed yet
	}
	add := func(m *deviceCache) {
		if len(m.watch.xids) == 0 {
			r.point(m.device, gpudata.Sample{Metric: signal.HwErrors, Start: since.UnixNano()})
		}
		r.xids(m)
	}
	add(m)
	for i := range r.instances {
		add(r.instances[i].deviceCache)
	}
}

// The xids method adds a sample for each XID code that occurred on a device.
func (c *Collector) xids(m *deviceCache) {
	m.watch.hasNew = false
	for code, count := range m.watch.xids {
		c.point(m.device, gpudata.Sample{
			Metric: signal.HwErrors, Own: signal.ErrorTypeXIDPrefix + strconv.FormatUint(code, 10), More: countedEvents,
			Start: count.start.UnixNano(), Value: count.n,
		})
	}
}

// lostDeviceXIDs adds the XID error samples of a device that was lost after new errors occurred on
// it.
func (c *Collector) lostDeviceXIDs(m *deviceCache) {
	if m.watch.hasNew {
		c.xids(m)
	}
}
