//go:build unix

package filestorageextension

import (
	"errors"
	"os"
	"syscall"
)

// canLock reports whether the lock function works on this operating system.
const canLock = true

// lock tries to lock the file. If another process has the file open as a database, lock returns
// false. Closing the file releases the lock.
func lock(f *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR): // a signal interrupted the call
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		default:
			return err == nil, err
		}
	}
}
