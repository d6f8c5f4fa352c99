// Package scripttest writes programs that a test starts.
package scripttest

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write writes a program, mostly a script, that can be started at once. A process that another
// goroutine forks meanwhile would have the file open for writing until it executes, and the
// kernel starts no file that somebody writes: "text file busy".
func Write(t testing.TB, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o700)) //nolint:gosec // it is executed
	require.NoError(t, os.Chmod(path, 0o755))                      //nolint:gosec // also by another user
}
