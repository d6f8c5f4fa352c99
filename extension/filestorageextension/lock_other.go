//go:build !unix

package filestorageextension

import "os"

// lock reports whether to check a file. This system does not show whether another process uses the
// file.
func lock(*os.File) bool { return false }
