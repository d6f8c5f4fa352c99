package gpuwindowprocessor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/storageclient"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

// What the storage holds.
//
//	closed        the time up to which windows have left
//	head          which chunks make the newest snapshot
//	chunk/<s>/<n> chunk n of the snapshot in slot s, which ends with a CRC-32 of it
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
	client    storage.Client
	logger    *zap.Logger
	telemetry *metadata.TelemetryBuilder
	// slot and chunks are those of the snapshot that is stored.
	slot, chunks uint64
	failed       transition
}

// openStore returns the store in the storage extension of that id.
func openStore(
	ctx context.Context, host component.Host, ext, id component.ID, logger *zap.Logger, telemetry *metadata.TelemetryBuilder,
) (*store, error) {
	client, err := storageclient.Open(ctx, host, ext, component.KindProcessor, id)
	if err != nil {
		return nil, err
	}
	return &store{client: client, logger: logger, telemetry: telemetry}, nil
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
	if err != nil {
		s.countError(ctx, operation)
		s.logger.Warn("The stored state cannot be used. Windows start anew.", zap.Error(err))
	}
	return engine
}

var errRecord = errors.New("stored record is damaged or of another version")

// load reads what is stored. Whatever could be read is returned, also with an
// error.
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
		return leftUpTo, nil, errRecord
	}
	s.slot, s.chunks = head[0], head[1]
	for n := range s.chunks {
		chunk, err := s.client.Get(ctx, chunkKey(s.slot, n))
		if err != nil {
			return leftUpTo, nil, err
		}
		snapshot = append(snapshot, chunk...)
	}
	size := len(snapshot) - 4
	if size < 0 || crc32.ChecksumIEEE(snapshot[:size]) != binary.LittleEndian.Uint32(snapshot[size:]) {
		return leftUpTo, nil, errRecord
	}
	return leftUpTo, snapshot[:size], nil
}

// A record is a version byte, numbers of 8 bytes and a CRC-32 of all before.
func encodeRecord(numbers ...uint64) []byte {
	b := []byte{recordVersion}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// record reads a record of n numbers; one that is not stored is nil.
func (s *store) record(ctx context.Context, key string, n int) ([]uint64, error) {
	b, err := s.client.Get(ctx, key)
	if err != nil || b == nil {
		return nil, err
	}
	size := 1 + 8*n
	if len(b) != size+4 || b[0] != recordVersion || crc32.ChecksumIEEE(b[:size]) != binary.LittleEndian.Uint32(b[size:]) {
		return nil, errRecord
	}
	numbers := make([]uint64, n)
	for i := range numbers {
		numbers[i] = binary.LittleEndian.Uint64(b[1+8*i:])
	}
	return numbers, nil
}

// markClosed stores that windows up to a time leave now.
func (s *store) markClosed(ctx context.Context, upTo time.Time) {
	s.done(ctx, "mark_closed", s.client.Set(ctx, closedKey, encodeRecord(uint64(upTo.UnixNano()))))
}

// snapshot stores the engine's state.
func (s *store) snapshot(ctx context.Context, e *window.Engine) {
	begin := time.Now()
	b := e.Snapshot()
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	err := s.write(ctx, b)
	s.telemetry.ProcessorGpuWindowSnapshotDuration.Record(ctx, time.Since(begin).Seconds())
	if err == nil {
		s.telemetry.ProcessorGpuWindowSnapshotSize.Record(ctx, int64(len(b)))
	}
	s.done(ctx, "snapshot", err)
}

func (s *store) write(ctx context.Context, b []byte) error {
	slot, n := 1-s.slot, uint64(0)
	for ; len(b) > chunkSize; n++ {
		if err := s.client.Set(ctx, chunkKey(slot, n), b[:chunkSize]); err != nil {
			return err
		}
		b = b[chunkSize:]
	}
	ops := []*storage.Operation{
		storage.SetOperation(chunkKey(slot, n), b),
		storage.SetOperation(headKey, encodeRecord(slot, n+1)),
	}
	for i := range s.chunks {
		ops = append(ops, storage.DeleteOperation(chunkKey(s.slot, i)))
	}
	if err := s.client.Batch(ctx, ops...); err != nil {
		return err
	}
	s.slot, s.chunks = slot, n+1
	return nil
}

// done counts a failed operation and speaks of the first one and of the first
// success after it.
func (s *store) done(ctx context.Context, operation string, err error) {
	if err != nil {
		s.countError(ctx, operation)
	}
	if s.failed.changed(err != nil) {
		if err != nil {
			s.logger.Error("The storage fails. Windows leave all the same, a restart may lose or repeat some.",
				zap.String("operation", operation), zap.Error(err))
		} else {
			s.logger.Info("The storage works again.")
		}
	}
}

func (s *store) countError(ctx context.Context, operation string) {
	s.telemetry.ProcessorGpuWindowStorageErrors.Add(ctx, 1, metric.WithAttributes(attribute.String("operation", operation)))
}

func (s *store) close(ctx context.Context) error { return s.client.Close(ctx) }
