package filestorageextension

import (
	"context"
	"fmt"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// NewFactory returns the factory of the file_storage extension, which has the same settings as
// contrib's file_storage.
func NewFactory() extension.Factory {
	contrib := filestorage.NewFactory()
	return extension.NewFactory(contrib.Type(), contrib.CreateDefaultConfig,
		func(ctx context.Context, set extension.Settings, cfg component.Config) (extension.Extension, error) {
			made, err := contrib.Create(ctx, set, cfg)
			if err != nil {
				return nil, err
			}
			files, ok := made.(storage.Extension)
			config, known := cfg.(*filestorage.Config)
			if !ok || !known {
				return nil, fmt.Errorf("%s: unexpected %T with the settings %T", set.ID, made, cfg)
			}
			return &checkedStorage{Extension: files, config: config, logger: set.Logger}, nil
		}, contrib.Stability())
}
