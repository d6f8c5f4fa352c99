// Package notruntest records which tests did not run. Without this record, nobody would notice a
// skipped test, because go test hides the output of packages that pass. After all tests, make
// prints the recorded list.
package notruntest

import (
	"fmt"
	"os"
	"testing"
)

// listEnv is the name of the environment variable for the path of the file that make prints after
// the tests.
const listEnv = "OTELCOL_GPU_NOT_RUN"

// Skip records the reason and skips the test.
func Skip(t testing.TB, reason string) {
	t.Helper()
	Report(t, reason)
	t.Skip("NOT TESTED: " + reason)
}

// Report records which part of a test does not run, and why.
func Report(t testing.TB, reason string) {
	t.Helper()
	t.Log("NOT TESTED: " + reason)
	path := os.Getenv(listEnv)
	if path == "" {
		return
	}
	list, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // make sets the file's path
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if _, err := fmt.Fprintln(list, reason); err != nil {
		t.Fatal(err)
	}
}
