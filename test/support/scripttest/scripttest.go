// Package scripttest writes executable files that tests can run.
package scripttest

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Write writes an executable file, usually a script, that can be run immediately. Write prevents
// other goroutines from forking while the file is open for writing. Otherwise, a forked process
// would keep the file open until that process calls exec, and the kernel does not run a file that
// is open for writing ("text file busy").
func Write(t testing.TB, path, content string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o700)) //nolint:gosec // the file must be executable
	require.NoError(t, os.Chmod(path, 0o755))                      //nolint:gosec // also by other users
}
