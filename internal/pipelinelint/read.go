package pipelinelint

import (
	"context"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
)

// Read returns the configuration that the collector would read from the files. Later files are
// merged into earlier ones. ${env:NAME:-default} is expanded with the current environment; unset
// variables are empty.
func Read(ctx context.Context, files ...string) (map[string]any, error) {
	uris := make([]string, len(files))
	for i, file := range files {
		uris[i] = "file:" + file
	}
	resolver, err := confmap.NewResolver(confmap.ResolverSettings{
		URIs: uris,
		ProviderFactories: []confmap.ProviderFactory{
			envprovider.NewFactory(), fileprovider.NewFactory(), yamlprovider.NewFactory(),
		},
		DefaultScheme: "env",
	})
	if err != nil {
		return nil, err
	}
	conf, err := resolver.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	return conf.ToStringMap(), resolver.Shutdown(ctx)
}
