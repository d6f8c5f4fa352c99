//go:build unix

package filestorageextension

import (
	"os"
	"syscall"
)

// lock tries to lock the file, and reports whether it succeeded. The attempt fails while another
// process has the file open as a database. Closing the file releases the lock.
func lock(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
