package usagestage

import (
	"maps"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/usage"
)

const (
	// boardTimeout is how long the state of a board is kept after the board's last sample.
	boardTimeout = 24 * time.Hour
	// sweepEvery is the minimum time between two deletions of expired state.
	sweepEvery = time.Minute
)

// boardState is the state of a board.
type boardState struct {
	usage.Ledger
	lastSeen   time.Time
	maxDevices int // maxDevices is the highest number of the board's devices in any frame.
}

// nodeState is the state of a node.
type nodeState struct {
	boards     map[gpudata.Device]*boardState
	currencies map[string][]gpudata.Attr
}

func newNode(string) *nodeState {
	return &nodeState{
		boards: map[gpudata.Device]*boardState{}, currencies: map[string][]gpudata.Attr{},
	}
}

// findOrAddBoard returns the state of a board. New boards are added. If a board cannot be added
// because the series limit is reached, the result is nil.
func (p *usageBatch) findOrAddBoard(d gpudata.Device, now time.Time) *boardState {
	b := p.boards[d]
	if b == nil {
		if !p.series.Admit(1) {
			return nil
		}
		b = &boardState{}
		p.boards[d] = b
	}
	b.lastSeen = now
	return b
}

// sweep deletes accounts that have not increased for IdleTimeout, and boards that have had no
// samples for boardTimeout.
func (p *gpuUsage) sweep(now time.Time) {
	p.nodes.Sweep(now, sweepEvery, func(_ string, n *nodeState, _ time.Time) (gone bool) {
		for d, b := range n.boards {
			before := len(b.Accounts)
			maps.DeleteFunc(b.Accounts, func(_ usage.Key, a *usage.Account) bool { return now.Sub(a.Seen) > p.cfg.IdleTimeout })
			p.series.Free(before - len(b.Accounts))
			if now.Sub(b.lastSeen) > boardTimeout {
				p.series.Free(1 + len(b.Accounts))
				delete(n.boards, d)
			}
		}
		return len(n.boards) == 0
	})
}
