//go:build !linux

package component

import "time"

// ReleasePages does nothing on systems without /proc.
func ReleasePages(time.Time) {}
