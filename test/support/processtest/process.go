// Package processtest runs built commands and other programs as processes for tests: a test is
// skipped if its program is missing, processes end with the test, and their output is shown when
// it fails.
package processtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

const (
	// Patience is how long one step may take on a busy machine.
	Patience = 60 * time.Second
	// Ready is what a collector logs when all of it has started.
	Ready = "Everything is ready"

	// shown is how much of a failed test's process is shown, in bytes.
	shown = 4 << 10
)

// Binary returns the path of one of our built commands, or skips the test.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Tool(t, "OTELCOL_GPU_BIN"), name)
	require.FileExists(t, path)
	return path
}

// Tool returns the path that an environment variable names, or skips the test.
func Tool(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		notruntest.Skip(t, variable+" is not set; `make check` builds what it names and runs this")
	}
	return path
}

// Environment is the least that our commands need of the caller's environment,
// with what is set beside it.
func Environment(set map[string]string) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "TMPDIR"} {
		env = append(env, key+"="+os.Getenv(key))
	}
	for key, value := range set {
		env = append(env, key+"="+value)
	}
	return env
}

// Process is a running command.
type Process struct {
	Cmd *exec.Cmd
	// Output is what it wrote to standard output and standard error.
	Output *Buffer
	// Ended is closed when the process has ended and Err holds how.
	Ended <-chan struct{}
	Err   error
}

// Start starts a command, which is killed at the end of the test if it has not
// ended before. Standard output and standard error become Output where the command
// does not say otherwise.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	return StartBy(t, cmd, cmd.Start)
}

// StartBy is [Start] for a command that is started in a way of its own.
func StartBy(t testing.TB, cmd *exec.Cmd, start func() error) *Process {
	t.Helper()
	ended := make(chan struct{})
	p := &Process{Cmd: cmd, Output: &Buffer{}, Ended: ended}
	if cmd.Stdout == nil {
		cmd.Stdout = p.Output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.Output
	}
	require.NoError(t, start())
	go func() {
		p.Err = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			said := p.Output.String()
			t.Logf("%s said:\n%s", filepath.Base(cmd.Path), said[max(0, len(said)-shown):])
		}
	})
	return p
}

// Stop ends the process as an orchestrator would. It has to end with status 0, and
// not by a panic.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.Ended:
		require.NoError(t, p.Err, "exit status")
	case <-time.After(Patience):
		require.Fail(t, "the process does not end")
	}
	assert.NotContains(t, p.Output.String(), "panic")
}

// Kill ends the process at once, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // which fails when it has ended
	<-p.Ended
}

// Status returns the process's /proc/<pid>/status; sizes are in bytes.
func (p *Process) Status(t testing.TB) procfs.ProcStatus {
	t.Helper()
	proc, err := procfs.NewProc(p.Cmd.Process.Pid)
	require.NoError(t, err)
	status, err := proc.NewStatus()
	require.NoError(t, err)
	require.NotZero(t, status.VmRSS, "a process that ended?")
	return status
}

// Until asks until the answer is yes, for what other processes do. It fails when
// patience is at an end, and when one of those that have to live meanwhile has
// ended.
func Until(t testing.TB, what string, done func() bool, living ...*Process) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(Patience)
	for !done() {
		for _, p := range living {
			select {
			case <-p.Ended:
				require.Fail(t, "a process ended", "%s, waiting for %s: %v", filepath.Base(p.Cmd.Path), what, p.Err)
			default:
			}
		}
		select {
		case <-tick.C:
		case <-end:
			require.Fail(t, "it did not happen", "waiting for %s", what)
		}
	}
}

// Buffer keeps what is written to it, and may be read meanwhile.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements [io.Writer].
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns what was written until now.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
