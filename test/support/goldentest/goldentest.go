// Package goldentest compares a component's output with golden files next to its input. The flag
// -update rewrites the outputs.
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

// Dirs returns the directories in testdata/golden. Their names are sentences.
func Dirs(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("testdata", "golden", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, dirs)
	return dirs
}

// Compare compares got with the directory's output.txt.
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
