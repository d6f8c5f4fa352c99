package gpupowerprocessor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/storageclient"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/energy"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/split"
)

// What the storage holds: under placesKey which places there are, under
// placeKey(name) what is known of each. A batch writes only the places that it
// names.
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
	Boards  []storedBoard  `json:"boards,omitempty"`
	Energy  []storedEnergy `json:"energy,omitempty"`
}

type storedBoard struct {
	ID        string                        `json:"id"`
	Baselines map[idle.Layout]idle.Baseline `json:"baselines"`
}

type storedEnergy struct {
	Device    string `json:"device"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	energy.Counter
}

var errStored = errors.New("not a state of this version")

// start takes over what the storage holds, if there is one. What cannot be used
// is dropped, said once and counted.
func (p *gpuPower) start(ctx context.Context, host component.Host) error {
	if p.cfg.Storage == nil {
		return nil
	}
	client, err := storageclient.Open(ctx, host, *p.cfg.Storage, component.KindProcessor, p.id)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.storage = client
	if err := p.restore(ctx, time.Now()); err != nil {
		p.logger.Warn("Some of the stored baselines and energy cannot be used; they start anew.", zap.Error(err))
	}
	return nil
}

func (p *gpuPower) restore(ctx context.Context, now time.Time) error {
	var index storedPlaces
	found, err := storageclient.Load(ctx, p.storage, placesKey, &index)
	if err == nil && found && index.Version != storedVersion {
		err = fmt.Errorf("%w: version %d", errStored, index.Version)
	}
	if err != nil {
		p.telemetry.ProcessorGpuPowerStorageErrors.Add(ctx, 1)
		return err
	}
	var errs []error
	for _, name := range index.Places {
		if err := p.restorePlace(ctx, name, now); err != nil {
			p.telemetry.ProcessorGpuPowerStorageErrors.Add(ctx, 1)
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	p.placesChanged = false
	return errors.Join(errs...)
}

func (p *gpuPower) restorePlace(ctx context.Context, name string, now time.Time) error {
	// A place that cannot be read is known all the same, so that it is forgotten
	// in the storage too when nothing names it.
	pl := p.place(name, now)
	if pl == nil {
		return nil
	}
	var stored storedPlace
	found, err := storageclient.Load(ctx, p.storage, placeKey(name), &stored)
	if err != nil || !found {
		return err
	}
	if err := stored.valid(); err != nil {
		return err
	}
	for _, s := range stored.Boards {
		if b := p.board(pl, s.ID, now); b != nil {
			b.Baselines = s.Baselines
		}
	}
	for _, s := range stored.Energy {
		if !p.room() {
			break
		}
		key := energyKey{s.Device, split.Container{Namespace: s.Namespace, Pod: s.Pod, UID: s.UID, Name: s.Container}}
		pl.energy[key] = &energyState{Counter: s.Counter, seen: now}
	}
	return nil
}

func (s *storedPlace) valid() error {
	if s.Version != storedVersion {
		return fmt.Errorf("%w: version %d", errStored, s.Version)
	}
	boards := map[string]bool{}
	for _, b := range s.Boards {
		for _, base := range b.Baselines {
			possible := func(watts float64) bool { return watts >= 0 && watts <= maxWatts }
			if !possible(base.Watts) || !possible(base.Next) || base.Lowest <= 0 || base.Quiet <= 0 || base.NextTime < 0 {
				return fmt.Errorf("%w: baseline of %q", errStored, b.ID)
			}
		}
		if b.ID == "" || boards[b.ID] {
			return fmt.Errorf("%w: board %q", errStored, b.ID)
		}
		boards[b.ID] = true
	}
	counters := map[storedEnergy]bool{}
	for _, e := range s.Energy {
		key := e
		key.Counter = energy.Counter{}
		if e.Device == "" || !e.Valid(maxWatts) || counters[key] {
			return fmt.Errorf("%w: energy on %q", errStored, e.Device)
		}
		counters[key] = true
	}
	return nil
}

// save writes what changed before the batch that shows it leaves, so that no
// counter falls after a restart.
func (p *gpuPower) save(ctx context.Context) {
	if p.storage == nil {
		p.gone = nil
		return
	}
	var ops []*storage.Operation
	var saved []*place
	var err error
	for name, pl := range p.places {
		if !pl.dirty {
			continue
		}
		text, e := json.Marshal(pl.stored())
		if e != nil {
			err = e
			continue
		}
		ops = append(ops, storage.SetOperation(placeKey(name), text))
		saved = append(saved, pl)
	}
	for _, name := range p.gone {
		if _, back := p.places[name]; !back {
			ops = append(ops, storage.DeleteOperation(placeKey(name)))
		}
	}
	if p.placesChanged {
		text, e := json.Marshal(storedPlaces{storedVersion, slices.Sorted(maps.Keys(p.places))})
		if e != nil {
			err = e
		}
		ops = append(ops, storage.SetOperation(placesKey, text))
	}
	if len(ops) == 0 {
		return
	}
	err = errors.Join(err, p.storage.Batch(ctx, ops...))
	if err == nil {
		for _, pl := range saved {
			pl.dirty = false
		}
		p.gone, p.placesChanged = nil, false
	} else {
		p.telemetry.ProcessorGpuPowerStorageErrors.Add(ctx, 1)
	}
	if failing := err != nil; failing != p.failing {
		p.failing = failing
		if failing {
			p.logger.Warn("Baselines and energy cannot be stored.", zap.Error(err))
		} else {
			p.logger.Info("Baselines and energy can be stored again.")
		}
	}
}

// stored returns what is to survive a restart, in an order that depends on
// nothing else.
func (pl *place) stored() storedPlace {
	out := storedPlace{Version: storedVersion}
	for id, b := range pl.boards {
		if len(b.Baselines) > 0 {
			out.Boards = append(out.Boards, storedBoard{id, b.Baselines})
		}
	}
	slices.SortFunc(out.Boards, func(a, b storedBoard) int { return cmp.Compare(a.ID, b.ID) })
	for k, e := range pl.energy {
		c := k.container
		out.Energy = append(out.Energy, storedEnergy{k.device, c.Namespace, c.Pod, c.UID, c.Name, e.Counter})
	}
	slices.SortFunc(out.Energy, func(a, b storedEnergy) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Container, b.Container))
	})
	return out
}

func (p *gpuPower) shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.telemetry.Shutdown()
	p.limit.Forget()
	if p.storage == nil {
		return nil
	}
	client := p.storage
	p.storage = nil
	return client.Close(ctx)
}
