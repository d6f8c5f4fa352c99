package store

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestSpendingIsTheIncreaseOfTheCounters(t *testing.T) {
	const begin = 1_000_000 // the time at which the store was started, in seconds
	type point struct {
		start, at int64 // in seconds after begin
		value     float64
		estimated string
	}
	for _, tt := range []struct {
		name   string
		points []point
		want   float64 // the amount that was spent from second 0 to second 600
	}{
		{"a counter that began before the store counts from its first point", []point{{-500, 60, 400, "false"}, {-500, 120, 460, "false"}}, 60},
		{"a counter that began since counts from 0", []point{{30, 60, 30, "false"}, {30, 120, 90, "false"}}, 90},
		{"a counter that starts anew counts from 0", []point{{-500, 60, 400, "false"}, {70, 120, 50, "false"}}, 50},
		{"estimated time is time", []point{{30, 60, 30, "false"}, {30, 60, 15, "true"}}, 45},
		{"a point that comes again counts once", []point{{30, 60, 30, "false"}, {30, 60, 30, "false"}}, 30},
		{"a late point changes nothing", []point{{30, 120, 90, "false"}, {30, 60, 30, "false"}}, 90},
		{"a counter never falls", []point{{30, 60, 30, "false"}, {30, 120, 20, "false"}}, 30},
		{"what is later is not in it", []point{{30, 60, 30, "false"}, {30, 601, 600, "false"}}, 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := New(Settings{Retention: 2 * time.Hour, MaxDevices: 1, MaxHolders: 1})
			m, ok := Lookup(signal.K8sContainerGPUAllocatedTime.Name)
			require.True(t, ok)
			s.Begin(time.Unix(begin, 0)).End()
			in := s.Begin(time.Unix(begin+700, 0))
			for _, p := range tt.points {
				in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{
					Metric: m, Attribute: p.estimated, Start: (begin + p.start) * 1e9, End: (begin + p.at) * 1e9, Value: p.value,
				})
			}
			in.End()
			s.Read(time.Unix(begin+700, 0), func(v *View) {
				spent := v.Devices()[0].Holders()[0].Spent(begin*1e9, (begin+600)*1e9)
				assert.True(t, spent.Known[AllocatedTime])
				assert.False(t, spent.Known[Cost])
				assert.InDelta(t, tt.want, spent.Amounts[AllocatedTime], 1e-9)
			})
		})
	}
}

func TestTimeSinceTheStartOfTheExporterCounts(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	at := func(d time.Duration) int64 { return begin.Add(d).UnixNano() }
	s := New(Settings{Retention: time.Hour, MaxDevices: 1, MaxHolders: 1})
	s.Start(begin)
	m, _ := Lookup(signal.K8sContainerGPUAllocatedTime.Name)
	// The receiver sends gpu.exporter.up immediately after the first scrape. This batch arrives a few
	// milliseconds after the counters start.
	s.Begin(begin.Add(time.Second + 5*time.Millisecond)).End()
	in := s.Begin(begin.Add(65 * time.Second))
	in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{
		Metric: m, Attribute: "false", Start: at(time.Second), End: at(60 * time.Second), Value: 59,
	})
	in.End()
	s.Read(begin.Add(65*time.Second), func(v *View) {
		h := v.Devices()[0].Holders()[0]
		assert.InDelta(t, 59, h.Spent(at(0), at(60*time.Second)).Amounts[AllocatedTime], 1e-9)
	})
}

func TestSpendingExpiresWithTheRetention(t *testing.T) {
	s := New(Settings{Retention: time.Hour, MaxDevices: 1, MaxHolders: 1})
	m, _ := Lookup(signal.K8sContainerGPUCost.Name)
	begin := time.Unix(1_000_000, 0)
	s.Begin(begin).End()
	for minute := range 300 {
		at := begin.Add(time.Duration(minute+1) * time.Minute)
		in := s.Begin(at)
		in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{
			Metric: m, Attribute: "true", Start: begin.UnixNano(), End: at.UnixNano(), Value: float64(minute),
		})
		in.End()
	}
	s.Read(begin.Add(300*time.Minute), func(v *View) {
		h := v.Devices()[0].Holders()[0]
		assert.LessOrEqual(t, len(h.spent.increases), 60)
		assert.InDelta(t, 60, h.Spent(0, 1<<62).Amounts[Cost], 1)
	})
}

// A container can return after its history has expired, while gpu_k8s still has its counter.
func TestAmountsFromBeforeTheRetentionAreNotCountedAgain(t *testing.T) {
	const begin = 1_000_000
	s := New(Settings{Retention: time.Minute, MaxDevices: 1, MaxHolders: 1})
	m, _ := Lookup(signal.K8sContainerGPUAllocatedTime.Name)
	window, _ := Lookup(signal.WindowCoverage.Name)
	s.Begin(time.Unix(begin, 0)).End()
	add := func(at int64, value float64) {
		in := s.Begin(time.Unix(begin+at, 0))
		defer in.End()
		in.Add(&Place{Node: "n"}, "GPU-1", &Description{}, nil, &Point{Metric: window, Start: (begin + at - 10) * 1e9, End: (begin + at) * 1e9, Value: 1})
		if value > 0 {
			in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &Point{
				Metric: m, Attribute: "false", Start: begin * 1e9, End: (begin + at) * 1e9, Value: value,
			})
		}
	}
	for at := int64(10); at <= 100; at += 10 {
		add(at, float64(at))
	}
	for at := int64(110); at < 300; at += 10 {
		add(at, 0)
	}
	add(300, 110)
	add(310, 120)
	s.Read(time.Unix(begin+310, 0), func(v *View) {
		h := v.Devices()[0].Holders()[0]
		assert.InDelta(t, 10, h.Spent((begin+250)*1e9, (begin+310)*1e9).Amounts[AllocatedTime], 1e-9)
	})
}

func TestIdleSince(t *testing.T) {
	// The holder function returns a holder with one increase per minute. Each argument is the idle
	// share of one minute, or "-" if nothing was counted during that minute.
	holder := func(idle ...string) *Holder {
		h := &Holder{}
		for i, share := range idle {
			g := increase{at: int64(i+1) * 60e9}
			g.spent.Amounts[AllocatedTime], g.spent.Known[AllocatedTime] = 60, true
			if v, err := strconv.ParseFloat(share, 64); err == nil {
				g.spent.Amounts[IdleTime], g.spent.Known[IdleTime] = 60*v, true
			}
			h.spent.increases = append(h.spent.increases, g)
		}
		return h
	}
	idle20 := make([]string, 20)
	for i := range idle20 {
		idle20[i] = "1"
	}
	for _, tt := range []struct {
		name    string
		holders []*Holder
		want    int64 // in minutes; 0 means that the devices are not idle
	}{
		{"since the last active interval", []*Holder{holder("1", "0.2", "1", "1")}, 2},
		{"a whole idle time begins with what is known", []*Holder{holder("1", "1", "1")}, 1},
		{"use of at most 5% is idle", []*Holder{holder("0", "0.95", "1")}, 1},
		{"use of more is not", []*Holder{holder("0", "0.94", "1")}, 2},
		{"active last", []*Holder{holder("1", "1", "0.5")}, 0},
		{"one of several was active later", []*Holder{holder("0", "1", "1", "1"), holder("1", "1", "0", "1")}, 3},
		{"one of several is active", []*Holder{holder("1", "1"), holder("1", "0")}, 0},
		{"who is gone does not count", []*Holder{holder("0", "0", "0"), holder(idle20...)}, 1},
		{"nobody counts idle time", []*Holder{holder("-", "-")}, 0},
		{"nobody holds", nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			since, ok := IdleSince(tt.holders, 0, 1<<62)
			assert.Equal(t, tt.want > 0, ok)
			assert.Equal(t, tt.want*60e9, since)
		})
	}
}

func TestMoneyInSeveralCurrenciesIsNotAdded(t *testing.T) {
	dollars, euros := Currency{'U', 'S', 'D'}, Currency{'E', 'U', 'R'}
	in := func(currency Currency, cost float64) (s Spent) {
		s.Amounts[Cost], s.Known[Cost] = cost, true
		s.Amounts[AllocatedTime], s.Known[AllocatedTime] = 60, true
		s.Currency = currency
		return s
	}
	for name, tt := range map[string]struct {
		parts    []Spent
		known    bool
		cost     float64
		currency string
	}{
		"one currency":                 {[]Spent{in(dollars, 1), in(dollars, 2)}, true, 3, "USD"},
		"beside time without a price":  {[]Spent{{}, in(euros, 1), {}}, true, 1, "EUR"},
		"two":                          {[]Spent{in(dollars, 1), in(euros, 2)}, false, 0, ""},
		"two, and one of them is 0":    {[]Spent{in(dollars, 0), in(euros, 2), in(dollars, 0)}, true, 2, "EUR"},
		"two, whatever is added later": {[]Spent{in(dollars, 1), in(euros, 2), in(dollars, 4)}, false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var sum, nested Spent
			for _, p := range tt.parts {
				sum.Add(p)
			}
			nested.Add(in(dollars, 0))
			nested.Add(sum)
			assert.Equal(t, tt.known, sum.Known[Cost])
			assert.Equal(t, tt.currency, sum.Currency.String())
			assert.Equal(t, tt.known, nested.Known[Cost], "a sum of sums is the same")
			assert.Equal(t, tt.currency, nested.Currency.String())
			if tt.known {
				assert.InDelta(t, tt.cost, sum.Amounts[Cost], 0)
			}
		})
	}
}

// A board that has lost its price keeps its cost counter in the earlier currency.
func TestACounterThatNoLongerIncreasesHasNoCurrency(t *testing.T) {
	s := New(Settings{Retention: time.Hour, MaxDevices: 1, MaxHolders: 1})
	m, _ := Lookup(signal.K8sContainerGPUCost.Name)
	begin := time.Unix(1_000_000, 0)
	s.Begin(begin).End()
	in := s.Begin(begin.Add(10 * time.Minute))
	for minute := range 3 {
		for currency, value := range map[string]float64{"USD": 5, "EUR": float64(minute)} {
			point := Point{Metric: m, Attribute: "false", Start: begin.UnixNano(), End: begin.Add(time.Duration(1+minute) * time.Minute).UnixNano(), Value: value}
			copy(point.Currency[:], currency)
			in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &point)
		}
	}
	in.End()
	s.Read(begin.Add(10*time.Minute), func(v *View) {
		after := v.Devices()[0].Holders()[0].Spent(begin.Add(time.Minute).UnixNano(), begin.Add(3*time.Minute).UnixNano())
		assert.InDelta(t, 2, after.Amounts[Cost], 0)
		assert.Equal(t, "EUR", after.Currency.String())
		assert.True(t, after.Known[Cost])
	})
}

func TestEachCurrencyHasItsOwnCounter(t *testing.T) {
	s := New(Settings{Retention: time.Hour, MaxDevices: 1, MaxHolders: 1})
	m, _ := Lookup(signal.K8sContainerGPUCost.Name)
	begin := time.Unix(1_000_000, 0)
	s.Begin(begin).End()
	in := s.Begin(begin.Add(10 * time.Minute))
	for _, p := range []struct {
		minute   int
		currency string
		value    float64
	}{{1, "USD", 5}, {2, "USD", 6}, {3, "EUR", 1}, {4, "EUR", 3}} {
		point := Point{Metric: m, Attribute: "false", Start: begin.UnixNano(), End: begin.Add(time.Duration(p.minute) * time.Minute).UnixNano(), Value: p.value}
		copy(point.Currency[:], p.currency)
		in.Add(&Place{Node: "n", Namespace: "ns", Pod: "p", Container: "c"}, "GPU-1", &Description{}, &Hold{}, &point)
	}
	in.End()
	s.Read(begin.Add(10*time.Minute), func(v *View) {
		h := v.Devices()[0].Holders()[0]
		minute := func(n int) int64 { return begin.Add(time.Duration(n) * time.Minute).UnixNano() }
		before, after, all := h.Spent(minute(0), minute(2)), h.Spent(minute(2), minute(4)), h.Spent(minute(0), minute(4))
		assert.InDelta(t, 6, before.Amounts[Cost], 0)
		assert.Equal(t, "USD", before.Currency.String())
		assert.InDelta(t, 3, after.Amounts[Cost], 0)
		assert.Equal(t, "EUR", after.Currency.String())
		assert.False(t, all.Known[Cost])
	})
}
