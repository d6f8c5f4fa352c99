package usage

import (
	"cmp"
	"errors"
	"math"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Counter is a cumulative sum. The zero Counter has counted nothing.
type Counter struct {
	// Start is the begin of the first interval, in nanoseconds since the epoch.
	Start int64   `json:"start"`
	Value float64 `json:"value"`
}

// add counts what an interval has that begins at from.
func (c *Counter) add(from int64, v float64) {
	c.Start = cmp.Or(c.Start, from)
	c.Value += v
}

func (c *Counter) valid(last int64) bool {
	return c.Start >= 0 && c.Start <= last && c.Value >= 0 && !math.IsInf(c.Value, 0) && (c.Start > 0 || c.Value == 0)
}

// Account has the counters of a holder on a device. Times are in seconds.
type Account struct {
	Allocated Counter `json:"allocated"`
	Active    Counter `json:"active,omitzero"`
	Idle      Counter `json:"idle,omitzero"`
	Cost      Counter `json:"cost,omitzero"`
	IdleCost  Counter `json:"idle_cost,omitzero"`

	// Seen is when the account had time last, by the clock of the wall.
	Seen time.Time `json:"-"`
}

// Key is whose account it is. What was estimated is counted apart, so that no counter changes
// its attributes.
type Key struct {
	Device string `json:"device"` // hw.id
	gpudata.Holder
	Estimated bool `json:"estimated,omitempty"`
}

// Price is what a board costs for an hour.
type Price struct {
	PerHour  float64
	Currency string // empty where there is no price
}

// Ledger is the account of a board. The zero Ledger has seen nothing.
type Ledger struct {
	// Clock tracks the times of the board's frames.
	Clock           gpudata.Clock `json:"last"`
	Unallocated     Counter       `json:"unallocated,omitzero"`
	Unobserved      Counter       `json:"unobserved,omitzero"`
	UnallocatedCost Counter       `json:"unallocated_cost,omitzero"`
	// Currency is the currency of all costs of the board.
	Currency string           `json:"currency,omitempty"`
	Accounts map[Key]*Account `json:"-"`

	// pace compares the times of the frames with the time that passes. It is not stored.
	pace pace
}

// Step is the effect of a frame on a ledger.
type Step uint8

const (
	// Charged frames end an interval.
	Charged Step = iota
	// First frames begin the first interval.
	First
	// Late frames are not newer than the last one, and change nothing.
	Late
	// Early frames are further ahead of the last one than time has passed, and change nothing.
	Early
	// Anew is the first frame after a clock was set back. The ledger starts again with it, because
	// a counter's start must not be later than its points.
	Anew
)

// Advance takes the ledger to time t and returns the interval (from, t] that ends there. now is the
// wall clock. An interval longer than maxGap was not observed; it is counted as such, and length is 0.
// The interval is as long as the two frames are apart, unless one of their times is wrong. It is then
// as long as the time that passed between their arrivals.
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

// unobserved counts an interval that ends at t and of which nothing is known.
func (l *Ledger) unobserved(t int64, length time.Duration) {
	from := t - int64(length)
	l.Unobserved.add(from, length.Seconds())
	l.Unallocated.add(from, 0)
}

// Interval is an observed time. A Length of 0 means that it was not observed.
type Interval struct {
	From   int64 // when it begins
	Length time.Duration
	Price  Price
}

// Use sets the currency of the ledger to that of a price. Amounts in another currency cannot be
// added: their counters end.
func (l *Ledger) Use(p Price) {
	if p.Currency == "" || p.Currency == l.Currency {
		return
	}
	l.Currency, l.UnallocatedCost = p.Currency, Counter{}
	for _, a := range l.Accounts {
		a.Cost, a.IdleCost = Counter{}, Counter{}
	}
}

// Charge counts what nobody held and what was not observed in an interval, in board equivalents.
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

// cost returns what a part of a board costs for the interval.
func (i *Interval) cost(part float64) float64 { return part * i.Length.Hours() * i.Price.PerHour }

// Charge adds the time and cost of a holder in an interval.
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

// Valid returns an error for a ledger that no frames make.
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
