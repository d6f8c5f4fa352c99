// Package cpumeter measures CPU time for benchmarks. Unlike wall-clock time, CPU time is comparable
// between runs even if other work runs on the machine. The package requires Linux.
package cpumeter

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Meter adds up the CPU time of this process in user mode and kernel mode. The measured time
// includes all threads and garbage collection. The zero value of Meter is stopped and has measured
// no time.
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

// Report reports the measured time per sample as cpu-ns/sample. The samples parameter is the number
// of samples per benchmark iteration.
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

// Of returns the CPU time that a process has used. If pid is 0, Of returns the CPU time of this
// process.
func Of(pid int) (time.Duration, error) {
	// Read the process's CPU clock, whose ID is derived from the PID as in clock_getcpuclockid(3).
	// Unlike the times in /proc, which have a resolution of 10 ms, this clock has a resolution of
	// nanoseconds.
	const sched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
