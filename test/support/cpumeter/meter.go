// Package cpumeter measures CPU time for benchmarks. Unlike wall-clock time, CPU time stays
// comparable on a machine with other load. The package requires Linux.
package cpumeter

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Meter sums the CPU time of this process: all threads, garbage collection, and the kernel's work
// for them. The zero Meter is stopped and at zero.
type Meter struct {
	sum, started time.Duration
}

// Start starts the meter.
func (m *Meter) Start(b *testing.B) {
	b.Helper()
	m.started = own(b)
}

// Stop stops the meter, which must have been started.
func (m *Meter) Stop(b *testing.B) {
	b.Helper()
	m.sum += own(b) - m.started
}

// Report reports the measured time per sample as cpu-ns/sample. samples is the number of samples
// per iteration.
func (m *Meter) Report(b *testing.B, samples int) {
	b.Helper()
	b.ReportMetric(float64(m.sum.Nanoseconds())/float64(b.N)/float64(samples), "cpu-ns/sample")
}

func own(b *testing.B) time.Duration {
	b.Helper()
	had, err := Of(0)
	require.NoError(b, err)
	return had
}

// Of returns the CPU time that a process has used. pid 0 is this process.
func Of(pid int) (time.Duration, error) {
	// The CPU clock of a process in nanoseconds, numbered as in clock_getcpuclockid(3). The
	// resolution of /proc is only 10 ms.
	const sched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
