// Package storageclient finds the storage extension that a component's
// configuration names, and keeps a checksum with what the component stores there: a
// storage that returns something else than was stored must not make a number.
package storageclient

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// ErrDamaged says that a stored value is not what was stored under its key.
var ErrDamaged = errors.New("the stored value is damaged")

// Open returns a client of the storage extension ext for the component id of that
// kind. The error names the extension and what is wrong with it; a component that has
// a client gets a second one only when it has closed the first.
//
// Values have a CRC-32 of key and value behind them in the storage. Where one does not
// fit, Get and Batch fail with [ErrDamaged]; a Batch has done the other operations.
func Open(ctx context.Context, host component.Host, ext component.ID, kind component.Kind, id component.ID) (storage.Client, error) {
	found, ok := host.GetExtensions()[ext]
	if !ok {
		return nil, fmt.Errorf("storage is %q: must be an extension of the service", ext)
	}
	s, ok := found.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage is %q: must be a storage extension", ext)
	}
	release, free := take(user{s, kind, id})
	if !free {
		return nil, fmt.Errorf("storage %q: %s is in more than one pipeline: must be in one while it has a storage, so define one for each pipeline, as %[2]s/2", ext, id)
	}
	client, err := s.GetClient(ctx, kind, id, "")
	if err != nil {
		release()
		return nil, fmt.Errorf("storage %q: %w", ext, err)
	}
	return sealed{client, release}, nil
}

// users are the components that have a client. A component is made once for each of
// its pipelines, under one name, and what one stores the other would overwrite.
var users sync.Map

type user struct {
	storage storage.Extension
	kind    component.Kind
	id      component.ID
}

// take enters a user, unless it is entered already, until release is called.
func take(u user) (release func(), free bool) {
	if !reflect.ValueOf(u.storage).Comparable() { // it cannot be told from another one
		return func() {}, true
	}
	mine := new(byte) // so that what releases twice leaves the next one in
	_, taken := users.LoadOrStore(u, mine)
	return func() { users.CompareAndDelete(u, mine) }, !taken
}

// Load decodes the JSON that client holds under key into value, and reports whether it
// holds any. What is no such JSON fails with [ErrDamaged].
func Load(ctx context.Context, client storage.Client, key string, value any) (found bool, err error) {
	text, err := client.Get(ctx, key)
	if err != nil || text == nil {
		return false, err
	}
	if err := json.Unmarshal(text, value); err != nil {
		return false, fmt.Errorf("%s: %w: %w", key, ErrDamaged, err)
	}
	return true, nil
}

// sealed is a client whose values have checksums.
type sealed struct {
	storage.Client
	release func()
}

func (c sealed) Close(ctx context.Context) error {
	defer c.release()
	return c.Client.Close(ctx)
}

func (c sealed) Get(ctx context.Context, key string) ([]byte, error) {
	value, err := c.Client.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return Unseal(key, value)
}

func (c sealed) Set(ctx context.Context, key string, value []byte) error {
	return c.Client.Set(ctx, key, Seal(key, value))
}

func (c sealed) Batch(ctx context.Context, ops ...*storage.Operation) error {
	inner := make([]*storage.Operation, len(ops)) // the caller's values stay as they are
	for i, op := range ops {
		inner[i] = &storage.Operation{Type: op.Type, Key: op.Key}
		if op.Type == storage.Set {
			inner[i].Value = Seal(op.Key, op.Value)
		}
	}
	if err := c.Client.Batch(ctx, inner...); err != nil {
		return err
	}
	var errs []error
	for i, op := range ops {
		if op.Type == storage.Get {
			var err error
			op.Value, err = Unseal(op.Key, inner[i].Value)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is of the key as well, so that a value that turns up under another one does
// not pass.
func checksum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

// Seal returns what the storage holds for a value: the value and its checksum.
func Seal(key string, value []byte) []byte {
	sealed := append(make([]byte, 0, len(value)+crc32.Size), value...)
	return binary.LittleEndian.AppendUint32(sealed, checksum(key, value))
}

// Unseal returns the value of what the storage holds, and nil for nil, which is not
// stored. It fails with [ErrDamaged] when the checksum does not fit.
func Unseal(key string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	size := len(sealed) - crc32.Size
	if size < 0 || checksum(key, sealed[:size]) != binary.LittleEndian.Uint32(sealed[size:]) {
		return nil, fmt.Errorf("%s: %w", key, ErrDamaged)
	}
	return sealed[:size], nil
}
