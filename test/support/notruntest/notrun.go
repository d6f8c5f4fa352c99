// Package notruntest lists the tests that did not run. go test hides the output of a passing
// package, so a skipped test would go unnoticed. make prints the list at the end.
package notruntest

import (
	"fmt"
	"os"
	"testing"
)

// listEnv is the environment variable for the file that make prints after the tests.
const listEnv = "OTELCOL_GPU_NOT_RUN"

// Skip skips the test and reports the reason.
func Skip(t testing.TB, reason string) {
	t.Helper()
	Report(t, reason)
	t.Skip("NOT TESTED: " + reason)
}

// Report reports which part of a test does not run, and why.
func Report(t testing.TB, reason string) {
	t.Helper()
	t.Log("NOT TESTED: " + reason)
	path := os.Getenv(listEnv)
	if path == "" {
		return
	}
	list, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the file is set by make
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if _, err := fmt.Fprintln(list, reason); err != nil {
		t.Fatal(err)
	}
}
