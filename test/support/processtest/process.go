// Package processtest runs this project's built commands and other programs as processes for tests.
// If a program is not available, the test is skipped. Processes are killed at the end of the test.
// If the test fails, the processes' output is logged.
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
	// Patience is the maximum time that a step may take on a busy machine.
	Patience = 60 * time.Second
	// Ready is the text that a collector logs after all components have started.
	Ready = "Everything is ready"

	// shown is the maximum number of bytes of output that are logged for a failed test.
	shown = 4 << 10
)

// Binary returns the path of one of this project's built commands. If the commands are not
// available, Binary skips the test.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Tool(t, "OTELCOL_GPU_BIN"), name)
	require.FileExists(t, path)
	return path
}

// Tool returns the path in an environment variable. If the variable is not set, Tool skips the
// test.
func Tool(t testing.TB, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		notruntest.Skip(t, variable+" is not set; `make check` builds the program and runs this test")
	}
	return path
}

// Environment returns the environment variables for a command: the given variables, and the few
// variables of this process that commands need.
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
	// Output contains standard output and standard error.
	Output *Buffer
	// Ended is closed after the process has exited and Err has been set.
	Ended <-chan struct{}
	Err   error
}

// Start starts a command. If the process is still running at the end of the test, the process is
// killed. Standard output and standard error are written to Output unless cmd already sets them.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	return StartBy(t, cmd, cmd.Start)
}

// StartBy is like [Start], but calls the start function to start the command.
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
			messages := p.Output.String()
			t.Logf("%s printed:\n%s", filepath.Base(cmd.Path), messages[max(0, len(messages)-shown):])
		}
	})
	return p
}

// Stop stops the process with SIGTERM, as an orchestrator does. The process must exit with status 0
// and must not panic.
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

// Kill kills the process and waits until it has exited.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // fails if the process has already exited
	<-p.Ended
}

// Status returns the contents of the process's /proc/<pid>/status. Sizes are in bytes.
func (p *Process) Status(t testing.TB) procfs.ProcStatus {
	t.Helper()
	proc, err := procfs.NewProc(p.Cmd.Process.Pid)
	require.NoError(t, err)
	status, err := proc.NewStatus()
	require.NoError(t, err)
	require.NotZero(t, status.VmRSS, "the process may have ended")
	return status
}

// Until calls the done function repeatedly until done returns true. The test fails if that takes
// longer than Patience, or if one of the given processes exits first.
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

// Buffer stores everything that is written to it. Buffer is safe for concurrent use.
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

// String returns everything written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
