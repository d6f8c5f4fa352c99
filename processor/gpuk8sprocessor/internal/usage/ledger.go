package usage

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Counter is a cumulative sum. The zero Counter has no interval.
type Counter struct {
	// Start is the start of the first interval, in nanoseconds since the epoch.
	Start int64   `json:"start"`
	Value float64 `json:"value"`
}

// add adds the value of an interval that starts at from.
func (c *Counter) add(from int64, v float64) {
	c.Start = cmp.Or(c.Start, from)
	c.Value += v
}

func (c *Counter) valid(last int64) bool {
	return c.Start >= 0 && c.Start <= last && c.Value >= 0 && !math.IsInf(c.Value, 0) && (c.Start > 0 || c.Value == 0)
}

// Account contains the counters of a holder on a device. Times are in seconds.
type Account struct {
	Allocated Counter `json:"allocated"`
	Active    Counter `json:"active,omitzero"`
	Idle      Counter `json:"idle,omitzero"`
	Cost      Counter `json:"cost,omitzero"`
	IdleCost  Counter `json:"idle_cost,omitzero"`

	// Seen is the wall clock time at which time was last added.
	Seen time.Time `json:"-"`
}

// Key identifies an account. Estimated time is counted in a separate account, so that the
// attributes of a counter never change.
type Key struct {
	Device string `json:"device"` // hw.id
	gpudata.Holder
	Estimated bool `json:"estimated,omitempty"`
}

// Price is the hourly price of a board.
type Price struct {
	PerHour  float64
	Currency string // empty if there is no price
}

// Ledger contains the accounts of a board. The zero Ledger has no frames.
type Ledger struct {
	// Clock tracks the times of the board's frames.
	Clock           gpudata.Clock `json:"last"`
	Unallocated     Counter       `json:"unallocated,omitzero"`
	Unobserved      Counter       `json:"unobserved,omitzero"`
	UnallocatedCost Counter       `json:"unallocated_cost,omitzero"`
	// Currency is the currency of all costs of the board.
	Currency string           `json:"currency,omitempty"`
	Accounts map[Key]*Account `json:"-"`

	// pace detects wrong times of frames. It is not stored.
	pace pace
}

// Step is the effect of a frame on a ledger.
type Step uint8

const (
	// Charged frames end an interval, which may have been too long to count as observed.
	Charged Step = iota
	// First is the first frame, which starts the first interval.
	First
	// Late frames are not newer than the last one. They do not change the ledger.
	Late
	// Early frames are ahead of the last one by more than the time that has passed. They do not
	// change the ledger.
	Early
	// Anew is the first frame after a clock was set back. The ledger restarts with this frame,
	// because the points of a counter must not be older than its start.
	Anew
)

// Advance moves the ledger to time t and returns the interval (from, t] that ends there. now is the
// wall clock. An interval longer than maxGap is counted as unobserved, and length is 0. The length
// of an interval is the difference between the times of the two frames. If one of these times is
// wrong, the length is the time between the arrivals of the frames.
func (l *Ledger) Advance(t int64, now time.Time, maxGap time.Duration) (step Step, from int64, length time.Duration) {
	last := l.Clock.Newest
	length = time.Duration(t - last)
	if last != 0 && length > 0 && !gpudata.Ahead(t, now) {
		var early bool
		if length, early = l.pace.interval(length, t, now, maxGap); early {
			return Early, t, 0
		}
	}
	switch l.Clock.Observe(t, now, maxGap) {
	case gpudata.SetBack:
		uncounted := l.pace.uncounted(now)
		*l = Ledger{Clock: l.Clock, pace: pace{arrived: now}}
		if uncounted > 0 {
			l.unobserved(t, uncounted)
		}
		return Anew, t, 0
	case gpudata.Behind:
		l.pace.late = true
		return Late, t, 0
	case gpudata.Future:
		return Late, t, 0
	case gpudata.OnTime:
	}
	switch {
	case last == 0:
		l.pace.arrived = now
		return First, t, 0
	case t == last:
		return Late, t, 0
	case length > maxGap:
		l.unobserved(t, length)
		return Charged, t - int64(length), 0
	}
	return Charged, t - int64(length), length
}

// unobserved counts an unobserved interval that ends at t.
func (l *Ledger) unobserved(t int64, length time.Duration) {
	from := t - int64(length)
	l.Unobserved.add(from, length.Seconds())
	l.Unallocated.add(from, 0)
}

// Interval is the time between two frames. A Length of 0 means that it was not observed.
type Interval struct {
	From   int64 // start of the interval
	Length time.Duration
	Price  Price
}

// Use sets the currency of the ledger to the currency of a price. Amounts in different currencies
// cannot be added, so counters in another currency end.
func (l *Ledger) Use(p Price) {
	if p.Currency == "" || p.Currency == l.Currency {
		return
	}
	l.Currency, l.UnallocatedCost = p.Currency, Counter{}
	for _, a := range l.Accounts {
		a.Cost, a.IdleCost = Counter{}, Counter{}
	}
}

// Charge counts the time of the unallocated and unobserved parts of the board in an interval. The
// parts are in board equivalents.
func (l *Ledger) Charge(i Interval, unallocated, unobserved float64) {
	if i.Length == 0 {
		return
	}
	l.Unallocated.add(i.From, unallocated*i.Length.Seconds())
	l.Unobserved.add(i.From, unobserved*i.Length.Seconds())
	if i.Price.Currency != "" {
		l.UnallocatedCost.add(i.From, i.cost(unallocated))
	}
}

// cost returns the cost of a part of the board for the interval.
func (i *Interval) cost(part float64) float64 { return part * i.Length.Hours() * i.Price.PerHour }

// Charge adds the time and cost of a holder for an interval.
func (a *Account) Charge(i Interval, h *Holder) {
	allocated := h.Share * i.Length.Seconds()
	a.Allocated.add(i.From, allocated)
	priced := i.Price.Currency != ""
	if priced {
		a.Cost.add(i.From, i.cost(h.Share))
	}
	if math.IsNaN(h.Used) {
		return
	}
	active := h.Used * i.Length.Seconds()
	a.Active.add(i.From, active)
	a.Idle.add(i.From, allocated-active)
	if priced {
		a.IdleCost.add(i.From, i.cost(h.Share-h.Used))
	}
}

// Open adds an account.
func (l *Ledger) Open(k Key) *Account {
	if l.Accounts == nil {
		l.Accounts = map[Key]*Account{}
	}
	a := &Account{}
	l.Accounts[k] = a
	return a
}

// Valid returns an error if frames cannot produce this ledger.
func (l *Ledger) Valid() error {
	last := l.Clock.Newest
	ok := last > 0 && l.Unallocated.valid(last) && l.Unobserved.valid(last) && l.UnallocatedCost.valid(last)
	for k, a := range l.Accounts {
		ok = ok && k.Device != "" && a.Allocated.Start > 0 && a.Allocated.valid(last) && a.Active.valid(last) && a.Idle.valid(last) &&
			a.Cost.valid(last) && a.IdleCost.valid(last)
	}
	if !ok {
		return errors.New("impossible counters")
	}
	return nil
}
