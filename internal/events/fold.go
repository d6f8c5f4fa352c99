package events

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// equal is the key of an event. Events with the same key are merged.
type equal struct {
	Name   string `json:"name"`
	place  gpudata.Place
	Device string    `json:"device,omitempty"`
	Own    [2]string `json:"own"`
	// Events of different holders are not equal, because a merged event names only one holder.
	Holder gpudata.Holder `json:"holder,omitzero"`
}

func keyOf(e *Event) equal {
	return equal{Name: e.Name, place: e.Place, Device: e.Device, Own: e.Own, Holder: e.Holder}
}

// fold contains the events that were merged since an event with the same key was sent.
type fold struct {
	// Since is the time at which the last event with this key was sent.
	Since int64
	// Waiting is the merged event that has not been sent yet, or nil if there is none.
	Waiting *Event `json:",omitempty"`
}

// outlet merges equal events and limits the number of events per minute for all places together. An
// outlet is safe for concurrent use.
type outlet struct {
	set Settings

	mu    sync.Mutex
	folds map[equal]*fold
	// minute is the start of the current minute.
	minute int64
	// sent is the number of events sent in the current minute.
	sent       int
	suppressed int64
}

// put appends the event to the list of events to send, unless an equal event was sent within the
// interval or the maximum number of events in this minute has been reached. If an equal event was
// sent within the interval, put merges the event with the other equal events that followed the sent
// event.
func (o *outlet) put(out []Event, e Event, now int64) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	e.Count = max(e.Count, 1)
	k := keyOf(&e)
	if f := o.folds[k]; f != nil {
		if w := f.Waiting; w != nil {
			e.Count += w.Count
			if from, ok := w.Texts[AttrFrom]; ok {
				e.Texts = maps.Clone(e.Texts)
				e.Texts[AttrFrom] = from
			}
			e.Severity = max(e.Severity, w.Severity)
			e.describe()
		}
		f.Waiting = &e
		return out
	}
	before := len(out)
	if out = o.sendLocked(out, e, now); len(out) > before {
		o.folds[k] = &fold{Since: now}
	}
	return out
}

// send appends the event to the list of events to send, unless the maximum number of events in this
// minute has been reached.
func (o *outlet) send(out []Event, e Event, now int64) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sendLocked(out, e, now)
}

func (o *outlet) sendLocked(out []Event, e Event, now int64) []Event {
	if !o.allows(now) {
		if e.Name == XIDIncident { // the XIDs of the incident are also counted separately
			e.Count = 1
		}
		o.suppressed += e.Count
		return out
	}
	return append(out, e)
}

// tick appends the merged events whose interval has ended. If the last argument is true, tick
// appends all merged events.
func (o *outlet) tick(out []Event, now int64, all bool) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	out = o.putSuppressedLocked(out, now, false)
	var due []Event
	for k, f := range o.folds {
		if isNear(now, f.Since, o.set.Interval) && !all {
			continue
		}
		if f.Waiting == nil {
			delete(o.folds, k)
			continue
		}
		due = append(due, *f.Waiting)
		f.Since, f.Waiting = now, nil
	}
	slices.SortFunc(due, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), a.Place.Compare(b.Place), cmp.Compare(a.Device, b.Device),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Own[1], b.Own[1]))
	})
	for _, e := range due {
		out = o.sendLocked(out, e, now)
	}
	return out
}

// isNear reports whether two times differ by less than a duration. Batches that arrive at the same
// time may be processed in any order, so the current time may be slightly earlier than a stored
// time.
func isNear(a, b int64, d time.Duration) bool { return time.Duration(a-b).Abs() < d }

// allows reports whether another event may be sent in this minute.
func (o *outlet) allows(now int64) bool {
	if !isNear(now, o.minute, time.Minute) {
		o.minute, o.sent = now, 0
	}
	if o.sent >= o.set.MaxPerMinute {
		return false
	}
	o.sent++
	return true
}

// putSuppressed appends an event that contains the number of suppressed events. The event is
// appended at the end of the minute, or immediately if the last argument is true.
func (o *outlet) putSuppressed(out []Event, now int64, atOnce bool) []Event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.putSuppressedLocked(out, now, atOnce)
}

func (o *outlet) putSuppressedLocked(out []Event, now int64, atOnce bool) []Event {
	if o.suppressed == 0 || !atOnce && isNear(now, o.minute, time.Minute) {
		return out
	}
	n := o.suppressed
	o.suppressed = 0
	return append(out, Event{
		Name: Suppressed, Time: now, Severity: Warn, Count: n,
		Body: fmt.Sprintf("%d GPU events were suppressed: more than %d in a minute.", n, o.set.MaxPerMinute),
	})
}

// The of method returns the folds for the events of a place.
func (o *outlet) of(at gpudata.Place) (folds []storedFold) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, f := range o.folds {
		if k.place == at {
			folds = append(folds, storedFold{k, *f})
		}
	}
	return folds
}

// restore adds the stored folds of a place.
func (o *outlet) restore(s *Stored) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range s.Folds {
		f.place = s.Place
		o.folds[f.equal] = &f.fold
	}
}
