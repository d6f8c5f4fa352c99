package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Spending is a counter of the section usage of gpu_k8s for a container on a device.
type Spending uint8

// Seconds of a board, and what they cost in the currency of the price list.
const (
	AllocatedTime Spending = iota
	ActiveTime
	IdleTime
	Cost
	CostIdle
	// NumSpendings is the number of them.
	NumSpendings
)

var spendings = [NumSpendings]*signal.Metric{
	AllocatedTime: signal.K8sContainerGPUAllocatedTime,
	ActiveTime:    signal.K8sContainerGPUActiveTime,
	IdleTime:      signal.K8sContainerGPUIdleTime,
	Cost:          signal.K8sContainerGPUCost,
	CostIdle:      signal.K8sContainerGPUCostIdle,
}

// Currency is an ISO 4217 code, zero for none.
type Currency [3]byte

// severalCurrencies is that of amounts which cannot be added.
var severalCurrencies = Currency{'*', '*', '*'}

// String returns the code, "" where there is none or no single one.
func (c Currency) String() string {
	if c == (Currency{}) || c == severalCurrencies {
		return ""
	}
	return string(c[:])
}

// Spent are amounts of each spending. What nobody counts, and money in several currencies, is
// not known.
type Spent struct {
	Amounts  [NumSpendings]float64
	Known    [NumSpendings]bool
	Currency Currency
}

// Add adds what others spent.
func (s *Spent) Add(o Spent) {
	for i := range o.Amounts {
		s.Amounts[i] += o.Amounts[i]
		s.Known[i] = s.Known[i] || o.Known[i]
	}
	s.in(o.Currency)
}

// in says that money of a currency was added.
func (s *Spent) in(c Currency) {
	switch {
	case c == Currency{} || c == s.Currency:
	case s.Currency == Currency{}:
		s.Currency = c
	default:
		s.Currency = severalCurrencies
	}
	if s.Currency == severalCurrencies {
		s.Known[Cost], s.Known[CostIdle] = false, false
	}
}

// spent is what a container took of a device over the retention: what its counters gained, by
// the times of their points, the oldest first.
type spent struct {
	counters map[spentKey]counter
	gains    []gain
}

// spentKey is a counter: estimated time has one of its own, and so has each currency.
type spentKey struct {
	what      Spending
	estimated bool
	currency  Currency
}

// counter is the last point of a counter.
type counter struct {
	start, at int64
	value     float64
}

type gain struct {
	at    int64
	spent Spent
}

// take takes the next point of a counter. What it counted before the store began is not known
// by time, so it is no gain.
func (s *spent) take(what Spending, p *Point, began, oldest int64) {
	key := spentKey{what, p.Attribute == "true", p.Currency}
	last, known := s.counters[key]
	if p.End <= last.at {
		return
	}
	gained := 0.0
	switch {
	case known && p.Start == last.start:
		gained = max(0, p.Value-last.value)
	case p.Start >= max(began, last.at), known && p.Start > last.start:
		gained = p.Value // it counts anew
	}
	if s.counters == nil {
		s.counters = map[spentKey]counter{}
	}
	s.counters[key] = counter{p.Start, p.End, p.Value}
	i, found := slices.BinarySearchFunc(s.gains, p.End, gain.compare)
	if !found {
		s.expire(oldest)
		i, _ = slices.BinarySearchFunc(s.gains, p.End, gain.compare)
		s.gains = slices.Insert(s.gains, i, gain{at: p.End})
	}
	s.gains[i].spent.Amounts[what] += gained
	s.gains[i].spent.Known[what] = true
	s.gains[i].spent.in(p.Currency)
}

func (g gain) compare(at int64) int { return cmp.Compare(g.at, at) }

// expire forgets what was spent at oldest or before.
func (s *spent) expire(oldest int64) {
	n, _ := slices.BinarySearchFunc(s.gains, oldest+1, gain.compare)
	s.gains = slices.Delete(s.gains, 0, n)
}

// Spent returns what the container spent on the device after from and not after to.
func (h *Holder) Spent(from, to int64) (sum Spent) {
	for _, g := range h.spent.gains {
		if from < g.at && g.at <= to {
			sum.Add(g.spent)
		}
	}
	return sum
}

// idleShare is the share of allocated time from which on all of it counts as idle.
const idleShare = 0.99

// gone is how much older than the others' a container's last count is when it is no holder any more.
const gone = int64(5 * time.Minute)

// IdleSince returns since when all that the containers held was idle, up to to: the end of the last interval
// that was not, or of the first one after from, in Unix nanoseconds. It is false where something of it was
// active last, and where nobody counts.
func IdleSince(holders []*Holder, from, to int64) (since int64, ok bool) {
	var kept [][]gain
	var newest int64
	for _, h := range holders {
		first, _ := slices.BinarySearchFunc(h.spent.gains, from+1, gain.compare)
		last, _ := slices.BinarySearchFunc(h.spent.gains, to+1, gain.compare)
		if first < last {
			kept = append(kept, h.spent.gains[first:last])
			newest = max(newest, h.spent.gains[last-1].at)
		}
	}
	active := func(g gain) bool {
		s := &g.spent
		return !s.Known[AllocatedTime] || !s.Known[IdleTime] || s.Amounts[IdleTime] < idleShare*s.Amounts[AllocatedTime]
	}
	for _, gains := range kept {
		switch last := gains[len(gains)-1]; {
		case last.at < newest-gone:
			continue
		case active(last):
			return 0, false
		}
		at := gains[0].at
		for _, g := range gains {
			if active(g) {
				at = g.at
			}
		}
		since, ok = max(since, at), true
	}
	return since, ok
}
