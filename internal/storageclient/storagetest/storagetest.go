// Package storagetest lets tests of components see and write what components store.
package storagetest

import (
	"context"

	"go.opentelemetry.io/collector/extension/xextension/storage"

	"github.com/otelcol-gpu/otelcol-gpu/internal/storageclient"
)

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
