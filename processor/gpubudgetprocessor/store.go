package gpubudgetprocessor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/storageclient"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/budget"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpubudgetprocessor/internal/drift"
)

// minValues is how many values a percentile needs: of fewer the 95th is the
// highest.
const minValues = 20

// driftReport keeps how much containers used over a long time, by node.
type driftReport struct {
	window   time.Duration
	quantile float64
	max      int

	places map[string]*driftPlace
	// changed and gone say what the storage has not got.
	changed bool
	gone    []string
	series  int
	refused int64
}

type driftPlace struct {
	series map[driftKey]*driftSeries
	dirty  bool
}

type driftKey struct {
	device string
	holder gpudata.Holder
}

type driftSeries struct {
	drift.Sketch
	last int64     // time of the newest sample
	seen time.Time // by our clock
}

func newDriftReport(cfg *Config) driftReport {
	return driftReport{
		window: cfg.Drift.Window, quantile: cfg.Drift.Quantile, max: cfg.MaxSeries, places: map[string]*driftPlace{},
	}
}

// add takes over what a container uses at t and returns what it mostly stayed below,
// in bytes, once enough is known.
func (r *driftReport) add(place string, t int64, device string, u *budget.User, now time.Time) (float64, bool) {
	pl, ok := r.places[place]
	key := driftKey{device, u.Holder}
	var s *driftSeries
	if ok {
		s = pl.series[key]
	}
	if s == nil {
		if r.series >= r.max {
			r.refused++
			return 0, false
		}
		if !ok {
			pl = r.place(place)
		}
		s = &driftSeries{}
		pl.series[driftKey{strings.Clone(device), key.holder.Clone()}] = s
		r.series++
	}
	s.seen = now
	if t != s.last { // a sample that comes twice counts once
		s.last = t
		s.Add(t, u.Used, r.window)
		pl.dirty = true
	}
	bytes, values := s.Quantile(r.quantile)
	return bytes, values >= minValues
}

func (r *driftReport) place(name string) *driftPlace {
	pl := &driftPlace{series: map[driftKey]*driftSeries{}}
	r.places[name] = pl
	r.changed = true
	return pl
}

// sweep forgets containers that nothing named for as long as the window.
func (r *driftReport) sweep(now time.Time) {
	for name, pl := range r.places {
		for key, s := range pl.series {
			if now.Sub(s.seen) > r.window {
				delete(pl.series, key)
				r.series--
				pl.dirty = true
			}
		}
		if len(pl.series) == 0 {
			delete(r.places, name)
			r.gone = append(r.gone, name)
			r.changed = true
		}
	}
}

// What the storage holds: under placesKey which places there are, under
// placeKey(name) what is known of each.
const (
	placesKey = "places"
	// storedVersion is that of the encoding.
	storedVersion = 1
)

func placeKey(name string) string { return "place/" + name }

type storedPlaces struct {
	Version int      `json:"version"`
	Places  []string `json:"places"`
}

type storedPlace struct {
	Version int            `json:"version"`
	Series  []storedSeries `json:"series"`
}

type storedSeries struct {
	Device    string `json:"device"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Name      string `json:"name,omitempty"`
	ID        string `json:"id,omitempty"`
	Job       string `json:"job,omitempty"`
	Last      int64  `json:"last"`
	drift.Sketch
}

func (s *storedSeries) key() driftKey {
	return driftKey{s.Device, gpudata.Holder{
		Namespace: s.Namespace, Pod: s.Pod, UID: s.UID, Container: s.Container, Name: s.Name, ID: s.ID, Job: s.Job,
	}}
}

// open takes over what the storage holds, if there is one. What cannot be used
// is dropped, said once and counted.
func (p *gpuBudget) open(ctx context.Context, host component.Host) error {
	if p.cfg.Storage == nil {
		return nil
	}
	client, err := storageclient.Open(ctx, host, *p.cfg.Storage, component.KindProcessor, p.id)
	if err != nil {
		return err
	}
	p.storage = client
	if err := p.restore(ctx, time.Now()); err != nil {
		p.set.Logger.Warn("Some of the stored drift report cannot be used; it starts anew.", zap.Error(err))
	}
	return nil
}

func (p *gpuBudget) restore(ctx context.Context, now time.Time) error {
	var index storedPlaces
	found, err := storageclient.Load(ctx, p.storage, placesKey, &index)
	if err == nil && found && index.Version != storedVersion {
		err = fmt.Errorf("%w: version %d", errStored, index.Version)
	}
	if err != nil {
		p.telemetry.ProcessorGpuBudgetStorageErrors.Add(ctx, 1)
		return err
	}
	var errs []error
	for _, name := range index.Places {
		if err := p.restorePlace(ctx, name, now); err != nil {
			p.telemetry.ProcessorGpuBudgetStorageErrors.Add(ctx, 1)
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	p.drift.changed = false
	return errors.Join(errs...)
}

func (p *gpuBudget) restorePlace(ctx context.Context, name string, now time.Time) error {
	// A place that cannot be read is known all the same, so that it is forgotten
	// in the storage too.
	pl := p.drift.place(name)
	var stored storedPlace
	found, err := storageclient.Load(ctx, p.storage, placeKey(name), &stored)
	if err != nil || !found {
		return err
	}
	if err := stored.valid(); err != nil {
		return err
	}
	for _, s := range stored.Series {
		if p.drift.series >= p.drift.max {
			break
		}
		pl.series[s.key()] = &driftSeries{Sketch: s.Sketch, last: s.Last, seen: now}
		p.drift.series++
	}
	return nil
}

func (s *storedPlace) valid() error {
	if s.Version != storedVersion {
		return fmt.Errorf("%w: version %d", errStored, s.Version)
	}
	known := map[driftKey]bool{}
	for i := range s.Series {
		x := &s.Series[i]
		key := x.key()
		switch err := x.Validate(); {
		case err != nil:
			return fmt.Errorf("%w: series %d on %q: %w", errStored, i, x.Device, err)
		case x.Device == "":
			return fmt.Errorf("%w: series %d is on no device", errStored, i)
		case known[key]:
			return fmt.Errorf("%w: series %d on %q is there twice", errStored, i, x.Device)
		}
		known[key] = true
	}
	return nil
}

// save writes what changed, the containers of one node in one value.
func (p *gpuBudget) save(ctx context.Context) {
	var ops []*storage.Operation
	var saved []*driftPlace
	var errs []error
	for name, pl := range p.drift.places {
		if !pl.dirty {
			continue
		}
		text, err := json.Marshal(pl.stored())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		ops = append(ops, storage.SetOperation(placeKey(name), text))
		saved = append(saved, pl)
	}
	for _, name := range p.drift.gone {
		if _, back := p.drift.places[name]; !back {
			ops = append(ops, storage.DeleteOperation(placeKey(name)))
		}
	}
	if p.drift.changed {
		text, err := json.Marshal(storedPlaces{storedVersion, slices.Sorted(maps.Keys(p.drift.places))})
		if err != nil {
			errs = append(errs, err)
		}
		ops = append(ops, storage.SetOperation(placesKey, text))
	}
	if len(ops) == 0 {
		return
	}
	err := errors.Join(append(errs, p.storage.Batch(ctx, ops...))...)
	if err == nil {
		for _, pl := range saved {
			pl.dirty = false
		}
		p.drift.gone, p.drift.changed = nil, false
	} else {
		p.telemetry.ProcessorGpuBudgetStorageErrors.Add(ctx, 1)
	}
	p.warn(err)
}

// stored returns what is to survive a restart, in an order that depends on
// nothing else.
func (pl *driftPlace) stored() storedPlace {
	out := storedPlace{Version: storedVersion, Series: []storedSeries{}}
	for k, s := range pl.series {
		h := k.holder
		out.Series = append(out.Series, storedSeries{k.device, h.Namespace, h.Pod, h.UID, h.Container, h.Name, h.ID, h.Job, s.last, s.Sketch})
	}
	slices.SortFunc(out.Series, func(a, b storedSeries) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), a.key().holder.Compare(b.key().holder))
	})
	return out
}
