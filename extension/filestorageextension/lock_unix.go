//go:build unix

package filestorageextension

import (
	"os"
	"syscall"
)

// lock locks the file. It returns true if no other process has the file open as a database. Closing
// the file releases the lock.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
