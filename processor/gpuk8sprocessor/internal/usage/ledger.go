package usage

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Counter is a cumulative sum over intervals. The zero value is a Counter without intervals.
type Counter struct {
	// Start is the start of the first interval, in nanoseconds since the epoch.
	Start int64   `json:"start"`
	Value float64 `json:"value"`
}

// add adds the value v for one interval. The from parameter is the start of the interval, in
// nanoseconds since the epoch.
func (c *Counter) add(from int64, v float64) {
	c.Start = cmp.Or(c.Start, from)
	c.Value += v
}

func (c *Counter) valid(last int64) bool {
	return c.Start >= 0 && c.Start <= last && c.Value >= 0 && !math.IsInf(c.Value, 0) && (c.Start > 0 || c.Value == 0)
}

// Account contains the counters of one holder on one device. The Allocated, Active, and Idle
// counters are in seconds.
type Account struct {
	Allocated Counter `json:"allocated"`
	Active    Counter `json:"active,omitzero"`
	Idle      Counter `json:"idle,omitzero"`
	Cost      Counter `json:"cost,omitzero"`
	IdleCost  Counter `json:"idle_cost,omitzero"`

	// Seen is the wall-clock time at which the Account last changed.
	Seen time.Time `json:"-"`
}

// Key identifies an Account. Estimated time is counted in a separate Account, so that the
// attributes of a counter never change.
type Key struct {
	Device string `json:"device"` // hw.id
	gpudata.Holder
	Estimated bool `json:"estimated,omitempty"`
}

// Price is the hourly price of a board.
type Price struct {
	PerHour  float64
	Currency string // Currency is empty if there is no price.
}

// Ledger contains the counters of a board and the accounts of the board's holders. The zero value
// is a Ledger to which no frame has been added.
type Ledger struct {
	// Clock tracks the times of the board's frames and detects clock changes.
	Clock           gpudata.Clock `json:"last"`
	Unallocated     Counter       `json:"unallocated,omitzero"`
	Unobserved      Counter       `json:"unobserved,omitzero"`
	UnallocatedCost Counter       `json:"unallocated_cost,omitzero"`
	// Currency is the currency of all of the board's costs.
	Currency string           `json:"currency,omitempty"`
	Accounts map[Key]*Account `json:"-"`

	// pace detects frames whose time is wrong. The pace field is not stored.
	pace pace
}

// Step describes the effect of a frame on a Ledger.
type Step uint8

const (
	// Charged means that the frame ends an interval. An interval that is longer than the maximum
	// gap counts as unobserved.
	Charged Step = iota
	// First means that the frame is the first frame, which starts the first interval.
	First
	// Late means that the frame is not newer than the last frame, or that the frame's time is too
	// far ahead of the wall clock. Late frames do not change the counters.
	Late
	// Early means that the frame's time is ahead of the wall clock and has advanced by more than the
	// time that has passed since the last frame arrived. Early frames do not change the counters.
	Early
	// Restarted means that a clock was set back. All counters of the Ledger restart with the frame,
	// because a counter's point must not be older than the counter's start time.
	Restarted
)

// Advance adds a frame with the time t to the Ledger, and returns the start and the length of the
// interval that ends at t. The now parameter is the current time. If the interval is longer than
// maxGap, Advance counts the interval as unobserved and returns the length 0. The length of an
// interval is normally the difference between the times of two frames. If the time of a frame is
// wrong, the time between the arrivals of the two frames is used instead.
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
		*l = Ledger{Clock: l.Clock, pace: l.pace.setBack(now)}
		if uncounted > 0 {
			l.unobserved(t, uncounted)
		}
		return Restarted, t, 0
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

// unobserved counts the entire board as unobserved for an interval that ends at t.
func (l *Ledger) unobserved(t int64, length time.Duration) {
	from := t - int64(length)
	l.Unobserved.add(from, length.Seconds())
	l.Unallocated.add(from, 0)
}

// Interval is the interval between two frames of a board. If Length is 0, the interval was not
// observed.
type Interval struct {
	From   int64 // From is the start of the interval, in nanoseconds since the epoch.
	Length time.Duration
	Price  Price
}

// Use sets the currency of the Ledger to the currency of the given price. Amounts in different
// currencies cannot be added. Therefore, if the currency changes, all cost counters restart.
func (l *Ledger) Use(p Price) {
	if p.Currency == "" || p.Currency == l.Currency {
		return
	}
	l.Currency, l.UnallocatedCost = p.Currency, Counter{}
	for _, a := range l.Accounts {
		a.Cost, a.IdleCost = Counter{}, Counter{}
	}
}

// Charge adds the unallocated and unobserved time in an interval to the counters of the board. The
// unallocated and unobserved parameters are parts of the board, in board equivalents.
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

// cost returns the cost of the given part of the board during the interval.
func (i *Interval) cost(part float64) float64 { return part * i.Length.Hours() * i.Price.PerHour }

// Charge adds a holder's time and cost in an interval to the counters of the Account.
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

// Valid returns an error if the Ledger contains impossible values.
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
