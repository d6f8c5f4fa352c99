package pipelinelint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.yaml.in/yaml/v3"
)

// Read returns the configuration that the Collector would use if it were started with the given
// files. Later files are merged over earlier files. References to environment variables, such as
// ${env:NAME:-default}, are expanded with the current environment. If a variable is not set and has
// no default, its references expand to an empty string.
func Read(ctx context.Context, files ...string) (map[string]any, error) {
	uris := make([]string, len(files))
	for i, file := range files {
		if err := readable(file); err != nil {
			return nil, err
		}
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

// The readable function returns an error if a file does not contain a YAML map. This check is
// needed because the Collector's own error does not contain the file's name.
func readable(file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // gpudoctor opens the files that users specify
	if err != nil {
		return err
	}
	var content any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if _, ok := content.(section); !ok && content != nil {
		return fmt.Errorf("%s: the content is %s: must be a map, the configuration of a collector", file, described(content))
	}
	return nil
}

// The shape function returns an error for each part of a configuration that does not have the type
// that the Collector expects.
func shape(conf section) error {
	var errs []error
	isMap := func(field string, value any) section {
		m, ok := value.(section)
		if !ok && value != nil {
			errs = append(errs, fmt.Errorf("%s is %s: must be a map", field, described(value)))
		}
		return m
	}
	for _, of := range []string{"receivers", "processors", "exporters", "connectors"} {
		components := isMap(of, conf[of])
		for _, id := range slices.Sorted(maps.Keys(components)) {
			isMap(of+"::"+id, components[id])
		}
	}
	pipelines := isMap("service::pipelines", isMap("service", conf["service"])["pipelines"])
	for _, name := range slices.Sorted(maps.Keys(pipelines)) {
		p := isMap("service::pipelines::"+name, pipelines[name])
		for _, of := range kinds {
			field := "service::pipelines::" + name + "::" + of
			ids, ok := p[of].([]any)
			if !ok && p[of] != nil {
				errs = append(errs, fmt.Errorf("%s is %s: must be a list of names, as in [dcgm]", field, described(p[of])))
			}
			for i, id := range ids {
				if _, ok := id.(string); !ok {
					errs = append(errs, fmt.Errorf("%s[%d] is %s: must be a name", field, i, described(id)))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// The described function formats a value for an error message. For a map, a list, or a string that
// may contain a password, the result is a description instead of the value.
func described(value any) string {
	switch value := value.(type) {
	case section:
		return "a map"
	case []any:
		return "a list"
	case string:
		if strings.Contains(value, "@") {
			return "a text"
		}
	}
	return fmt.Sprint(value)
}
