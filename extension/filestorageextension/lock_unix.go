//go:build unix

package filestorageextension

import (
	"os"
	"syscall"
)

// lock reports whether no other process has the file open as a database. The lock ends when the
// file is closed.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
