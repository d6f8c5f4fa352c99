package gpuwatchdogexporter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/component/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// clockTolerance is the difference between clock and stopwatch, from one
// evaluation to the next, from which on the clock was set.
const clockTolerance = 5 * time.Second

// evaluate judges every device once, and moves the heartbeat if it was able to.
func (w *watchdog) evaluate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(w.cfg.Interval, cluster.CallTimeout))
	defer cancel()
	now, ran := w.clock().Round(0), time.Since(w.begun) // what is remembered has no stopwatch
	step := now.Sub(w.lastTick) - (ran - w.lastRan)
	w.lastTick, w.lastRan = now, ran
	reason, err := w.evaluateAll(ctx, step, now)
	if reason != "" {
		w.count(ctx, reason)
	}
	err = errors.Join(err, w.save(ctx))
	if !errors.Is(ctx.Err(), context.Canceled) { // shutdown
		w.report(ofEvaluation, err)
	}
}

// evaluateAll returns a reason where no device was evaluated, and what is wrong.
func (w *watchdog) evaluateAll(ctx context.Context, step time.Duration, now time.Time) (decide.Reason, error) {
	if step.Abs() >= clockTolerance {
		w.logger.Warn("The clock was set. Breaches are counted anew.", zap.Duration("by", step))
		w.samples.clear()
		w.memory.actions = decide.Shift(w.memory.actions, step)
		clear(w.memory.breaches)
		return decide.ClockStep, nil
	}
	if w.cluster == nil {
		return decide.APIUnavailable, fmt.Errorf("the API server is not used: %w", w.cache.State(kube.Pods).Err)
	}
	term := w.term.Load()
	if !term.Holds() {
		return decide.NotLeader, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term.Context(), cancel)() //nolint:contextcheck // the lease ends a term, not the caller
	if reason, err := w.prepare(ctx, term); err != nil {
		return reason, err
	}
	all := w.samples.samples(now)
	if len(all) == 0 {
		return decide.NoTelemetry, errors.New("no device is known: gpu.memory.headroom and gpu.memory.attribution.state do not arrive")
	}
	whole, err := w.evaluateDevices(ctx, term, all, now)
	w.forget(all)
	if whole && term.Holds() {
		w.memory.lastSuccess = now
		w.lastSuccess.Store(now.UnixMilli())
	}
	return "", err
}

// prepare takes over what an earlier leader did, once in a term, and asks for the
// permissions. With an error it returns why no device can be evaluated.
func (w *watchdog) prepare(ctx context.Context, term *lease.Term) (decide.Reason, error) {
	if term != w.known {
		if err := w.inherit(ctx, term); err != nil {
			return decide.APIUnavailable, fmt.Errorf("actions of earlier leaders: %w", err)
		}
		w.known = term
	}
	missing, err := w.cluster.Missing(ctx)
	switch {
	case err != nil:
		return decide.APIUnavailable, fmt.Errorf("permissions: %w", err)
	case missing != "":
		return decide.NoPermission, fmt.Errorf("permission is missing: %s", missing)
	}
	return "", nil
}

// evaluateDevices reports whether every device could be judged, and why one could not.
func (w *watchdog) evaluateDevices(ctx context.Context, term *lease.Term, all []observed, now time.Time) (bool, error) {
	var problems []error
	whole, records := true, 0
	for i := range all {
		d, err := w.evaluateDevice(ctx, term, &all[i], now)
		w.count(ctx, d.Reason)
		if w.worthARecord(&d) {
			if records++; records <= maxRecords {
				w.log(&d, all[i].reason, err)
			}
		}
		if !d.Reason.Complete() {
			whole = false
			problems = append(problems, err)
		}
		w.reasons[d.Device] = d.Reason
	}
	if records > maxRecords {
		w.logger.Warn("Too many decisions to log; further ones are left out.", zap.Int("left_out", records-maxRecords))
	}
	return whole, errors.Join(problems...)
}

// inherit takes over what an earlier leader did.
func (w *watchdog) inherit(ctx context.Context, term *lease.Term) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.CallTimeout)
	defer cancel()
	note, err := term.Note(ctx, noteKey)
	if err != nil || note == "" {
		return err
	}
	var actions []decide.Action
	if err := json.Unmarshal([]byte(note), &actions); err != nil {
		w.logger.Warn("The actions on the lease cannot be read. Those of earlier leaders do not count.", zap.Error(err))
		return nil
	}
	w.memory.actions = decide.Merge(w.memory.actions, actions)
	return nil
}

// evaluateDevice judges one device and does what was decided. The error says why
// it could not be.
func (w *watchdog) evaluateDevice(ctx context.Context, term *lease.Term, o *observed, now time.Time) (decide.Decision, error) {
	before := decide.State{Breach: w.memory.breaches[o.device], Actions: w.memory.actions}
	in := decide.Input{Device: o.device, Sample: o.sample, Pods: map[string]decide.Pod{}}
	for {
		after, d := decide.Evaluate(before, in, w.policy, now)
		if d.Reason == decide.PodUnknown && ctx.Err() == nil {
			pod, err := w.cluster.Pod(ctx, d.Victim.Namespace, d.Victim.Pod)
			if err == nil {
				in.Pods[d.Victim.UID] = pod
				continue
			}
			w.remember(o.device, after)
			return d, fmt.Errorf("pod %s/%s: %w", d.Victim.Namespace, d.Victim.Pod, err)
		}
		w.remember(o.device, after)
		if d.Action == nil {
			return d, nil
		}
		return w.act(ctx, term, after, d, now)
	}
}

func (w *watchdog) remember(device decide.Device, s decide.State) {
	w.memory.breaches[device], w.memory.actions = s.Breach, s.Actions
}

// act writes the action down, in the storage and on the lease, and does it then. So
// a crash in between leaves a cool-down without an eviction, never the reverse.
func (w *watchdog) act(
	ctx context.Context, term *lease.Term, s decide.State, d decide.Decision, now time.Time,
) (decide.Decision, error) {
	end := func(reason decide.Reason, done bool, err error) (decide.Decision, error) {
		d.Reason = reason
		w.remember(d.Device, decide.Settle(s, *d.Action, done))
		w.tell(ctx, &d, err, now)
		if err != nil {
			err = fmt.Errorf("pod %s/%s: %w", d.Victim.Namespace, d.Victim.Pod, err)
		}
		return d, err
	}
	if err := w.save(ctx); err != nil {
		return end(decide.StateUnsaved, false, err)
	}
	err := w.note(ctx, term)
	switch {
	case errors.Is(err, lease.ErrLost), err == nil && !term.Holds():
		return end(decide.NotLeader, false, err)
	case err != nil:
		return end(decide.StateUnsaved, false, err)
	case w.cfg.DryRun:
		return end(decide.WouldEvict, true, nil)
	}
	reason, done, err := w.cluster.Act(ctx, d.Action)
	decided, err := end(reason, done, err)
	if !done {
		// The note still has an action that was not done. The next action replaces the note;
		// until then it only delays another leader.
		if noteErr := w.note(ctx, term); noteErr != nil {
			w.logger.Warn("The lease still records an action that was not done.", zap.Error(noteErr))
		}
	}
	return decided, err
}

// note writes the actions on the lease, if this replica still holds it.
func (w *watchdog) note(ctx context.Context, term *lease.Term) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.CallTimeout)
	defer cancel()
	actions, err := json.Marshal(w.memory.actions)
	if err != nil {
		return err
	}
	if err := term.SetNote(ctx, noteKey, string(actions)); err != nil {
		return fmt.Errorf("lease %s: %w", &w.cfg.LeaderElection, err)
	}
	return nil
}

// forget drops what is remembered of devices that are gone.
func (w *watchdog) forget(all []observed) {
	present := map[decide.Device]bool{}
	for i := range all {
		present[all[i].device] = true
	}
	gone := func(device decide.Device) bool { return !present[device] }
	maps.DeleteFunc(w.reasons, func(device decide.Device, _ decide.Reason) bool { return gone(device) })
	// A device may not have come back yet after a restart.
	longest := w.cfg.Interval + w.cfg.MaxDataAge
	maps.DeleteFunc(w.memory.breaches, func(device decide.Device, b decide.Breach) bool {
		return gone(device) && w.lastTick.Sub(b.LastAt) > longest
	})
}
