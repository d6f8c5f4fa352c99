package allocation

import (
	"cmp"
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
)

// maxWasters is the maximum length of the Groups and Holders lists in a Waste.
const maxWasters = 50

// Waste lists groups and pods with their idle time and costs during the retention period.
type Waste struct {
	// From and To are the start and the end of the retention period, in Unix seconds.
	From float64 `json:"from"`
	To   float64 `json:"to"`
	// Groups contains the groups with the longest idle times, sorted by idle time, longest first.
	// Holders contains the pods that are idle now, sorted by how long they have been idle, longest
	// first. Counted is the length of Groups before truncation, and Idle is the length of Holders
	// before truncation. Total contains the sums over all groups.
	Groups  []Waster `json:"groups"`
	Holders []Waster `json:"holders"`
	Counted int      `json:"counted"`
	Idle    int      `json:"idle"`
	Total   Waster   `json:"total"`
	// Currency is the currency of the costs. If there are no costs, or if there are several
	// currencies, Currency is empty.
	Currency string `json:"currency,omitempty"`
}

// A Waster is one group or one pod. Times are in board hours. Costs are in the currency of the
// price list. Amounts that were not counted are absent. Costs are also absent if there are several
// currencies.
type Waster struct {
	Name      string   `json:"name"`
	Devices   int      `json:"devices"`
	Allocated *float64 `json:"allocated,omitempty"`
	Active    *float64 `json:"active,omitempty"`
	Idle      *float64 `json:"idle,omitempty"`
	Cost      *float64 `json:"cost,omitempty"`
	CostIdle  *float64 `json:"costIdle,omitempty"`
	// Since is the time, in Unix seconds, at which the last active device became idle. If a device
	// is active, Since is absent.
	Since float64 `json:"since,omitempty"`
	spent store.Spent
}

// Wasted returns a Waste that is grouped by the given aggregate, which must be workload, namespace,
// claim or node. For other aggregates, Wasted returns false.
func Wasted(s *store.Store, now time.Time, aggregate string) (out *Waste, ok bool) {
	if !slices.Contains([]string{byWorkload, byNamespace, byClaim, byNode}, aggregate) {
		return nil, false
	}
	s.Read(now, func(v *store.View) {
		to := v.Now
		from := to - int64(v.Retention())
		out = &Waste{From: float64(from) / 1e9, To: float64(to) / 1e9, Groups: wasters(v, aggregate, from, to)}
		for _, w := range out.Groups {
			out.Total.spent.Add(w.spent)
		}
		out.Total.amounts()
		out.Currency = out.Total.spent.Currency.String()
		slices.SortFunc(out.Groups, func(a, b Waster) int {
			return cmp.Or(cmp.Compare(b.spent.Amounts[store.IdleTime], a.spent.Amounts[store.IdleTime]), cmp.Compare(a.Name, b.Name))
		})
		out.Holders = slices.DeleteFunc(wasters(v, byPod, from, to), func(w Waster) bool { return w.Since == 0 })
		slices.SortFunc(out.Holders, func(a, b Waster) int {
			return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(b.spent.Amounts[store.IdleTime], a.spent.Amounts[store.IdleTime]), cmp.Compare(a.Name, b.Name))
		})
		out.Counted, out.Idle = len(out.Groups), len(out.Holders)
		out.Groups, out.Holders = out.Groups[:min(out.Counted, maxWasters)], out.Holders[:min(out.Idle, maxWasters)]
	})
	return out, true
}

// The wasters function returns all groups for which allocated time was counted in the interval
// (from, to].
func wasters(v *store.View, aggregate string, from, to int64) []Waster {
	out := []Waster{}
	for name, members := range group(v, aggregate) {
		w := Waster{Name: name}
		devices := map[*store.Device]bool{}
		var holders []*store.Holder
		for _, m := range members {
			for _, h := range m.holders {
				spent := h.Spent(from, to)
				if !spent.Known[store.AllocatedTime] {
					continue
				}
				w.spent.Add(spent)
				devices[m.device] = true
				holders = append(holders, h)
			}
		}
		if len(holders) == 0 {
			continue
		}
		w.Devices = len(devices)
		if since, ok := store.IdleSince(holders, from, to); ok {
			w.Since = float64(since) / 1e9
		}
		w.amounts()
		out = append(out, w)
	}
	return out
}

func (w *Waster) amounts() {
	const hour = 3600
	w.Allocated, w.Active, w.Idle = amount(&w.spent, store.AllocatedTime, hour), amount(&w.spent, store.ActiveTime, hour), amount(&w.spent, store.IdleTime, hour)
	w.Cost, w.CostIdle = amount(&w.spent, store.Cost, 1), amount(&w.spent, store.CostIdle, 1)
}
