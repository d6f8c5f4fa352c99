package expositiontest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

// Recordings returns the paths of recorded exporter responses. Responses of the simulator are part
// of the repository. Responses of real exporters from all vendors are included if the directory
// shared/captures exists next to the checkout.
func Recordings(t testing.TB) []string {
	t.Helper()
	root := moduleRoot(t)
	simulated := glob(t, filepath.Join(root, "internal", "dcgmsim", "testdata", "*.prom"))
	require.NotEmpty(t, simulated, "the recordings of the simulator")
	recorded := glob(t, filepath.Join(root, "..", "shared", "captures", "*.prom"))
	if len(recorded) == 0 {
		notruntest.Report(t, "recordings of real exporters: ../shared/captures, relative to the checkout, has none")
	}
	return append(simulated, recorded...)
}

// DCGMRecordings returns the paths of those [Recordings] that contain a dcgm-exporter metric.
func DCGMRecordings(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, path := range Recordings(t) {
		body, err := os.ReadFile(path) //nolint:gosec // the file is part of the repository
		require.NoError(t, err)
		if bytes.HasPrefix(body, []byte("DCGM_")) || bytes.Contains(body, []byte("\nDCGM_")) {
			paths = append(paths, path)
		}
	}
	return paths
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return paths
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "not inside a Go module")
		dir = parent
	}
}
