//go:build !unix

package filestorageextension

import "os"

// lock reports whether to check a file. Here it is not known whether another process uses it.
func lock(*os.File) bool { return false }
