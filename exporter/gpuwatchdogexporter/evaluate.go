package gpuwatchdogexporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper/lease"
	"github.com/otelcol-gpu/otelcol-gpu/internal/kube"
)

// clockTolerance is the tolerance for comparing the wall clock with the monotonic clock. If the
// wall clock and the monotonic clock disagree by clockTolerance or more about the time since the
// last evaluation, the wall clock was set.
const clockTolerance = 5 * time.Second

// The evaluate method evaluates every device once, saves the state, and updates the component
// status.
func (w *watchdog) evaluate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(w.cfg.Interval, cluster.CallTimeout))
	defer cancel()
	now, ran := w.clock().Round(0), time.Since(w.startedAt) // Round removes the monotonic reading, because stored times do not have one.
	step := now.Sub(w.lastTick) - (ran - w.lastRan)
	w.lastTick, w.lastRan = now, ran
	reason, err := w.evaluateAll(ctx, step, now)
	if reason != "" {
		w.count(ctx, reason)
	}
	err = errors.Join(err, w.save(ctx))
	if !errors.Is(ctx.Err(), context.Canceled) { // not during shutdown
		w.report(statusEvaluation, err)
	}
}

// evaluateAll evaluates all devices. If all evaluations are complete, evaluateAll updates the
// heartbeat. If no device can be evaluated, evaluateAll returns the reason. If an evaluation fails,
// evaluateAll returns an error.
func (w *watchdog) evaluateAll(ctx context.Context, step time.Duration, now time.Time) (decide.Reason, error) {
	if step.Abs() >= clockTolerance {
		w.logger.Warn("The clock was set. Breach counts restart.", zap.Duration("by", step))
		w.samples.clear()
		w.memory.actions = decide.Shift(w.memory.actions, step)
		clear(w.memory.breaches)
		return decide.ClockStep, nil
	}
	if w.cluster == nil {
		return decide.APIUnavailable, fmt.Errorf("the API server is not used: %w", w.cache.State(kube.Pods).Err)
	}
	term := w.term.Load()
	if !term.IsLeading() {
		return decide.NotLeader, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(term.Context(), cancel)() //nolint:contextcheck // the Lease ends the term; the caller does not
	if reason, err := w.prepare(ctx, term, now); err != nil {
		return reason, err
	}
	all := w.samples.samples(now)
	if len(all) == 0 {
		return decide.NoTelemetry, errors.New("no device is known: gpu.memory.headroom and gpu.memory.attribution.state are not received")
	}
	complete, err := w.evaluateDevices(ctx, term, all, now)
	w.forget(all)
	w.recordEnded(ctx, now)
	if complete && term.IsLeading() {
		w.memory.lastSuccess = now
		w.lastSuccess.Store(now.UnixMilli())
	}
	return "", err
}

// The prepare method reads the record once per term and checks the permissions. If no device can be
// evaluated, prepare returns the reason and an error.
func (w *watchdog) prepare(ctx context.Context, term *lease.Term, now time.Time) (decide.Reason, error) {
	if term != w.lastTerm {
		if err := w.readRecord(ctx, now); err != nil {
			return decide.APIUnavailable, fmt.Errorf("actions of all watchdogs: %w", err)
		}
	}
	if err := w.checkPermissions(ctx, term != w.lastTerm, now); err != nil {
		return decide.APIUnavailable, err
	}
	w.lastTerm = term
	if err := w.denied.errIfAllMissing(w.cfg.Namespaces); err != nil {
		return decide.NoPermission, err
	}
	return "", nil
}

// evaluateDevices evaluates the given devices and reports whether all evaluations were complete.
// The method also returns the errors from the incomplete evaluations.
func (w *watchdog) evaluateDevices(ctx context.Context, term *lease.Term, all []deviceSample, now time.Time) (bool, error) {
	var problems []error
	complete, records := true, 0
	for i := range all {
		d, err := w.evaluateDevice(ctx, term, &all[i], now)
		w.count(ctx, d.Reason)
		if d.Reason == decide.Ineffective {
			w.writeEvent(ctx, &d, nil, now)
		}
		if w.shouldLog(&d) {
			if records++; records <= maxRecords {
				w.log(&d, all[i].reason, err)
			}
		}
		if !d.Reason.Complete() {
			complete = false
			problems = append(problems, err)
		}
		w.reasons[d.Device] = d.Reason
	}
	if records > maxRecords {
		w.logger.Warn("Too many decisions to log. Further ones are not logged.", zap.Int("not_logged", records-maxRecords))
	}
	return complete, errors.Join(problems...)
}

// evaluateDevice evaluates a device and carries out the decision. If the evaluation or the action
// fails, evaluateDevice returns an error.
func (w *watchdog) evaluateDevice(ctx context.Context, term *lease.Term, o *deviceSample, now time.Time) (decide.Decision, error) {
	before := decide.State{Breach: w.memory.breaches[o.deviceState], Actions: w.memory.actions}
	in := decide.Input{Device: o.deviceState, Sample: o.sample, Pods: map[string]decide.Pod{}}
	for {
		before.Recorded = w.recorded
		after, d := decide.Evaluate(before, in, w.policy, now)
		switch {
		case d.Reason == decide.PodUnknown && ctx.Err() == nil:
			v := d.Victim
			pod, err := w.cluster.Pod(ctx, v.Namespace, v.Pod)
			if err == nil {
				in.Pods[v.UID] = pod
				continue
			}
			if apierrors.IsForbidden(err) && w.checkNamespace(ctx, v.Namespace, now) {
				continue
			}
			w.updateState(o.deviceState, after)
			return d, fmt.Errorf("pod %s/%s: %w", v.Namespace, v.Pod, err)
		case d.Reason == decide.NoPermission && w.checkNamespace(ctx, d.Victim.Namespace, now):
			continue
		// Since the record was last read, other watchdogs may have withdrawn an action or recorded
		// the end of a shortage.
		case w.record != nil && d.Reason.Recorded() && !w.recordRead.Equal(now):
			if w.readRecord(ctx, now) == nil {
				continue
			}
		case d.Action != nil:
			after, decided, err := w.writeRecord(ctx, before, in, now)
			if err == nil && decided.Action == nil { // another watchdog recorded an action first
				continue
			}
			return w.act(ctx, term, after, decided, err, now)
		}
		w.updateState(o.deviceState, after)
		if d.Reason == decide.NoPermission {
			return d, w.denied.err()
		}
		return d, nil
	}
}

func (w *watchdog) updateState(device decide.Device, s decide.State) {
	w.memory.breaches[device], w.memory.actions = s.Breach, s.Actions
}

// The act method carries out the decision, unless the action could not be written to the record.
// Before the pod is evicted, the action is also stored in the storage extension. If the process
// crashes before the eviction, there is an unnecessary cool-down, but there is never an eviction
// without a cool-down.
func (w *watchdog) act(
	ctx context.Context, term *lease.Term, s decide.State, d decide.Decision, recordErr error, now time.Time,
) (decide.Decision, error) {
	action := *d.Action
	w.updateState(d.Device, s)
	reason, done, err := decide.StateUnsaved, false, recordErr
	if err == nil {
		err = w.save(ctx)
	}
	switch {
	case err != nil:
	case !term.IsLeading():
		reason = decide.NotLeader
	case w.cfg.DryRun:
		reason, done = decide.WouldEvict, true
	default:
		reason, done, err = w.cluster.Act(ctx, &action)
	}
	d.Reason = reason
	w.updateState(d.Device, decide.Settle(s, action, done))
	w.writeEvent(ctx, &d, err, now)
	if err != nil {
		err = fmt.Errorf("pod %s/%s: %w", d.Victim.Namespace, d.Victim.Pod, err)
	}
	if reason == decide.Forbidden {
		w.checkNamespace(ctx, d.Victim.Namespace, now)
	}
	if !done && recordErr == nil {
		// If the action cannot be removed from the record, the action only delays other watchdogs.
		if recordErr := w.changeRecord(ctx, now, func(all []decide.Action) []decide.Action { return decide.Without(all, action) }); recordErr != nil {
			w.logger.Warn("The shared record still contains an action that was not carried out.", zap.Error(recordErr))
		}
	}
	return d, err
}

// The forget method deletes the state of devices that are no longer in telemetry.
func (w *watchdog) forget(all []deviceSample) {
	present := map[decide.Device]bool{}
	for i := range all {
		present[all[i].deviceState] = true
	}
	gone := func(device decide.Device) bool { return !present[device] }
	maps.DeleteFunc(w.reasons, func(device decide.Device, _ decide.Reason) bool { return gone(device) })
	// After a restart, some devices may not have sent data yet, so keep their breaches for some
	// time.
	longest := w.cfg.Interval + w.cfg.MaxDataAge
	maps.DeleteFunc(w.memory.breaches, func(device decide.Device, b decide.Breach) bool {
		return gone(device) && w.lastTick.Sub(b.LastAt) > longest
	})
}
