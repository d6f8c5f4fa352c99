//go:build !linux

package componenthelper

import "time"

// ReleasePages does nothing on systems other than Linux.
func ReleasePages(time.Time) {}
