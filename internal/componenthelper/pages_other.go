//go:build !linux

package componenthelper

import "time"

// ReleasePages does nothing on systems without /proc.
func ReleasePages(time.Time) {}
