package demand

import (
	"k8s.io/utils/ptr"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// addPoolStatus emits the numbers of allocated, unavailable, and available devices for each pool.
// If the devices of a pool depend on each other or can be shared, the number of available devices
// is unknown and is not emitted.
func (e *emission) addPoolStatus(pools []*pool) {
	taken := map[deviceID]bool{}
	for _, c := range e.claims {
		for _, r := range results(c) {
			if !ptr.Deref(r.AdminAccess, false) {
				taken[deviceID{r.Driver, r.Pool, r.Device}] = true
			}
		}
	}
	for _, p := range pools {
		var allocated, unavailable, available int64
		for _, d := range p.order {
			switch {
			case taken[deviceID{p.id.driver, p.id.name, d.Name}]:
				allocated++
			case d.effect != "":
				unavailable++
			default:
				available++
			}
		}
		emit := func(state string, n int64) {
			e.int(signal.K8sResourceSlicePoolDevices, Place{}, n, p.labels("", Attribute{signal.State, state})...)
		}
		emit("allocated", allocated)
		emit("unavailable", unavailable)
		if p.independent() {
			emit("available", available)
		}
	}
}

// The independent method reports whether every device of the pool can be allocated exactly once,
// regardless of which other devices are allocated. The devices are independent if none of them can
// be shared and no two of them contain the same hardware.
func (p *pool) independent() bool {
	boards, listed := p.boards(), p.byIdentity()
	seen := map[string]bool{}
	for _, d := range p.order {
		if d.Shared || listed.parent(d) != nil {
			return false
		}
		if len(d.cutOf) == 0 {
			continue
		}
		board := boards.find(d.cutOf[0])
		if seen[board] {
			return false
		}
		seen[board] = true
	}
	return true
}
