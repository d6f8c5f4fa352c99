// Package storagetest lets tests of components see and write what components store.
package storagetest

import (
	"context"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/otelcol-gpu/otelcol-gpu/internal/storageclient"
)

// ID is how a configuration names a [Memory].
var ID = component.MustNewID("memory_storage")

// Memory is a storage extension that keeps values in memory, and a host that has it as
// [ID]. Tests see and write values as the component does. Its methods are safe for
// concurrent use.
type Memory struct {
	component.StartFunc
	component.ShutdownFunc

	mu     sync.Mutex
	values map[string]string
	err    error
	writes int
	closed bool
}

// NewMemory returns a storage that holds these values.
func NewMemory(values map[string]string) *Memory {
	m := &Memory{values: map[string]string{}}
	maps.Copy(m.values, values)
	return m
}

// Values returns a copy of what the storage holds.
func (m *Memory) Values() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.values)
}

// Put stores a value, as if it had been there before.
func (m *Memory) Put(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
}

// Fail lets every operation fail from now on, or with nil none any more.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// Writes returns how many times something was to be changed, also when that failed.
func (m *Memory) Writes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.writes
}

// Closed says whether a client was closed.
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
	return Plain(m.Client()), nil
}

// Client returns a client for what a component calls the storage by itself.
func (m *Memory) Client() storage.Client { return client{m} }

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
			if value, ok := c.m.values[op.Key]; ok {
				op.Value = []byte(value)
			}
		case storage.Set:
			c.m.values[op.Key] = string(op.Value)
		case storage.Delete:
			delete(c.m.values, op.Key)
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

// Plain is for the GetClient of a storage extension in a test: c sees values as the
// component does, without the checksums of [storageclient.Open].
func Plain(c storage.Client) storage.Client { return plain{c} }

type plain struct{ storage.Client }

func (p plain) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := p.Client.Get(ctx, key)
	if err != nil || value == nil {
		return nil, err
	}
	return storageclient.Seal(key, value), nil
}

func (p plain) Set(ctx context.Context, key string, sealed []byte) error {
	value, err := storageclient.Unseal(key, sealed)
	if err != nil {
		return err
	}
	return p.Client.Set(ctx, key, value)
}

func (p plain) Batch(ctx context.Context, ops ...*storage.Operation) error {
	inner := make([]*storage.Operation, len(ops))
	for i, op := range ops {
		value, err := storageclient.Unseal(op.Key, op.Value)
		if err != nil {
			return err
		}
		inner[i] = &storage.Operation{Type: op.Type, Key: op.Key, Value: value}
	}
	if err := p.Client.Batch(ctx, inner...); err != nil {
		return err
	}
	for i, op := range ops {
		if op.Type == storage.Get && inner[i].Value != nil {
			op.Value = storageclient.Seal(op.Key, inner[i].Value)
		}
	}
	return nil
}
