// Package enumtest compares the values of the attributes of self-metrics with the values that the
// metadata.yaml of the component documents.
package enumtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Documented returns the values of an attribute from the metadata.yaml of the tested component. The
// test's package is the component's package or one of its internal packages.
func Documented(t testing.TB, attribute string) []string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	content, err := fs.ReadFile(os.DirFS(dir), "metadata.yaml")
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		content, err = fs.ReadFile(os.DirFS(dir), "metadata.yaml")
	}
	require.NoError(t, err)
	var component struct {
		Attributes map[string]struct{ Enum []string }
	}
	require.NoError(t, yaml.Unmarshal(content, &component))
	require.NotEmpty(t, component.Attributes[attribute].Enum, attribute)
	return component.Attributes[attribute].Enum
}

// Names returns the names of the values from first to the value before end.
func Names[V interface {
	~int | ~uint8
	fmt.Stringer
}](first, end V) (names []string) {
	for v := first; v < end; v++ {
		names = append(names, v.String())
	}
	return names
}
