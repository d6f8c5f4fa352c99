package security

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

const (
	// root is relative to this package, where go test runs it.
	root = "../.."
	// patience is how long one step may take on a busy machine.
	patience = 60 * time.Second
	// ready is what a collector logs when all of it has started.
	ready = "Everything is ready"
	// aloneEnv makes this test binary a launcher, see alone.
	aloneEnv = "OTELCOL_GPU_SECURITY_ALONE"
)

func TestMain(m *testing.M) {
	if os.Getenv(aloneEnv) != "" {
		alone()
	}
	goleak.VerifyTestMain(m)
}

// alone becomes the command of the arguments, in a network namespace that has
// loopback and nothing else: every port is free there, and every socket the
// command's.
func alone() {
	err := func() error {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		request, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_UP)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
			return err
		}
		if err := os.Unsetenv(aloneEnv); err != nil {
			return err
		}
		return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
	}()
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// built returns the path of a built command, or skips the test.
func built(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("OTELCOL_GPU_BIN")
	if dir == "" {
		t.Skip("OTELCOL_GPU_BIN does not name the directory of the built commands: `make examples` runs this")
	}
	path := filepath.Join(dir, name)
	require.FileExists(t, path)
	return path
}

// collector is a running process under test.
type collector struct {
	cmd    *exec.Cmd
	output lockedBuffer
	ended  chan struct{} // closed when err holds how it ended
	err    error
}

// lockedBuffer may be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// command returns the collector's command with these arguments and this environment.
func command(t *testing.T, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(built(t, "otelcol-gpu"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	for key, value := range env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	return cmd
}

// isolated makes a command run alone, see there.
func isolated(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd.Args = append([]string{self, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = self
	cmd.Env = append(cmd.Env, aloneEnv+"=yes")
	cmd.SysProcAttr = namespaces()
}

func namespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}

// requireNamespaces skips the test where a process cannot have a network of its own.
func requireNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	cmd.SysProcAttr = namespaces()
	if err := cmd.Run(); err != nil {
		t.Skipf("NOT RUN: this machine gives a process no network namespace of its own: %v", err)
	}
}

// start starts a collector and waits until all of it has started; it ends with the
// test.
func start(t *testing.T, cmd *exec.Cmd) *collector {
	t.Helper()
	c := &collector{cmd: cmd, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	require.NoError(t, cmd.Start())
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-c.ended
		if t.Failed() {
			said := c.output.String()
			t.Logf("the collector said:\n%s", said[max(0, len(said)-4<<10):])
		}
	})
	c.until(t, ready, func() bool { return strings.Contains(c.output.String(), ready) })
	return c
}

// until waits for what the collector does.
func (c *collector) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-c.ended:
			require.Fail(t, "the collector ended", "waiting for %s: %v", what, c.err)
		case <-end:
			require.Fail(t, "nothing came", "waiting for %s", what)
		}
	}
}

// stop ends the collector as an orchestrator would; it has to end with status 0.
func (c *collector) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-c.ended:
		assert.NoError(t, c.err, "exit status")
	case <-time.After(patience):
		require.Fail(t, "the collector does not end")
	}
}

// freeAddress returns a loopback address on which nobody listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}
