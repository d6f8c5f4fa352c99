// Package goldentest compares a component's output with golden files that are stored next to the
// input files. The -update flag rewrites the golden files.
package goldentest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the expected outputs")

// Dirs returns the paths of the directories in testdata/golden, each of which is a test case.
func Dirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	return dirs
}

// Compare asserts that got equals the content of output.txt in the given directory.
func Compare(t *testing.T, dir, got string) {
	t.Helper()
	file := filepath.Join(dir, "output.txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}
