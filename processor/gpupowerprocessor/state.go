package gpupowerprocessor

import (
	"math"
	"strings"
	"time"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/energy"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/idle"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpupowerprocessor/internal/split"
)

// quietActivity is the highest activity of a board on which nothing runs. Idle
// boards have been recorded with DRAM_ACTIVE up to 0.00013: memory is refreshed
// and the telemetry itself reads a little.
const quietActivity = 0.001

const (
	// retention is for how long what no batch names is kept.
	retention = time.Hour
	// sweepEvery is the least time between two looks for what is to be forgotten.
	sweepEvery = time.Minute
)

// place is what is remembered of a node. Times of type time.Time are of the wall
// clock and say when something was named last.
type place struct {
	boards map[string]*boardState
	energy map[energyKey]*energyState
	// processes are the newest set and the one before, for a board whose sample
	// is a little older.
	processes [2]*processSet
	seen      time.Time
	// dirty says that the storage has not got what changed.
	dirty bool
}

type boardState struct {
	idle.Learner
	kind idle.Kind
	// counted says that the board is one of gpuPower.kinds.
	counted bool
	seen    time.Time
}

type energyKey struct {
	device    string
	container split.Container
}

type energyState struct {
	energy.Counter
	seen time.Time
}

func newPlace(now time.Time) *place {
	return &place{boards: map[string]*boardState{}, energy: map[energyKey]*energyState{}, seen: now}
}

// known returns the processes at time t; nil when nothing is known of them.
func (pl *place) known(f *frame, maxGap time.Duration) *processSet {
	if f.processes != nil {
		return f.processes
	}
	for _, set := range pl.processes {
		if set != nil && set.time <= f.time && f.time-set.time <= int64(maxGap) {
			return set
		}
	}
	return nil
}

// remember keeps the processes of a frame for boards that are sampled at other
// times.
func (pl *place) remember(f *frame) {
	set, newest := f.processes, pl.processes[0]
	switch {
	case set == nil:
	case newest != nil && newest.time == set.time:
		newest.merge(set)
		f.processes = newest
	case newest == nil || newest.time < set.time:
		pl.processes = [2]*processSet{set, newest}
	}
}

// merge takes over what the set lacks: one moment can come in several batches.
func (s *processSet) merge(from *processSet) {
	for key, p := range from.byID {
		known, ok := s.byID[key]
		switch {
		case !ok:
			s.byID[key] = p
			s.byDevice[key.device] = append(s.byDevice[key.device], p)
		case math.IsNaN(known.Utilization):
			known.Utilization = p.Utilization
		}
	}
}

// room reports whether one more series can be kept, and counts it if so.
func (p *gpuPower) room() bool {
	if p.series >= p.cfg.MaxSeries {
		p.refused++
		return false
	}
	p.series++
	return true
}

// place returns the state of a node; nil when there is no room for a new one.
func (p *gpuPower) place(name string, now time.Time) *place {
	pl, ok := p.places[name]
	if !ok {
		if len(p.places) >= p.cfg.MaxSeries {
			return nil
		}
		pl = newPlace(now)
		p.places[strings.Clone(name)] = pl
		p.placesChanged = true
	}
	pl.seen = now
	return pl
}

// board returns the state of a board; nil when there is no room for a new one.
func (p *gpuPower) board(pl *place, id string, now time.Time) *boardState {
	if pl == nil {
		return nil
	}
	s, ok := pl.boards[id]
	if !ok {
		if !p.room() {
			return nil
		}
		s = &boardState{}
		pl.boards[strings.Clone(id)] = s
	}
	s.seen = now
	return s
}

// baseline returns what the board draws without work, in W, and whether that is
// known. processes are nil when nothing is known of them.
func (p *gpuPower) baseline(pl *place, b *board, processes *processSet, t int64, now time.Time) (float64, bool) {
	profiles := make([]string, 0, len(b.instances))
	for _, i := range b.instances {
		profiles = append(profiles, i.profile)
	}
	layout := idle.LayoutOf(profiles)
	watts, configured := p.idle.Lookup(b.id, b.model, layout)
	state := p.board(pl, b.id, now)
	if state == nil {
		return watts, configured
	}
	kind := idle.Unknown
	switch {
	case configured:
		kind = idle.Configured
	case p.cfg.Idle.Learn:
		if b.Measured > 0 && b.quiet(processes != nil) && state.Quiet(layout, t, b.Measured, p.cfg.Idle.Expire) {
			pl.dirty = true
		}
		var learned bool
		if watts, learned = state.Lookup(layout, t, p.cfg.Idle.Expire); learned {
			kind = idle.Learned
		}
	}
	p.uncount(state)
	p.kinds[kind]++
	state.kind, state.counted = kind, true
	return watts, kind != idle.Unknown
}

func (p *gpuPower) uncount(b *boardState) {
	if b.counted {
		p.kinds[b.kind]--
		b.counted = false
	}
}

// quiet reports whether nothing ran on the board. Without a list of processes
// nobody may hold the board, since a process that only waits shows no activity
// but keeps the board awake, and activity must be known everywhere.
func (b *board) quiet(processesKnown bool) bool {
	quiet := func(d *device, s *split.Device) bool {
		if len(s.Processes) > 0 || d.codec || s.Activity.Busiest() > quietActivity {
			return false
		}
		return processesKnown || len(s.Holders) == 0
	}
	if !quiet(&b.device, &b.Device) {
		return false
	}
	known := len(b.instances) > 0
	for _, i := range b.instances {
		if !quiet(&i.device, &i.Device) {
			return false
		}
		known = known && i.Activity.Known()
	}
	return processesKnown || known || b.Activity.Known()
}

// count adds the power of a container to its energy and returns the counter. It
// reports false when there is nothing to say.
func (p *gpuPower) count(pl *place, device string, h *split.Holder, t int64, now time.Time) (*energyState, bool) {
	if pl == nil || p.write.disabled[signal.K8sContainerGPUEnergy] {
		return nil, false
	}
	key := energyKey{device, h.Container}
	e, ok := pl.energy[key]
	if !ok {
		if !p.room() {
			return nil, false
		}
		e = &energyState{}
		pl.energy[key.clone()] = e
	}
	e.seen = now
	if !e.Add(t, h.Power, p.cfg.MaxGap) {
		return nil, false
	}
	pl.dirty = true
	return e, true
}

// release ends at time t the power of containers on devices that others hold then:
// held until they come back it would be counted twice.
func (pl *place) release(shared map[string]bool, t int64, maxGap time.Duration) {
	if len(shared) == 0 {
		return
	}
	for key, e := range pl.energy {
		if e.Last < t && e.Watts > 0 && shared[key.device] {
			e.Add(t, 0, maxGap)
			pl.dirty = true
		}
	}
}

// clone returns a key that does not keep the batch in memory.
func (k energyKey) clone() energyKey {
	c := k.container
	return energyKey{strings.Clone(k.device), split.Container{
		Namespace: strings.Clone(c.Namespace), Pod: strings.Clone(c.Pod),
		UID: strings.Clone(c.UID), Name: strings.Clone(c.Name),
	}}
}

// sweep forgets what no batch has named for a while. Learned baselines are kept
// until they expire.
func (p *gpuPower) sweep(now time.Time) {
	if now.Sub(p.swept) < sweepEvery && now.After(p.swept) {
		return
	}
	p.swept = now
	for name, pl := range p.places {
		for key, e := range pl.energy {
			if now.Sub(e.seen) > retention {
				delete(pl.energy, key)
				p.series--
				pl.dirty = true
			}
		}
		for id, b := range pl.boards {
			unseen := now.Sub(b.seen)
			if unseen <= retention {
				continue
			}
			p.uncount(b)
			if len(b.Baselines) == 0 || unseen > p.cfg.Idle.Expire {
				delete(pl.boards, id)
				p.series--
				pl.dirty = true
			}
		}
		if now.Sub(pl.seen) > retention {
			pl.processes = [2]*processSet{}
			if len(pl.boards) == 0 && len(pl.energy) == 0 {
				delete(p.places, name)
				p.gone = append(p.gone, name)
				p.placesChanged = true
			}
		}
	}
}
