package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Spending identifies a usage counter that gpu_k8s maintains for a container on a device.
type Spending uint8

// Times are in board seconds. Costs are in the currency of the price list.
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

// Currency is an ISO 4217 code. The zero value means that there is no currency.
type Currency [3]byte

// severalCurrencies marks a sum of amounts in different currencies, which is meaningless.
var severalCurrencies = Currency{'*', '*', '*'}

// String returns the currency code, or "" if there is no currency or more than one currency.
func (c Currency) String() string {
	if c == (Currency{}) || c == severalCurrencies {
		return ""
	}
	return string(c[:])
}

// Spent contains the amounts that were counted during a time span. Known is false for a counter
// that is missing. If there are several currencies, Known is also false for costs.
type Spent struct {
	Amounts  [NumSpendings]float64
	Known    [NumSpendings]bool
	Currency Currency
}

// Add adds the amounts from another time span or container.
func (s *Spent) Add(o Spent) {
	s.addCurrency(o.Currency, o.Amounts[Cost] != 0 || o.Amounts[CostIdle] != 0)
	for i := range o.Amounts {
		s.Amounts[i] += o.Amounts[i]
		s.Known[i] = s.Known[i] || o.Known[i]
	}
	s.omitMixedCosts()
}

// addCurrency records the currency of costs before these costs are added. The currency of costs of 0
// does not matter, because a board that no longer has a price keeps its cost counters in the earlier
// currency.
func (s *Spent) addCurrency(c Currency, positive bool) {
	switch {
	case c == Currency{} || c == s.Currency:
	case s.Amounts[Cost] == 0 && s.Amounts[CostIdle] == 0:
		s.Currency = c
	case positive:
		s.Currency = severalCurrencies
	}
}

func (s *Spent) omitMixedCosts() {
	if s.Currency == severalCurrencies {
		s.Known[Cost], s.Known[CostIdle] = false, false
	}
}

// spentHistory contains the increases in a container's counters for a device during the retention
// period. The increases are sorted by timestamp, oldest first.
type spentHistory struct {
	counters  map[spentKey]counter
	increases []increase
}

// spentKey identifies a counter. There are separate counters for estimated and measured times, and
// for each currency.
type spentKey struct {
	what      Spending
	estimated bool
	currency  Currency
}

// The counter type contains the last point of a counter. Times are in Unix nanoseconds.
type counter struct {
	start, at int64
	value     float64
}

type increase struct {
	at    int64
	spent Spent
}

// addPoint adds a data point of a counter. Amounts that were counted before the store was started
// are not stored, because it is unknown when these amounts were spent. For the same reason, the
// first point of a counter is not stored if the counter started before the retention period.
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
	case !known && p.Start < oldest: // The counter may be known to a holder that has expired.
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
	spent := &s.increases[i].spent
	spent.addCurrency(p.Currency, gained != 0)
	spent.Amounts[what] += gained
	spent.Known[what] = true
	spent.omitMixedCosts()
}

func (g increase) compare(at int64) int { return cmp.Compare(g.at, at) }

// The expire method deletes the increases that occurred at or before the time in the oldest
// parameter.
func (s *spentHistory) expire(oldest int64) {
	n, _ := slices.BinarySearchFunc(s.increases, oldest+1, increase.compare)
	s.increases = slices.Delete(s.increases, 0, n)
}

// Spent returns the amounts that the container spent on the device in the interval (from, to].
func (h *Holder) Spent(from, to int64) (sum Spent) {
	for _, g := range h.spent.increases {
		if from < g.at && g.at <= to {
			sum.Add(g.spent)
		}
	}
	return sum
}

// holderTimeout is the time after which a container without new points no longer counts as a
// holder. The time is measured from the container's last point to the newest point of any
// container.
const holderTimeout = int64(5 * time.Minute)

// IdleSince returns the time, in Unix nanoseconds, at which the last active container became idle.
// A container becomes idle at the end of the last counting interval in (from, to] in which the
// container was active. A container that was never active counts as idle since the end of its first
// counting interval. If a container was active in its newest interval, or if counters are missing,
// IdleSince returns false.
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
