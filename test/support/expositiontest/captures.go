package expositiontest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

// Recordings returns the paths of recorded exporter outputs: those of the simulator, which live
// in the tree, and where shared/captures lies beside the checkout also those of real exporters
// of every vendor. The latter are not part of the project.
func Recordings(t testing.TB) []string {
	t.Helper()
	root := moduleRoot(t)
	simulated := glob(t, filepath.Join(root, "internal", "dcgmsim", "testdata", "*.prom"))
	if len(simulated) == 0 {
		t.Fatal("the recordings of the simulator are gone")
	}
	recorded := glob(t, filepath.Join(root, "..", "shared", "captures", "*.prom"))
	if len(recorded) == 0 {
		notruntest.Say(t, "recordings of real exporters: there are none in ../shared/captures beside the checkout")
	}
	return append(simulated, recorded...)
}

// DCGMRecordings returns the [Recordings] that have a row of dcgm-exporter.
func DCGMRecordings(t testing.TB) []string {
	t.Helper()
	var paths []string
	for _, path := range Recordings(t) {
		body, err := os.ReadFile(path) //nolint:gosec // a file of the tree
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(body, []byte("DCGM_")) || bytes.Contains(body, []byte("\nDCGM_")) {
			paths = append(paths, path)
		}
	}
	return paths
}

func glob(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("not inside a Go module")
		}
		dir = parent
	}
}
