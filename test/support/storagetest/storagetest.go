// Package storagetest lets tests read and write the stored state of components.
package storagetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
)

// ID is the component ID of a [Memory] in a configuration.
var ID = component.MustNewID("memory_storage")

// Memory is a storage extension that stores values in memory. Memory is also a Collector host that
// provides the extension under [ID]. Tests can read and write values the way a component does, or
// in raw form with checksums. The methods of Memory are safe for concurrent use.
type Memory struct {
	component.StartFunc
	component.ShutdownFunc

	mu     sync.Mutex
	raw    map[string]string
	err    error
	writes int
	closed bool
}

// NewMemory returns a storage extension that contains the given values.
func NewMemory(values map[string]string) *Memory {
	m := &Memory{raw: map[string]string{}}
	for key, value := range values {
		m.Put(key, value)
	}
	return m
}

// Values returns all stored values that are not damaged.
func (m *Memory) Values() map[string]string {
	values := map[string]string{}
	for key, raw := range m.Raw() {
		if value, err := componenthelper.Unseal(key, []byte(raw)); err == nil {
			values[key] = string(value)
		}
	}
	return values
}

// Put stores a value as if a component had stored it in a previous run.
func (m *Memory) Put(key, value string) {
	m.PutRaw(key, string(componenthelper.Seal(key, []byte(value))))
}

// Raw returns a copy of all stored values in raw form, with checksums.
func (m *Memory) Raw() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.raw)
}

// PutRaw stores a value in raw form. The value must include the checksum unless it is intentionally
// damaged.
func (m *Memory) PutRaw(key, raw string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.raw[key] = raw
}

// Fail makes every operation return err. If err is nil, operations succeed again.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Writes returns the number of write operations, including failed ones.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Closed reports whether a storage client has been closed.
func (m *Memory) Closed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

// GetExtensions implements component.Host.
func (m *Memory) GetExtensions() map[component.ID]component.Component {
	return map[component.ID]component.Component{ID: m}
}

// GetClient implements storage.Extension.
func (m *Memory) GetClient(context.Context, component.Kind, component.ID, string) (storage.Client, error) {
	return client{m}, nil
}

type client struct{ m *Memory }

func (c client) Get(ctx context.Context, key string) ([]byte, error) {
	op := storage.GetOperation(key)
	err := c.Batch(ctx, op)
	return op.Value, err
}

func (c client) Set(ctx context.Context, key string, value []byte) error {
	return c.Batch(ctx, storage.SetOperation(key, value))
}

func (c client) Delete(ctx context.Context, key string) error {
	return c.Batch(ctx, storage.DeleteOperation(key))
}

func (c client) Batch(_ context.Context, ops ...*storage.Operation) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if slices.ContainsFunc(ops, func(op *storage.Operation) bool { return op.Type != storage.Get }) {
		c.m.writes++
	}
	if c.m.err != nil {
		return c.m.err
	}
	for _, op := range ops {
		switch op.Type {
		case storage.Get:
			if value, ok := c.m.raw[op.Key]; ok {
				op.Value = []byte(value)
			}
		case storage.Set:
			c.m.raw[op.Key] = string(op.Value)
		case storage.Delete:
			delete(c.m.raw, op.Key)
		}
	}
	return nil
}

func (c client) Close(context.Context) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.closed = true
	return nil
}
