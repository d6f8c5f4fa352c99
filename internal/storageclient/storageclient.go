// Package storageclient finds the storage extension that a component's
// configuration names.
package storageclient

import (
	"context"
	"fmt"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// Open returns a client of the storage extension ext for the component id of that
// kind. The error names the extension and what is wrong with it.
func Open(ctx context.Context, host component.Host, ext component.ID, kind component.Kind, id component.ID) (storage.Client, error) {
	found, ok := host.GetExtensions()[ext]
	if !ok {
		return nil, fmt.Errorf("storage must be an extension of the service, got %q", ext)
	}
	s, ok := found.(storage.Extension)
	if !ok {
		return nil, fmt.Errorf("storage must be a storage extension, got %q", ext)
	}
	client, err := s.GetClient(ctx, kind, id, "")
	if err != nil {
		return nil, fmt.Errorf("storage %q: %w", ext, err)
	}
	return client, nil
}
