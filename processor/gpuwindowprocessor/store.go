package gpuwindowprocessor

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	base "github.com/otelcol-gpu/otelcol-gpu/internal/component"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// What the storage holds.
//
//	closed        the time up to which windows have left
//	head          which chunks make the newest snapshot
//	chunk/<s>/<n> chunk n of the snapshot in slot s
//
// There are two slots. A snapshot is written to the one that head does not speak
// of, so that one that was cut short spoils nothing.
const (
	closedKey = "closed"
	headKey   = "head"
)

const (
	recordVersion = 1
	// chunkSize bounds one stored value.
	chunkSize = 1 << 20
	// maxChunks bounds what a head may ask for: 4 GiB.
	maxChunks = 1 << 12
)

func chunkKey(slot, n uint64) string { return fmt.Sprintf("chunk/%d/%d", slot, n) }

// store keeps the engine's state in a storage extension. It is used by one
// goroutine at a time.
type store struct {
	state     *base.State
	telemetry *metadata.TelemetryBuilder
	// slot and chunks are those of the snapshot that is stored.
	slot, chunks uint64
}

// openStore returns the store in the storage extension of that id.
func openStore(
	ctx context.Context, host component.Host, ext, id component.ID, logger *zap.Logger, telemetry *metadata.TelemetryBuilder,
) (*store, error) {
	state, err := base.OpenState(ctx, host, &ext, component.KindProcessor, id, base.StateOptions{
		Unusable: "The stored state cannot be used. Windows start anew.",
		Failure: base.Failure{
			Logger: logger, Level: zap.ErrorLevel,
			Fails: "The storage fails. Windows leave all the same, a restart may lose or repeat some.",
			Works: "The storage works again.",
		},
		Count: func(ctx context.Context, operation string) {
			telemetry.ProcessorGpuWindowStorageErrors.Add(ctx, 1, metric.WithAttributes(attribute.String("operation", operation)))
		},
	})
	if err != nil {
		return nil, err
	}
	return &store{state: state, telemetry: telemetry}, nil
}

// restore returns an engine that goes on where the stored state ended. State
// that cannot be used is dropped, said once and counted.
func (s *store) restore(ctx context.Context, set window.Settings, now time.Time) *window.Engine {
	leftUpTo, snapshot, err := s.load(ctx)
	operation := "read"
	engine, restoreErr := window.Restore(set, now, leftUpTo, snapshot)
	if restoreErr != nil {
		err, operation = restoreErr, "restore"
	}
	s.state.Unusable(ctx, operation, err)
	return engine
}

// load reads what is stored. With an error there is no snapshot, but perhaps the
// time up to which windows have left.
func (s *store) load(ctx context.Context) (leftUpTo time.Time, snapshot []byte, err error) {
	leftUpTo = time.Unix(0, 0)
	closed, err := s.record(ctx, closedKey, 1)
	if err != nil {
		return leftUpTo, nil, err
	}
	if closed != nil {
		leftUpTo = time.Unix(0, int64(closed[0]))
	}
	head, err := s.record(ctx, headKey, 2)
	if err != nil || head == nil {
		return leftUpTo, nil, err
	}
	if head[0] > 1 || head[1] > maxChunks {
		return leftUpTo, nil, fmt.Errorf("%s: %w", headKey, base.ErrDamaged)
	}
	s.slot, s.chunks = head[0], head[1]
	for n := range s.chunks {
		var chunk []byte
		found, err := s.state.Load(ctx, chunkKey(s.slot, n), &chunk)
		if err == nil && !found {
			err = fmt.Errorf("%s: %w: it is missing", chunkKey(s.slot, n), base.ErrDamaged)
		}
		if err != nil {
			return leftUpTo, nil, err
		}
		snapshot = append(snapshot, chunk...)
	}
	return leftUpTo, snapshot, nil
}

// A record is a version byte and numbers of 8 bytes. Earlier ones have a checksum of their
// own behind the numbers, which nobody needs: the State checks what it loads.
func encodeRecord(numbers ...uint64) []byte {
	b := []byte{recordVersion}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// record reads a record of n numbers; one that is not stored is nil.
func (s *store) record(ctx context.Context, key string, n int) ([]uint64, error) {
	var b []byte
	found, err := s.state.Load(ctx, key, &b)
	if err != nil || !found {
		return nil, err
	}
	if len(b) < 1+8*n {
		return nil, fmt.Errorf("%s: %w", key, base.ErrDamaged)
	}
	if b[0] != recordVersion {
		return nil, fmt.Errorf("%s: %w: version %d", key, base.ErrVersion, b[0])
	}
	numbers := make([]uint64, n)
	for i := range numbers {
		numbers[i] = binary.LittleEndian.Uint64(b[1+8*i:])
	}
	return numbers, nil
}

// markClosed stores that windows up to a time leave now.
func (s *store) markClosed(ctx context.Context, upTo time.Time) {
	err := s.state.Write(ctx, map[string]any{closedKey: encodeRecord(uint64(upTo.UnixNano()))})
	s.state.Done(ctx, "mark_closed", err)
}

// snapshot stores the engine's state.
func (s *store) snapshot(ctx context.Context, e *window.Engine) {
	begin := time.Now()
	b := e.Snapshot()
	err := s.write(ctx, b)
	s.telemetry.ProcessorGpuWindowSnapshotDuration.Record(ctx, time.Since(begin).Seconds())
	if err == nil {
		s.telemetry.ProcessorGpuWindowSnapshotSize.Record(ctx, int64(len(b)))
	}
	s.state.Done(ctx, "snapshot", err)
}

func (s *store) write(ctx context.Context, b []byte) error {
	slot, n := 1-s.slot, uint64(0)
	for ; len(b) > chunkSize; n++ {
		if err := s.state.Write(ctx, map[string]any{chunkKey(slot, n): b[:chunkSize]}); err != nil {
			return err
		}
		b = b[chunkSize:]
	}
	var before []string
	for i := range s.chunks {
		before = append(before, chunkKey(s.slot, i))
	}
	if err := s.state.Write(ctx, map[string]any{chunkKey(slot, n): b, headKey: encodeRecord(slot, n+1)}, before...); err != nil {
		return err
	}
	s.slot, s.chunks = slot, n+1
	return nil
}

func (s *store) close(ctx context.Context) error { return s.state.Close(ctx) }
