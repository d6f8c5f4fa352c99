package gpupowerprocessor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/energy"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/idle"
)

// storedVersion is the version of the stored form of a place.
const storedVersion = 1

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
	energyKey
	energy.Counter
}

// start takes over what the storage holds, if there is one.
func (p *gpuPower) start(ctx context.Context, host component.Host) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	p.state, err = base.OpenState(ctx, host, p.cfg.Storage, component.KindProcessor, p.id, base.StateOptions{
		Version:  storedVersion,
		Unusable: "Some of the stored baselines and energy cannot be used; they start anew.",
		Failure: base.Failure{
			Logger: p.logger, Fails: "Baselines and energy cannot be stored.", Works: "Baselines and energy can be stored again.",
		},
		Count: func(ctx context.Context, _ string) { p.telemetry.ProcessorGpuPowerStorageErrors.Add(ctx, 1) },
	})
	now := time.Now()
	base.Restore(ctx, p.state, func(name string, stored *storedPlace) error { return p.restore(name, stored, now) })
	return err
}

func (p *gpuPower) restore(name string, stored *storedPlace, now time.Time) error {
	if err := stored.valid(); err != nil {
		return err
	}
	pl := p.place(name, now)
	if pl == nil {
		p.state.Changed(name) // there is no room for it
		return nil
	}
	for _, s := range stored.Boards {
		if b := p.board(pl, s.ID, now); b != nil {
			b.Baselines = s.Baselines
		}
	}
	for _, s := range stored.Energy {
		if !p.series.Room() {
			break
		}
		pl.energy[s.energyKey] = &energyState{Counter: s.Counter, seen: now}
	}
	return nil
}

func (s *storedPlace) valid() error {
	boards := map[string]bool{}
	for _, b := range s.Boards {
		for _, l := range b.Baselines {
			possible := func(watts float64) bool { return watts >= 0 && watts <= maxWatts }
			if !possible(l.Watts) || !possible(l.Next) || l.Lowest <= 0 || l.Quiet <= 0 || l.NextTime < 0 {
				return fmt.Errorf("baseline of %q", b.ID)
			}
		}
		if b.ID == "" || boards[b.ID] {
			return fmt.Errorf("board %q", b.ID)
		}
		boards[b.ID] = true
	}
	counters := map[energyKey]bool{}
	for i := range s.Energy {
		e := &s.Energy[i]
		if e.Device == "" || !e.Valid(maxWatts) || counters[e.energyKey] {
			return fmt.Errorf("energy on %q", e.Device)
		}
		counters[e.energyKey] = true
	}
	return nil
}

// save writes what changed before the batch that shows it leaves, so that no
// counter falls after a restart.
func (p *gpuPower) save(ctx context.Context) {
	_ = p.state.Save(ctx, func(name string) any {
		if pl, known := p.places[name]; known {
			return pl.stored()
		}
		return nil
	})
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
		out.Energy = append(out.Energy, storedEnergy{k, e.Counter})
	}
	slices.SortFunc(out.Energy, func(a, b storedEnergy) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), a.Compare(b.Holder))
	})
	return out
}

func (p *gpuPower) shutdown(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.telemetry.Shutdown()
	p.series.Forget()
	return p.state.Close(ctx)
}
