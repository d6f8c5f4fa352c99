package expositiontest

import (
	"os"
	"path/filepath"
	"testing"
)

// Captures returns the paths of the recorded exporter outputs in the folder
// shared/captures beside the repository. Where there is none the test is
// skipped, and says so: the recordings are not part of the project.
func Captures(t testing.TB) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("not inside a Go module")
		}
		dir = parent
	}
	paths, err := filepath.Glob(filepath.Join(dir, "..", "shared", "captures", "*.prom"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skip("NOT TESTED: no recorded exporter outputs in ../shared/captures beside the repository")
	}
	return paths
}
