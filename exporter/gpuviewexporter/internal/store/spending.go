package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Spending is a usage counter of gpu_k8s for a container on a device.
type Spending uint8

// The counters: seconds of a board, and their costs in the currency of the price list.
const (
	AllocatedTime Spending = iota
	ActiveTime
	IdleTime
	Cost
	CostIdle
	// NumSpendings is the number of counters.
	NumSpendings
)

var spendings = [NumSpendings]*signal.Metric{
	AllocatedTime: signal.K8sContainerGPUAllocatedTime,
	ActiveTime:    signal.K8sContainerGPUActiveTime,
	IdleTime:      signal.K8sContainerGPUIdleTime,
	Cost:          signal.K8sContainerGPUCost,
	CostIdle:      signal.K8sContainerGPUCostIdle,
}

// Currency is an ISO 4217 code, zero if there is none.
type Currency [3]byte

// severalCurrencies marks a sum of amounts in several currencies, which is meaningless.
var severalCurrencies = Currency{'*', '*', '*'}

// String returns the code, or "" if there is none or several.
func (c Currency) String() string {
	if c == (Currency{}) || c == severalCurrencies {
		return ""
	}
	return string(c[:])
}

// Spent has the amount of each counter. An amount is unknown if its counter is missing, or if it
// is money in several currencies.
type Spent struct {
	Amounts  [NumSpendings]float64
	Known    [NumSpendings]bool
	Currency Currency
}

// Add adds another amount of each counter.
func (s *Spent) Add(o Spent) {
	for i := range o.Amounts {
		s.Amounts[i] += o.Amounts[i]
		s.Known[i] = s.Known[i] || o.Known[i]
	}
	s.addCurrency(o.Currency)
}

// addCurrency records the currency of an amount that was added.
func (s *Spent) addCurrency(c Currency) {
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

// spentHistory has the increases of a container's counters on a device within the retention, sorted by
// the time of their points, oldest first.
type spentHistory struct {
	counters  map[spentKey]counter
	increases []increase
}

// spentKey identifies a counter. Estimated time and each currency have separate counters.
type spentKey struct {
	what      Spending
	estimated bool
	currency  Currency
}

// counter is the last point of a counter. Times are in Unix nanoseconds.
type counter struct {
	start, at int64
	value     float64
}

type increase struct {
	at    int64
	spent Spent
}

// addPoint adds a point of a counter. What was counted before the store started has no known time,
// so it is not an increase.
func (s *spentHistory) addPoint(what Spending, p *Point, startedAt, oldest int64) {
	key := spentKey{what, p.Attribute == "true", p.Currency}
	last, known := s.counters[key]
	if p.End <= last.at {
		return
	}
	gained := 0.0
	switch {
	case known && p.Start == last.start:
		gained = max(0, p.Value-last.value)
	case p.Start >= max(startedAt, last.at), known && p.Start > last.start:
		gained = p.Value // The counter was reset.
	}
	if s.counters == nil {
		s.counters = map[spentKey]counter{}
	}
	s.counters[key] = counter{p.Start, p.End, p.Value}
	i, found := slices.BinarySearchFunc(s.increases, p.End, increase.compare)
	if !found {
		s.expire(oldest)
		i, _ = slices.BinarySearchFunc(s.increases, p.End, increase.compare)
		s.increases = slices.Insert(s.increases, i, increase{at: p.End})
	}
	s.increases[i].spent.Amounts[what] += gained
	s.increases[i].spent.Known[what] = true
	s.increases[i].spent.addCurrency(p.Currency)
}

func (g increase) compare(at int64) int { return cmp.Compare(g.at, at) }

// expire deletes the increases at oldest or before.
func (s *spentHistory) expire(oldest int64) {
	n, _ := slices.BinarySearchFunc(s.increases, oldest+1, increase.compare)
	s.increases = slices.Delete(s.increases, 0, n)
}

// Spent returns what the container spent on the device in (from, to].
func (h *Holder) Spent(from, to int64) (sum Spent) {
	for _, g := range h.spent.increases {
		if from < g.at && g.at <= to {
			sum.Add(g.spent)
		}
	}
	return sum
}

// holderTimeout is how much older a container's last count may be than the newest count of any container.
// If it is older than that, the container no longer counts as a holder.
const holderTimeout = int64(5 * time.Minute)

// IdleSince returns when everything that the containers hold became idle, in Unix nanoseconds. This is
// the end of the last interval in (from, to] that was not idle, or of the first interval. IdleSince returns
// false if a container was active in its newest interval or if the counters are missing.
func IdleSince(holders []*Holder, from, to int64) (since int64, ok bool) {
	var gainsByHolder [][]increase
	var newest int64
	for _, h := range holders {
		first, _ := slices.BinarySearchFunc(h.spent.increases, from+1, increase.compare)
		last, _ := slices.BinarySearchFunc(h.spent.increases, to+1, increase.compare)
		if first < last {
			gainsByHolder = append(gainsByHolder, h.spent.increases[first:last])
			newest = max(newest, h.spent.increases[last-1].at)
		}
	}
	active := func(g increase) bool {
		s := &g.spent
		return !s.Known[AllocatedTime] || !s.Known[IdleTime] || s.Amounts[IdleTime] < signal.IdleShare*s.Amounts[AllocatedTime]
	}
	for _, increases := range gainsByHolder {
		switch last := increases[len(increases)-1]; {
		case last.at < newest-holderTimeout:
			continue
		case active(last):
			return 0, false
		}
		at := increases[0].at
		for _, g := range increases {
			if active(g) {
				at = g.at
			}
		}
		since, ok = max(since, at), true
	}
	return since, ok
}
