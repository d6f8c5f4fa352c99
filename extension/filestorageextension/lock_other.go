//go:build !unix

package filestorageextension

import "os"

// canLock is false, so files are not checked. On this operating system, the package cannot
// determine whether another process uses a file.
const canLock = false

// lock always returns false. The package does not call lock on this operating system.
func lock(*os.File) (bool, error) { return false, nil }
