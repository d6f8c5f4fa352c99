package examplestest

import (
	"bufio"
	"bytes"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// quickstart returns the script with its simulated exporter on a free port.
func quickstart(t *testing.T) (cmd *exec.Cmd, listen string) {
	t.Helper()
	binary(t, "otelcol-gpu")
	listen = freeAddress(t)
	_, port, err := net.SplitHostPort(listen)
	require.NoError(t, err)
	script, err := filepath.Abs(filepath.Join(examplesDir, "quickstart.sh"))
	require.NoError(t, err)
	cmd = exec.Command(script)
	cmd.Env = environment(map[string]string{"DCGMSIM_PORT": port})
	// A group of its own stands for the terminal's foreground group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, listen
}

func TestQuickstartShowsWindowsAndLeavesNothingBehind(t *testing.T) {
	cmd, listen := quickstart(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	group := -cmd.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(group, syscall.SIGKILL) })

	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	var seen []string
	end := timeout(t)
	for found := false; !found; {
		select {
		case line, open := <-lines:
			require.True(t, open, "ended early\n%s\n%s", strings.Join(seen, "\n"), &stderr)
			seen = append(seen, line)
			found = strings.Contains(line, "/nvidia")
		case <-end:
			require.Fail(t, "no window came", "%s\n%s", strings.Join(seen, "\n"), &stderr)
		}
	}

	require.NoError(t, syscall.Kill(group, syscall.SIGINT))
	for line := range lines {
		seen = append(seen, line)
	}
	require.NoError(t, cmd.Wait(), "exit status; %s", &stderr)
	assert.Empty(t, stderr.String())
	require.ErrorIs(t, syscall.Kill(group, 0), syscall.ESRCH, "a process is left")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", listen)
	require.NoError(t, err, "the port is still held")
	require.NoError(t, listener.Close())
	t.Log("\n" + strings.Join(seen, "\n"))
}

func TestQuickstartNamesABusyPort(t *testing.T) {
	cmd, listen := quickstart(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", listen)
	require.NoError(t, err)
	defer listener.Close()

	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 1, exit.ExitCode())
	_, port, err := net.SplitHostPort(listen)
	require.NoError(t, err)
	assert.Contains(t, string(output), "port "+port+" is in use")
}

// As with `make run | head`: the table's reader goes away and the collector is
// left with a pipe that nobody empties.
func TestQuickstartEndsWhenItsReaderGoes(t *testing.T) {
	cmd, _ := quickstart(t)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	group := -cmd.Process.Pid
	t.Cleanup(func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	scanner := bufio.NewScanner(stdout)
	for scanner.Scan() && !strings.Contains(scanner.Text(), "/nvidia") {
		continue
	}
	require.NoError(t, stdout.Close())

	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, "it says that it did not end well")
	case <-timeout(t):
		require.Fail(t, "still there")
	}
	require.ErrorIs(t, syscall.Kill(group, 0), syscall.ESRCH, "a process is left")
}
