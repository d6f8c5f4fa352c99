package powerstage

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/energy"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
)

// storedVersion is the version of the storage format.
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
	Board string `json:"board,omitempty"` // Board is empty for a board.
	energy.Counter
}

// saveEvery is the interval at which changed baselines are stored.
const saveEvery = time.Minute

// start restores the state from storage, if storage is configured. While the processor is running,
// the storage contains baselines but no energy counters. Therefore, energy counters continue only
// after a clean shutdown. After a crash, a stored energy counter would continue at a lower value
// than the last value that was sent.
func (p *gpuPower) start(ctx context.Context, host component.Host) error {
	var err error
	p.state, err = componenthelper.OpenState(ctx, host, p.cfg.Storage, component.KindProcessor, section.StorageID("power", p.id), componenthelper.StateOptions{
		Version:  storedVersion,
		Unusable: "Some of the stored baselines and energy cannot be used. They are discarded.",
		Failure: componenthelper.Failure{
			Logger: p.logger, Fails: "Baselines and energy cannot be stored.", Works: "Baselines and energy can be stored again.",
		},
		Count: func(ctx context.Context, _ string) { p.telemetry.ProcessorGpuPowerStorageErrors.Add(ctx, 1) },
	})
	if err != nil {
		return err
	}
	now := time.Now()
	componenthelper.Restore(ctx, p.state, func(name string, stored *storedPlace) error {
		if len(stored.Energy) > 0 {
			p.state.Changed(name)
		}
		return p.restore(name, stored, now)
	})
	if err := p.state.Save(ctx, p.baselines); err != nil {
		// The storage may still contain the energy counters. Restart the energy counters from zero,
		// because after a crash the same stored counters would be restored again.
		p.nodes.Each(func(_ string, pl *nodeState) {
			p.series.Free(len(pl.energy))
			clear(pl.energy)
		})
	}
	p.stopSaving = p.state.SaveEvery(ctx, saveEvery, p.baselines)
	return nil
}

func (p *gpuPower) restore(name string, stored *storedPlace, now time.Time) error {
	if err := stored.valid(); err != nil {
		return err
	}
	if !p.nodes.Restore(name, now, func(pl *nodeState) { p.restoreNode(pl, stored, now) }) {
		p.series.Refuse(1)
		p.state.Changed(name) // Delete the stored state, because the limit on the number of nodes is reached.
	}
	return nil
}

func (p *gpuPower) restoreNode(pl *nodeState, stored *storedPlace, now time.Time) {
	for _, s := range stored.Boards {
		if b := p.board(pl, s.ID, now); b != nil {
			b.Baselines = s.Baselines
		}
	}
	for _, s := range stored.Energy {
		if !p.series.Admit(1) {
			break
		}
		pl.energy[s.energyKey] = &energyState{Counter: s.Counter, board: cmp.Or(s.Board, s.Device), lastSeen: now}
	}
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

// baselines returns the state that is stored for a node while the processor is running, or nil if
// the node has no baselines.
func (p *gpuPower) baselines(name string) any {
	return p.nodes.Stored(name, func(pl *nodeState) any {
		if stored := (storedPlace{Version: storedVersion, Boards: pl.storedBoards()}); len(stored.Boards) > 0 {
			return stored
		}
		return nil
	})
}

// all returns the state that is stored for a node during a clean shutdown, or nil if the node has
// no state.
func (p *gpuPower) all(name string) any {
	return p.nodes.Stored(name, func(pl *nodeState) any {
		stored := storedPlace{Version: storedVersion, Boards: pl.storedBoards(), Energy: pl.storedEnergy()}
		if len(stored.Boards) > 0 || len(stored.Energy) > 0 {
			return stored
		}
		return nil
	})
}

// storedBoards and storedEnergy return sorted copies of the state, in the storage format.
func (pl *nodeState) storedBoards() (out []storedBoard) {
	for id, b := range pl.boards {
		if len(b.Baselines) > 0 {
			out = append(out, storedBoard{id, b.Baselines})
		}
	}
	slices.SortFunc(out, func(a, b storedBoard) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (pl *nodeState) storedEnergy() (out []storedEnergy) {
	for k, e := range pl.energy {
		s := storedEnergy{energyKey: k, Counter: e.Counter}
		if e.board != k.Device {
			s.Board = e.board
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b storedEnergy) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), a.Compare(b.Holder))
	})
	return out
}

// shutdown stores baselines and energy counters. If writing to storage blocks, shutdown waits until
// ctx is done.
func (p *gpuPower) shutdown(ctx context.Context) error {
	return p.ending.Run(ctx, func() error {
		defer p.telemetry.Shutdown()
		if p.stopSaving != nil {
			p.stopSaving()
		}
		p.series.Forget()
		if p.stopSaving != nil {
			p.nodes.Each(func(name string, _ *nodeState) { p.state.Changed(name) })
			_ = p.state.Save(ctx, p.all) // Ignore the error, because Save logs and counts the error.
		}
		return p.state.Close(ctx)
	})
}
