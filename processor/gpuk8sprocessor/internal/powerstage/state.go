package powerstage

import (
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/energy"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/split"
)

// idleActivity is the highest activity that counts as idle. Recordings of idle boards have a
// DRAM_ACTIVE of up to 0.00013, which is caused by memory refreshes and by the telemetry itself.
const idleActivity = 0.001

const (
	// retention is how long the state of a device is kept after the last batch that contained the
	// device. If a board has learned baselines that expire later, its state is kept until they
	// expire.
	retention = time.Hour
	// sweepEvery is the minimum time between two deletions of expired state.
	sweepEvery = time.Minute
)

// nodeState is the state of a node. All fields named lastSeen are wall-clock times.
type nodeState struct {
	key    string // of the stored state
	boards map[string]*boardState
	energy map[energyKey]*energyState
}

func newNode(key string) *nodeState {
	return &nodeState{key: key, boards: map[string]*boardState{}, energy: map[energyKey]*energyState{}}
}

type boardState struct {
	idle.Learner
	kind idle.Kind
	// counted is true if the board is included in the counts in gpuPower.kinds.
	counted      bool
	clock        gpudata.Clock // clock tracks the times of the frames with the board's power.
	maxInstances int           // maxInstances is the highest number of instances in any frame.
	lastSeen     time.Time
}

type energyKey struct {
	Device string `json:"device"`
	gpudata.Holder
}

type energyState struct {
	energy.Counter
	board    string // board is the hw.id of the device's board, or of the device if it is a board.
	lastSeen time.Time
}

// board returns the state of a board. New boards are added. If a board cannot be added because the
// series limit is reached, the result is nil.
func (p *gpuPower) board(pl *nodeState, id string, now time.Time) *boardState {
	if pl == nil {
		return nil
	}
	s, ok := pl.boards[id]
	if !ok {
		if !p.series.Admit(1) {
			return nil
		}
		s = &boardState{}
		pl.boards[strings.Clone(id)] = s
	}
	s.lastSeen = now
	return s
}

// baseline returns the idle power of a board, in W. If the idle power is unknown, baseline returns
// false.
func (p *gpuPower) baseline(pl *nodeState, state *boardState, b *board, t int64) (float64, bool) {
	watts, configured := p.idle.Lookup(b.id(), b.frame.Model)
	if state == nil {
		return watts, configured
	}
	kind := idle.Configured
	if !configured {
		profiles := make([]string, 0, len(b.instances))
		for _, i := range b.instances {
			profiles = append(profiles, i.frame.Profile)
		}
		layout := idle.LayoutOf(profiles)
		l := b.frame.ProcessList
		listed := l != nil && l.LastCounted != 0 && t-l.LastCounted <= int64(retention)
		if until, isIdle := b.idleUntil(t, listed); !isIdle || b.Measured == 0 {
			state.Busy()
		} else if state.AddIdle(idle.Sample{Layout: layout, Time: t, Watts: b.Measured, Until: until}, p.cfg.Idle.Expire) {
			p.state.Changed(pl.key)
		}
		kind = idle.Unknown
		var learned bool
		if watts, learned = state.Lookup(layout, t, p.cfg.Idle.Expire); learned {
			kind = idle.Learned
		}
	}
	p.uncount(state)
	p.kinds[kind].Add(1)
	state.kind, state.counted = kind, true
	return watts, kind != idle.Unknown
}

func (p *gpuPower) uncount(b *boardState) {
	if b.counted {
		p.kinds[b.kind].Add(-1)
		b.counted = false
	}
}

// idleUntil reports whether the board appears to be idle at time t. The until result is the last
// time at which the board was known to be idle. A board that has a process or any activity is not
// idle. If a process list shows that the board has no processes, the board is known to have been
// idle up to the time of that list. If no source has counted the board's processes recently, the
// board counts as idle only if the board has no holder and at least one activity value of the
// board, or of each of its instances, is known. The listed parameter is true if a source has
// counted the board's processes recently. If the board has a holder, the board does not count as
// idle, because a waiting process has no activity but still increases the board's power.
func (b *board) idleUntil(t int64, listed bool) (until int64, isIdle bool) {
	hasHolder, activityKnown := len(b.Holders) > 0, len(b.instances) > 0 && b.unlisted == 0
	if b.inUse(&b.Device) {
		return 0, false
	}
	for _, i := range b.instances {
		if i.inUse(&i.Device) {
			return 0, false
		}
		hasHolder, activityKnown = hasHolder || len(i.Holders) > 0, activityKnown && i.Activity.IsKnown()
	}
	switch {
	case b.list != nil && b.list.Counted:
		return b.list.Time, true
	case !listed && !hasHolder && (activityKnown || b.Activity.IsKnown()):
		return t, true
	}
	return 0, false
}

// inUse reports whether the device had at least one process or any activity.
func (d *device) inUse(s *split.Device) bool {
	return d.list != nil && (d.list.Count > 0 || len(d.list.Processes) > 0) || d.codec || s.Activity.Busiest() > idleActivity
}

// addEnergy adds the power of a container on a device to the container's energy counter and returns
// that counter. If the counter cannot be emitted, addEnergy returns false.
func (p *gpuPower) addEnergy(pl *nodeState, b *board, device string, h *split.Holder, t int64, now time.Time) (*energyState, bool) {
	if pl == nil || p.disabled[signal.K8sContainerGPUEnergy] {
		return nil, false
	}
	key := energyKey{device, h.Holder}
	e, ok := pl.energy[key]
	if !ok {
		// The power from the time of a late frame is already charged according to a newer frame.
		if b.late || !p.series.Admit(1) {
			return nil, false
		}
		e = &energyState{}
		pl.energy[energyKey{strings.Clone(device), h.Holder.Clone()}] = e
	}
	e.lastSeen = now
	if e.board != b.id() { // Older builds did not store the board of an instance.
		e.board = strings.Clone(b.id())
	}
	if !e.Add(t, now, h.Power, p.cfg.MaxGap) {
		return nil, false
	}
	return e, true
}

// endFormerHolders sets the power of former holders to 0 at time t. The observed parameter contains
// the boards whose measured power is in the frame. All of that power is idle power, unattributed
// power, or the power of current holders, even if the frame does not name any holder or does not
// contain the former holder's instance. Without endFormerHolders, the former holders' last power
// would also continue to count. All former holders get the time t, so that their counters ignore
// late frames, and detect a clock that was set back.
func (p *gpuPower) endFormerHolders(pl *nodeState, observed map[string]bool, t int64, now time.Time) {
	if len(observed) == 0 {
		return
	}
	for _, e := range pl.energy {
		if observed[e.board] { // Add ignores the current holders, because they already have the time t.
			e.Add(t, now, 0, p.cfg.MaxGap)
		}
	}
}

// sweep deletes state that is no longer used. Learned baselines are kept until they expire.
func (p *gpuPower) sweep(now time.Time) {
	p.nodes.Sweep(now, sweepEvery, func(key string, pl *nodeState, used time.Time) (gone bool) {
		for k, e := range pl.energy {
			if now.Sub(e.lastSeen) > retention {
				delete(pl.energy, k)
				p.series.Free(1)
			}
		}
		for id, b := range pl.boards {
			unseen := now.Sub(b.lastSeen)
			if unseen <= retention {
				continue
			}
			p.uncount(b)
			if len(b.Baselines) == 0 || unseen > p.cfg.Idle.Expire {
				delete(pl.boards, id)
				p.series.Free(1)
				p.state.Changed(key)
			}
		}
		if now.Sub(used) <= retention {
			return false
		}
		if gone = len(pl.boards) == 0 && len(pl.energy) == 0; gone {
			p.state.Changed(key)
		}
		return gone
	})
}
