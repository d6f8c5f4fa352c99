package componenthelper

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const releaseEvery = time.Minute

var pagesReleased atomic.Int64 // time of the last release, as Unix time in nanoseconds

// ReleasePages releases memory pages of the program's own executable file to the kernel, at most
// once a minute per process. Receivers call ReleasePages after each scrape. Most of the
// executable's pages are needed only when the program starts. The kernel keeps released pages in
// the page cache while there is enough memory, and maps them again when they are needed.
func ReleasePages(now time.Time) {
	last := pagesReleased.Load()
	if now.UnixNano()-last < int64(releaseEvery) || !pagesReleased.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return // without /proc, the executable's pages stay mapped
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	for _, m := range cleanMappings(bufio.NewScanner(smaps), program) {
		// If madvise fails, the pages stay mapped, and the only effect is that the process uses
		// more memory.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
	}
}

type mapping struct{ start, end uintptr }

// cleanMappings returns a file's read-only mappings that were never written to. Mappings that
// contain relocated pages are excluded, because the kernel cannot restore those pages from the
// file.
func cleanMappings(smaps *bufio.Scanner, file string) []mapping {
	var clean []mapping
	var current mapping
	for smaps.Scan() {
		line := smaps.Text()
		if kB, ok := strings.CutPrefix(line, "Anonymous:"); ok && current.end > 0 {
			if strings.TrimSpace(kB) == "0 kB" {
				clean = append(clean, current)
			}
			current = mapping{}
			continue
		}
		// 00400000-02a3c000 r-xp 00000000 fe:00 1234    /usr/bin/otelcol-gpu
		where, rest, _ := strings.Cut(line, " ")
		from, to, ok := strings.Cut(where, "-")
		if !ok {
			continue
		}
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 != nil || err2 != nil {
			continue
		}
		current = mapping{}
		if perms, _, _ := strings.Cut(rest, " "); !strings.Contains(perms, "w") && strings.HasSuffix(rest, " "+file) {
			current = mapping{uintptr(start), uintptr(end)}
		}
	}
	return clean
}
