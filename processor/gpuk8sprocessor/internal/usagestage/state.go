package usagestage

import (
	"maps"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

const (
	// boardTimeout is how long the state of a board is kept after its last sample.
	boardTimeout = 24 * time.Hour
	// sweepEvery is the shortest time between two sweeps of old state.
	sweepEvery = time.Minute
)

// boardState is the state of a board.
type boardState struct {
	usage.Ledger
	lastSeen   time.Time
	maxDevices int // highest number of devices in one frame
}

// findOrAddBoard returns the state of a board, or nil if the limit of series is reached.
func (p *gpuUsage) findOrAddBoard(d gpudata.Device, now time.Time) *boardState {
	b := p.boards[d]
	if b == nil {
		if !p.series.Room() {
			return nil
		}
		b = &boardState{}
		p.boards[d] = b
	}
	b.lastSeen = now
	return b
}

// sweep removes accounts without time, boards without samples, and old process lists.
func (p *gpuUsage) sweep(now time.Time) {
	if now.Sub(p.lastSweep) < sweepEvery && now.After(p.lastSweep) {
		return
	}
	p.lastSweep = now
	for d, b := range p.boards {
		before := len(b.Accounts)
		maps.DeleteFunc(b.Accounts, func(_ usage.Key, a *usage.Account) bool { return now.Sub(a.Seen) > p.cfg.IdleTimeout })
		p.series.Kept -= before - len(b.Accounts)
		if now.Sub(b.lastSeen) > boardTimeout {
			p.series.Kept -= 1 + len(b.Accounts)
			delete(p.boards, d)
		}
	}
	maps.DeleteFunc(p.lists, func(_ gpudata.Device, l *processList) bool { return now.Sub(l.lastSeen) > p.cfg.IdleTimeout })
}
