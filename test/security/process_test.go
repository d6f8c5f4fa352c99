package security

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

const (
	// root is the path of the repository's root directory, relative to this package.
	root = "../.."
	// aloneEnv is the name of an environment variable. If the variable is set, this test binary
	// launches a command (see the alone function) instead of running tests.
	aloneEnv = "OTELCOL_GPU_SECURITY_ALONE"
)

func TestMain(m *testing.M) {
	if os.Getenv(aloneEnv) != "" {
		alone()
	}
	goleak.VerifyTestMain(m)
}

// The alone function enables the loopback interface of its network namespace and replaces this
// process with the command in its arguments. The network namespace has no other interface, so every
// port is free, and every socket belongs to the command.
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

// command returns a command that runs the collector with the given arguments and environment
// variables.
func command(t *testing.T, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(processtest.Binary(t, "otelcol-gpu"), args...)
	cmd.Env = append(processtest.Environment(env), "HOME="+t.TempDir(), "TMPDIR="+t.TempDir())
	return cmd
}

// isolated changes a command so that it runs in a separate network namespace. The changed command
// runs this test binary, which launches the original command (see the alone function).
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

// requireNamespaces skips the test if the machine does not allow creating network namespaces.
func requireNamespaces(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	cmd.SysProcAttr = namespaces()
	if err := cmd.Run(); err != nil {
		notruntest.Skip(t, fmt.Sprintf("egress: this machine does not allow network namespaces: %v", err))
	}
}

// start starts a collector that runs until the end of the test, and waits until the collector is
// ready.
func start(t *testing.T, cmd *exec.Cmd) *processtest.Process {
	t.Helper()
	c := processtest.Start(t, cmd)
	processtest.Until(t, processtest.Ready, func() bool { return strings.Contains(c.Output.String(), processtest.Ready) }, c)
	return c
}
