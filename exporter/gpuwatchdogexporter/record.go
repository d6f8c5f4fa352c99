package gpuwatchdogexporter

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/cluster"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuwatchdogexporter/internal/decide"
)

// readRecord reads the recorded actions of all watchdogs. If the shared record is disabled,
// readRecord does nothing.
func (w *watchdog) readRecord(ctx context.Context, now time.Time) error {
	if w.record == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cluster.CallTimeout)
	defer cancel()
	w.recordRead = now
	text, err := w.record.Get(ctx)
	if err == nil {
		w.recorded = w.decode(text)
	}
	return err
}

// The decode method parses the text of the record.
func (w *watchdog) decode(text string) []decide.Action {
	if text == "" {
		return nil
	}
	var actions []decide.Action
	if err := json.Unmarshal([]byte(text), &actions); err != nil {
		w.logger.Warn("The shared record of actions cannot be parsed. The actions of other watchdogs are ignored.", zap.Error(err))
		return nil
	}
	return actions
}

// writeRecord reads the newest record, makes the decision again, and writes the resulting action to
// the record. Therefore, if several watchdogs decide at the same time, each watchdog considers the
// actions that the others have already written. If there is no action, writeRecord writes nothing.
func (w *watchdog) writeRecord(
	ctx context.Context, before decide.State, in decide.Input, now time.Time,
) (after decide.State, d decide.Decision, err error) {
	evaluate := func() { after, d = decide.Evaluate(before, in, w.policy, now) }
	if w.record == nil {
		evaluate()
		return after, d, nil
	}
	err = w.change(ctx, now, func(all []decide.Action) ([]decide.Action, bool) {
		before.Recorded = all
		evaluate()
		return decide.Merge(all, after.Actions), d.Action != nil
	})
	if err != nil {
		before.Recorded = w.recorded
		evaluate()
	}
	return after, d, err
}

// changeRecord updates the shared record of actions, if the shared record is enabled.
func (w *watchdog) changeRecord(ctx context.Context, now time.Time, change func([]decide.Action) []decide.Action) error {
	if w.record == nil {
		return nil
	}
	return w.change(ctx, now, func(all []decide.Action) ([]decide.Action, bool) { return change(all), true })
}

func (w *watchdog) change(ctx context.Context, now time.Time, change func([]decide.Action) ([]decide.Action, bool)) error {
	ctx, cancel := context.WithTimeout(ctx, cluster.CallTimeout)
	defer cancel()
	var all []decide.Action
	err := w.record.Update(ctx, func(text string) (string, bool) {
		all = w.decode(text)
		changed, ok := change(all)
		if !ok {
			return "", false
		}
		all = decide.Prune(changed, w.policy, now)
		encoded, err := json.Marshal(all)
		return string(encoded), err == nil
	})
	if w.recordRead = now; err == nil {
		w.recorded = all
	}
	return err
}

// recordEnded marks the watchdog's own actions in the shared record if the actions have ended a
// shortage. After the end of a shortage has been recorded, pods with the same owner may be evicted
// again on any node. If the record cannot be written, the next evaluation tries again.
func (w *watchdog) recordEnded(ctx context.Context, now time.Time) {
	actions := w.memory.actions
	if w.record == nil || !decide.Unrecorded(actions, w.recorded) {
		return
	}
	if err := w.changeRecord(ctx, now, func(all []decide.Action) []decide.Action { return decide.Merge(all, actions) }); err != nil {
		w.logger.Warn("Could not record that a shortage has ended.", zap.Error(err))
	}
}
