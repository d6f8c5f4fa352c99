package budgetstage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/drift"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
)

// The drift report has the value that a container's usage did not exceed for this
// share of this time.
const (
	driftWindow   = 24 * time.Hour
	driftQuantile = 0.95
)

// minValues is how many values a percentile needs: of fewer the 95th is the
// highest.
const minValues = 20

// driftReport keeps how much containers used over a long time, by node.
type driftReport struct {
	max     int
	places  map[string]driftPlace
	series  int
	refused int64
	state   *base.State // nil without a storage
}

type driftPlace map[driftKey]*driftSeries

type driftKey struct {
	Device string `json:"device"`
	gpudata.Holder
}

type driftSeries struct {
	drift.Sketch
	last int64     // time of the newest sample
	seen time.Time // by our clock
}

// add takes over what a container uses at t and returns what it mostly stayed below,
// in bytes, once enough is known.
func (r *driftReport) add(place string, t int64, device string, u *budget.User, now time.Time) (float64, bool) {
	pl := r.places[place]
	s := pl[driftKey{device, u.Holder}]
	if s == nil {
		if r.series >= r.max {
			r.refused++
			return 0, false
		}
		if pl == nil {
			pl = driftPlace{}
			r.places[place] = pl
		}
		s = &driftSeries{}
		pl[driftKey{strings.Clone(device), u.Clone()}] = s
		r.series++
	}
	s.seen = now
	if t != s.last { // a sample that comes twice counts once
		s.last = t
		s.Add(t, u.Used, driftWindow)
		r.state.Changed(place)
	}
	bytes, values := s.Quantile(driftQuantile)
	return bytes, values >= minValues
}

// sweep forgets containers that nothing named for as long as the window.
func (r *driftReport) sweep(now time.Time) {
	for name, pl := range r.places {
		for key, s := range pl {
			if now.Sub(s.seen) > driftWindow {
				delete(pl, key)
				r.series--
				r.state.Changed(name)
			}
		}
		if len(pl) == 0 {
			delete(r.places, name)
			r.state.Changed(name)
		}
	}
}

// storedVersion is the version of the stored form of a place.
const storedVersion = 1

type storedPlace struct {
	Version int            `json:"version"`
	Series  []storedSeries `json:"series"`
}

type storedSeries struct {
	driftKey
	Last int64 `json:"last"`
	drift.Sketch
}

// open takes over what the storage holds, if there is one.
func (p *gpuBudget) open(ctx context.Context, host component.Host) error {
	var err error
	p.drift.state, err = base.OpenState(ctx, host, p.cfg.Storage, component.KindProcessor, section.StorageID("budget", p.id), base.StateOptions{
		Version:  storedVersion,
		Unusable: "Some of the stored drift report cannot be used; it starts anew.",
		Failure: base.Failure{
			Logger: p.set.Logger, Fails: "The drift report cannot be stored.", Works: "The drift report can be stored again.",
		},
		Count: func(ctx context.Context, _ string) { p.telemetry.ProcessorGpuBudgetStorageErrors.Add(ctx, 1) },
	})
	now := time.Now()
	base.Restore(ctx, p.drift.state, func(name string, stored *storedPlace) error { return p.drift.restore(name, stored, now) })
	return err
}

func (r *driftReport) restore(name string, stored *storedPlace, now time.Time) error {
	if err := stored.valid(); err != nil {
		return err
	}
	pl := driftPlace{}
	r.places[name] = pl
	for _, s := range stored.Series {
		if r.series >= r.max {
			break
		}
		pl[s.driftKey] = &driftSeries{Sketch: s.Sketch, last: s.Last, seen: now}
		r.series++
	}
	return nil
}

func (s *storedPlace) valid() error {
	known := map[driftKey]bool{}
	for i := range s.Series {
		x := &s.Series[i]
		switch err := x.Validate(); {
		case err != nil:
			return fmt.Errorf("series %d on %q: %w", i, x.Device, err)
		case x.Device == "":
			return fmt.Errorf("series %d is on no device", i)
		case known[x.driftKey]:
			return fmt.Errorf("series %d on %q is there twice", i, x.Device)
		}
		known[x.driftKey] = true
	}
	return nil
}

// placeToStore returns the stored form of a place, nil if it is no longer known.
func (r *driftReport) placeToStore(name string) any {
	if pl, known := r.places[name]; known {
		return pl.stored()
	}
	return nil
}

// stored returns what is to survive a restart, in an order that depends on
// nothing else.
func (pl driftPlace) stored() storedPlace {
	out := storedPlace{Version: storedVersion, Series: []storedSeries{}}
	for k, s := range pl {
		out.Series = append(out.Series, storedSeries{k, s.last, s.Sketch})
	}
	slices.SortFunc(out.Series, func(a, b storedSeries) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), a.Compare(b.Holder))
	})
	return out
}
