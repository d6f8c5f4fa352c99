//go:build !unix

package filestorageextension

import "os"

// lock reports whether to check a file. On this system, it is unknown whether another process uses
// the file.
func lock(*os.File) bool { return false }
