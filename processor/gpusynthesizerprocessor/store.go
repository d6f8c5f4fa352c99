package gpusynthesizerprocessor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
)

// stateOfAllKey is the storage key that earlier versions used for the XID state of all places,
// which was stored as a single value.
const stateOfAllKey = "xid"

// start restores the XID state if storage is configured.
func (p *gpuSynthesizer) start(ctx context.Context, host component.Host) error {
	var err error
	p.state, err = componenthelper.OpenState(ctx, host, p.cfg.Storage, component.KindProcessor, p.id, componenthelper.StateOptions{
		Version:  synth.StateVersion,
		Unusable: "Some of the stored XID state cannot be used. Counting starts again for these devices.",
		Failure:  componenthelper.Failure{Logger: p.logger, Fails: "XID state cannot be stored.", Works: "XID state can be stored again."},
		Count:    func(ctx context.Context, _ string) { p.telemetry.ProcessorGpuSynthesizerStorageErrors.Add(ctx, 1) },
	})
	if err != nil || p.state == nil {
		return err
	}
	now := time.Now().UnixNano()
	ofAll := p.restoreOfAll(ctx, now)
	componenthelper.Restore(ctx, p.state, func(_ string, stored *synth.State) error { return p.core.Restore(stored, now) })
	if ofAll && p.state.Save(ctx, p.stored) == nil { // the state of each place is now stored separately
		p.state.Done(ctx, "write", p.state.Write(ctx, nil, stateOfAllKey))
	}
	return nil
}

// If an earlier version stored the state of all places as a single value, restoreOfAll restores
// this value. The result reports whether such a value exists.
func (p *gpuSynthesizer) restoreOfAll(ctx context.Context, now int64) bool {
	var stored synth.State
	found, err := p.state.Load(ctx, stateOfAllKey, &stored)
	if found {
		if err = p.core.Restore(&stored, now); err != nil {
			err = fmt.Errorf("%s: %w: %w", stateOfAllKey, componenthelper.ErrDamaged, err)
		}
	}
	switch {
	case errors.Is(err, componenthelper.ErrDamaged), errors.Is(err, componenthelper.ErrVersion):
		p.state.Unusable(ctx, "read", err)
	case !found:
		return false // a storage failure is logged when the states of the places are read
	}
	for i := range stored.Devices {
		p.state.Changed(stateKey(stored.Devices[i].Place()))
	}
	return true
}

// stateKey returns the key under which the state of a place is stored.
func stateKey(p synth.Place) string { return p.Node + "/" + p.Host }

// The stored method returns the state that must be stored under a key, or nil if the key must be
// deleted. The node name and the host name in the key may both contain slashes, so every slash is
// tried as the separator.
func (p *gpuSynthesizer) stored(key string) any {
	for i, c := range key {
		if c != '/' {
			continue
		}
		if state := p.core.State(synth.Place{Node: key[:i], Host: key[i+1:]}); state != nil {
			return state
		}
	}
	return nil
}

// The save method stores the XID state of changed places. The state must be saved before the batch
// that caused the change is sent, so that no event is counted twice.
func (p *gpuSynthesizer) save(ctx context.Context, changed []synth.Place) {
	keys := make([]string, 0, len(changed))
	for _, at := range changed {
		keys = append(keys, stateKey(at))
	}
	_ = p.state.Save(ctx, p.stored, keys...) // the state logs failures
}
