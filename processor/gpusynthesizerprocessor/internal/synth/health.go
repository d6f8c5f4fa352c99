package synth

import (
	"slices"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// A device is considered lost if it has been missing from the scrapes of its place for at least
// lostAfter.
const lostAfter = int64(90 * time.Second)

// health describes the effect of XID errors on a board. For an instance, only the field named open
// is used.
type health struct {
	// failed is true if an error requires a reset and the reset has not happened yet.
	failed bool
	// energy is the last value of the board's energy counter. The energy counter is reset when the
	// driver restarts.
	energy float64
	// open is true if the device itself had an error after which the code 0 has not been observed
	// yet. A missing code does not change open.
	open bool
}

// readHealth marks the board as failed if the board or one of its instances has an XID error that
// only a reset clears. After a reset, readHealth removes the mark. A reset is assumed if the
// board's energy counter decreased, if a lost board returned, or if the last XID codes of the board
// and its instances are 0. The last code of an instance that is missing from the scrape counts
// until the instance is removed. The result reports whether the mark changed. The before parameter
// is the time of the previous scrape of the board's source in the place. Scrapes of other sources do
// not show that the board was lost, because the board's exporter may have been down. Call readHealth
// before liftXID moves events to the board.
func (a *accumulator) readHealth(before int64) (changed bool) {
	h, x := &a.device.health, a.device.of
	was := h.failed
	// If a lost board returns, it is assumed to have been reset.
	reset := a.prev != 0 && before-max(a.prev, a.device.unread) >= lostAfter
	if energy, ok := a.get(x.Energy); ok {
		reset = reset || energy < h.energy
		h.energy = energy
	}
	fatal, codes := false, false
	a.eachPart(func(part *accumulator) {
		failed := slices.ContainsFunc(part.events, func(e event) bool { return x.Fatal(e.code) })
		code, ok := part.get(x.Code)
		if failed || ok {
			part.device.health.open = failed || code != 0
		}
		fatal, codes = fatal || failed, codes || ok
	})
	h.failed = fatal || h.failed && !reset && (!codes || a.device.hasOpenError())
	return h.failed != was
}

// hasOpenError reports whether the board or any of its known instances has an open error.
func (d *Device) hasOpenError() bool {
	return slices.ContainsFunc(d.home.devices, func(o *Device) bool {
		return (o == d || o.Parent == d) && o.health.open
	})
}

// eachPart calls the visit function for the board and for each of its instances.
func (a *accumulator) eachPart(visit func(*accumulator)) {
	visit(a)
	for _, in := range a.instances {
		visit(in)
	}
}

var healthStates = signal.Values(signal.HardwareState)

// The health method adds the samples for the state of the board, which is the worst state that the
// board's fields show. XID errors are used only if no field shows the recovery action.
func (e *emitter) health(s *catalogue.Signal) {
	a := e.a
	if a.device.Parent != nil {
		return
	}
	worst, known, actionKnown := catalogue.HealthOK, false, false
	a.eachPart(func(part *accumulator) { known = known || part.xidSeen })
	for _, f := range a.device.of.Healths {
		v, ok := a.get(f.ID)
		if !ok {
			continue
		}
		if health, ok := f.Health(v); ok {
			worst, known = max(worst, health), true
			e.to.FailurePredicted = e.to.FailurePredicted || health == catalogue.HealthPredictedFailure
			actionKnown = actionKnown || len(f.Provides) > 0 && f.Provides[0].Metric == signal.GPURecoveryAction
		}
	}
	if a.device.health.failed && !actionKnown {
		worst = catalogue.HealthFailed
	}
	if !known {
		return
	}
	e.states(s.Metric, healthStates, float64(slices.Index(healthStates, worst.String())))
}
