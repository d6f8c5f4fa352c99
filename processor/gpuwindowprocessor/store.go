package gpuwindowprocessor

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuwindowprocessor/internal/window"
)

const (
	stateVersion = 1
	// closedKey is the storage key of the storedClosed value. Each node is stored under a separate
	// key.
	closedKey = "closed"
	// nodesPerWrite is the maximum number of nodes in one write. The maximum limits the memory that
	// encoded nodes use when all nodes are stored.
	nodesPerWrite = 32
)

// storedClosed contains the time up to which windows were sent, in nanoseconds since the epoch. It
// is stored before the windows are sent.
type storedClosed struct {
	Version int   `json:"version"`
	UpTo    int64 `json:"up_to"`
}

// stateStore stores the engine's state in a storage extension, with one value for each node. A
// stateStore may be used by only one goroutine at a time.
type stateStore struct {
	state     *componenthelper.State
	telemetry *metadata.TelemetryBuilder
	// interval is the maximum time between two writes of the same node. The step field is the time
	// between two calls to the save method.
	interval, step time.Duration
	seed           maphash.Seed
	nodes          map[string]storedNode
	size           int // total size of the stored nodes
}

// storedNode describes the stored value of a node.
type storedNode struct {
	writeInterval int64 // number of the write interval in which the node was last written; see stateStore.writeInterval
	size          int
}

// openStore opens the state store in the configured storage extension. The id parameter is the ID
// of the processor.
func openStore(
	ctx context.Context, host component.Host, cfg *Config, id component.ID, logger *zap.Logger, telemetry *metadata.TelemetryBuilder,
) (*stateStore, error) {
	state, err := componenthelper.OpenState(ctx, host, cfg.Storage, component.KindProcessor, id, componenthelper.StateOptions{
		Version:  stateVersion,
		Unusable: "The stored state cannot be used. Windows start again.",
		Failure: componenthelper.Failure{
			Logger: logger, Level: zap.ErrorLevel,
			Fails: "The storage fails. Windows are sent all the same, but a restart may lose or repeat some.",
			Works: "The storage works again.",
		},
		Count: func(ctx context.Context, operation string) {
			telemetry.ProcessorGpuWindowStorageErrors.Add(ctx, 1, metric.WithAttributes(attribute.String("operation", operation)))
		},
	})
	if err != nil {
		return nil, err
	}
	interval := min(maxSaveInterval, cfg.Window/2)
	return &stateStore{
		state: state, telemetry: telemetry, interval: interval, step: interval / 30,
		seed: maphash.MakeSeed(), nodes: map[string]storedNode{},
	}, nil
}

// The restore method returns an engine that continues from the stored state. If some of the state
// cannot be used, it is dropped, logged once, and counted.
func (s *stateStore) restore(ctx context.Context, set window.Settings, now time.Time) *window.Engine {
	s.state.Unusable(ctx, "restore", s.dropChunks(ctx))
	var closed storedClosed
	if _, err := s.state.Load(ctx, closedKey, &closed); err != nil {
		// If it is unknown which windows were sent, windows from the stored nodes could be sent
		// again.
		s.state.Unusable(ctx, "read", err)
		s.readNodes(ctx)
		return window.New(set, now)
	}
	engine, err := window.Restore(set, now, time.Unix(0, closed.UpTo), s.readNodes(ctx)...)
	s.state.Unusable(ctx, "restore", err)
	return engine
}

// readNodes reads the stored nodes. The next save writes or deletes every stored node. Otherwise, a
// value from a clean shutdown, which states that no samples were lost, would still be stored after
// a crash.
func (s *stateStore) readNodes(ctx context.Context) (states [][]byte) {
	componenthelper.Restore(ctx, s.state, func(node string, stored *[]byte) error {
		states = append(states, *stored)
		s.nodes[node] = storedNode{size: len(*stored)}
		s.size += len(*stored)
		return nil
	})
	return states
}

// dropChunks deletes state from versions before v0.1.0, which stored all nodes together in chunks.
// If such state exists, dropChunks returns an error.
func (s *stateStore) dropChunks(ctx context.Context) error {
	const head = "head" // one byte, followed by the slot (8 bytes) and the number of chunks (8 bytes)
	var b []byte
	if found, err := s.state.Load(ctx, head, &b); err != nil || !found || len(b) < 17 {
		return err
	}
	keys := []string{head, closedKey}
	slot, chunks := binary.LittleEndian.Uint64(b[1:]), binary.LittleEndian.Uint64(b[9:])
	for n := range min(chunks, 1<<12) {
		keys = append(keys, fmt.Sprintf("chunk/%d/%d", slot, n))
	}
	s.state.Done(ctx, "write", s.state.Write(ctx, nil, keys...))
	return fmt.Errorf("%s: %w", head, componenthelper.ErrVersion)
}

// markClosed records in storage that all windows that end at or before upTo were sent. The emit
// method calls markClosed before it sends the windows.
func (s *stateStore) markClosed(ctx context.Context, upTo time.Time) {
	s.state.Done(ctx, "mark_closed", s.state.Write(ctx, map[string]any{closedKey: storedClosed{stateVersion, upTo.UnixNano()}}))
}

// writeInterval returns the number of the current write interval of a node. The intervals of
// different nodes begin at different times, so that each save writes only some of the nodes.
func (s *stateStore) writeInterval(node string, now time.Time) int64 {
	length := int64(s.interval - s.step)
	return (now.UnixNano() + int64(maphash.String(s.seed, node)%uint64(length))) / length
}

// The save method stores the nodes whose write interval has changed since their last write, and
// deletes the stored values of nodes that no longer exist. A new node is first stored when its
// write interval changes. If the all parameter is true, save stores all nodes.
func (s *stateStore) save(ctx context.Context, e *window.Engine, now time.Time, all bool) {
	var due []string
	current := e.Nodes()
	for _, node := range current {
		interval := s.writeInterval(node, now)
		stored, exists := s.nodes[node]
		if all || exists && stored.writeInterval != interval {
			due = append(due, node)
		}
		s.nodes[node] = storedNode{interval, stored.size}
	}
	for node := range s.nodes {
		if _, exists := slices.BinarySearch(current, node); !exists {
			due = append(due, node) // the value of this node will be deleted
		}
	}
	for nodes := range slices.Chunk(due, nodesPerWrite) {
		s.write(ctx, e, nodes)
	}
}

func (s *stateStore) write(ctx context.Context, e *window.Engine, nodes []string) {
	begin := time.Now()
	err := s.state.Save(ctx, func(node string) any {
		value := e.Store(node)
		s.size += len(value) - s.nodes[node].size
		if value == nil {
			delete(s.nodes, node)
			return nil
		}
		s.nodes[node] = storedNode{s.nodes[node].writeInterval, len(value)}
		return value
	}, nodes...)
	s.telemetry.ProcessorGpuWindowSnapshotDuration.Record(ctx, time.Since(begin).Seconds())
	if err == nil {
		s.telemetry.ProcessorGpuWindowSnapshotSize.Record(ctx, int64(s.size))
	}
}

func (s *stateStore) close(ctx context.Context) error { return s.state.Close(ctx) }
