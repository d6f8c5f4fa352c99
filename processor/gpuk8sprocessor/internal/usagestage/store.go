package usagestage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/section"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

// storedVersion is the version of the storage format.
const storedVersion = 1

type storedPlace struct {
	Version int           `json:"version"`
	Cluster string        `json:"cluster,omitempty"`
	Node    string        `json:"node,omitempty"`
	Boards  []storedBoard `json:"boards"`
}

type storedBoard struct {
	ID string `json:"id"`
	usage.Ledger
	Accounts []storedAccount `json:"accounts,omitempty"`
}

type storedAccount struct {
	usage.Key
	usage.Account
}

// start reads the price list, and restores the state that was stored during a clean shutdown. While
// the processor is running, the storage is empty. Therefore, no state is restored after a crash.
func (p *gpuUsage) start(ctx context.Context, host component.Host) error {
	if p.prices != nil {
		if err := p.prices.Read(); err != nil {
			return fmt.Errorf("usage::prices::file is %q: %w", p.prices.Path, err)
		}
		p.priced = time.Now()
	}
	var err error
	p.state, err = componenthelper.OpenState(ctx, host, p.cfg.Storage, component.KindProcessor, section.StorageID("usage", p.id), componenthelper.StateOptions{
		Version:  storedVersion,
		Unusable: "Some of the stored counters of GPU time cannot be used. They start again from zero.",
		Failure: componenthelper.Failure{
			Logger: p.set.Logger, Fails: "Counters of GPU time cannot be stored.", Works: "Counters of GPU time can be stored again.",
		},
		Count: func(ctx context.Context, _ string) { p.telemetry.ProcessorGpuUsageStorageErrors.Add(ctx, 1) },
	})
	if err != nil {
		return err
	}
	now := time.Now()
	componenthelper.Restore(ctx, p.state, func(name string, stored *storedPlace) error {
		p.state.Changed(name)
		return p.restore(stored, now)
	})
	if err := p.state.Save(ctx, func(string) any { return nil }); err != nil {
		// The storage could not be cleared. Restart the counters from zero, because after a crash
		// the same stored state would be restored again.
		p.nodes.Each(func(_ string, n *nodeState) {
			for _, b := range n.boards {
				p.series.Free(1 + len(b.Accounts))
			}
			clear(n.boards)
		})
	}
	return nil
}

func (p *gpuUsage) restore(stored *storedPlace, now time.Time) (err error) {
	place := gpudata.Place{Cluster: stored.Cluster, Node: stored.Node}
	if !p.nodes.With(place, now, func(n *nodeState) { err = p.restoreNode(n, place, stored, now) }) {
		p.series.Refuse(1)
	}
	return err
}

func (p *gpuUsage) restoreNode(n *nodeState, place gpudata.Place, stored *storedPlace, now time.Time) error {
	ledgers := map[gpudata.Device]*boardState{}
	series := 0
	for i := range stored.Boards {
		s := &stored.Boards[i]
		d := gpudata.NewDevice(place, s.ID)
		b := &boardState{lastSeen: now, Ledger: s.Ledger}
		for _, of := range s.Accounts {
			a := b.Open(of.Key)
			*a = of.Account
			a.Seen = now
		}
		if err := b.Valid(); err != nil || s.ID == "" || ledgers[d] != nil || n.boards[d] != nil || len(b.Accounts) != len(s.Accounts) {
			return fmt.Errorf("board %q", s.ID)
		}
		ledgers[d] = b
		series += 1 + len(b.Accounts)
	}
	if p.series.Admit(series) {
		maps.Copy(n.boards, ledgers)
	}
	return nil
}

// stored returns the state of a node in the storage format, or nil if the node has no state. The
// returned state is sorted.
func (p *gpuUsage) stored(key string) any {
	return p.nodes.Stored(key, func(n *nodeState) any {
		if len(n.boards) == 0 {
			return nil
		}
		s := &storedPlace{Version: storedVersion}
		for d, b := range n.boards {
			s.Cluster, s.Node = d.Place().Cluster, d.Place().Node
			of := storedBoard{ID: d.ID(), Ledger: b.Ledger}
			for k, a := range b.Accounts {
				of.Accounts = append(of.Accounts, storedAccount{k, *a})
			}
			slices.SortFunc(of.Accounts, func(a, b storedAccount) int {
				return cmp.Or(cmp.Compare(a.Device, b.Device), a.Compare(b.Holder), cmp.Compare(a.Allocated.Start, b.Allocated.Start))
			})
			s.Boards = append(s.Boards, of)
		}
		slices.SortFunc(s.Boards, func(a, b storedBoard) int { return cmp.Compare(a.ID, b.ID) })
		return s
	})
}

func (p *gpuUsage) shutdown(ctx context.Context) error {
	defer p.telemetry.Shutdown()
	p.series.Forget()
	p.nodes.Each(func(key string, n *nodeState) {
		if len(n.boards) > 0 {
			p.state.Changed(key)
		}
	})
	_ = p.state.Save(ctx, p.stored)
	return p.state.Close(ctx)
}
