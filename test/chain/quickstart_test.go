package chain

import (
	"bufio"
	"bytes"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// quickstart returns a command that runs the quickstart script with free ports for its simulated
// exporter and its web page.
func quickstart(t *testing.T) (cmd *exec.Cmd, listen, page string) {
	t.Helper()
	processtest.Binary(t, "otelcol-gpu-agent")
	listen = processtest.FreeAddress(t)
	page = processtest.FreeAddress(t)
	script, err := filepath.Abs(filepath.Join("..", "..", "examples", "quickstart.sh"))
	require.NoError(t, err)
	cmd = exec.Command(script)
	cmd.Env = processtest.Environment(map[string]string{
		"DCGMSIM_PORT": processtest.Port(t, listen), "VIEW_PORT": processtest.Port(t, page), "OTELCOL_GPU_BIN": processtest.Tool(t, "OTELCOL_GPU_BIN"),
	})
	// The script's process group represents a terminal's foreground process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, listen, page
}

// screen collects the output of a running quickstart script.
type screen struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	lines  chan string // closed after the last process that writes to it has exited
	seen   []string
}

func show(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	s := &screen{cmd: cmd, lines: make(chan string, 1000)}
	cmd.Stderr = &s.stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	// If this process ignored SIGHUP, as it does under nohup, the script would also ignore SIGHUP.
	// Because this process handles SIGHUP, the script starts with the default action for SIGHUP.
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP)
	defer signal.Stop(heard)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = s.signal(syscall.SIGKILL) })
	go func() {
		defer close(s.lines)
		scanner := bufio.NewScanner(stdout)
		for scanner.Scan() {
			s.lines <- scanner.Text()
		}
	}()
	return s
}

// signal sends a signal to every process in the script's process group, as a terminal does.
func (s *screen) signal(sig syscall.Signal) error {
	return syscall.Kill(-s.cmd.Process.Pid, sig)
}

func (s *screen) waitFor(t *testing.T, text string) {
	t.Helper()
	end := time.After(processtest.Patience)
	for {
		select {
		case line, open := <-s.lines:
			if !open {
				_ = s.cmd.Wait() // the process may write to stderr until Wait returns
				require.Fail(t, "the script ended early", "%s\n%s", strings.Join(s.seen, "\n"), &s.stderr)
			}
			s.seen = append(s.seen, line)
			if strings.Contains(line, text) {
				return
			}
		case <-end:
			// Do not read s.stderr here, because the running process may still be writing to
			// stderr.
			require.Fail(t, "no "+text+" came", strings.Join(s.seen, "\n"))
		}
	}
}

// The ends function sends a signal and checks that all processes exit without an error.
func (s *screen) ends(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, s.signal(sig))
	end := time.After(processtest.Patience)
	for open := true; open; {
		select {
		case line, more := <-s.lines:
			if open = more; open {
				s.seen = append(s.seen, line)
			}
		case <-end:
			require.Fail(t, "the script does not end", strings.Join(s.seen, "\n"))
		}
	}
	err := s.cmd.Wait()
	// After SIGHUP, do not check for errors. If the collector handles the signal before the script
	// does, the collector reloads its configuration. After a real hangup, no terminal is left to
	// display an error.
	if sig != syscall.SIGHUP {
		require.NoError(t, err, "exit status; %s", &s.stderr)
		assert.Empty(t, s.stderr.String())
	}
	require.ErrorIs(t, s.signal(0), syscall.ESRCH, "a process is still running")
	t.Log("\n" + strings.Join(s.seen, "\n"))
}

// The test cases run in parallel, because each one waits ten seconds or more for a window.
func TestQuickstartShowsWindowsAndStopsAllItsProcesses(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{
		"on Ctrl-C": syscall.SIGINT, "after the signal to end": syscall.SIGTERM, "when the terminal is closed": syscall.SIGHUP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, listen, page := quickstart(t)
			screen := show(t, cmd)
			screen.waitFor(t, " gpu-node-1/") // the node with AMD devices, listed after those with TPUs and NVIDIA devices
			for _, device := range []string{"tpu-job-2", "/nvidia7 "} {
				assert.True(t, slices.ContainsFunc(screen.seen, func(line string) bool { return strings.Contains(line, device) }), "no line of %q", device)
			}
			assert.Contains(t, screen.seen, "Live page: http://localhost:"+processtest.Port(t, page))
			assert.Contains(t, processtest.Get(t, "http://"+page+"/"), "<!doctype html>")
			assert.Contains(t, processtest.Get(t, "http://"+page+"/allocation?window=1m"), `"gpuAllocation"`, "labels make containers")
			screen.ends(t, sig)
			for _, line := range screen.seen {
				assert.LessOrEqual(t, utf8.RuneCountInString(line), 120, line)
			}
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", listen)
			require.NoError(t, err, "the port is still held")
			require.NoError(t, listener.Close())
		})
	}
}

func TestQuickstartReportsThatTheExporterDoesNotRespond(t *testing.T) {
	t.Parallel()
	cmd, _, _ := quickstart(t)
	endpoint := "http://" + processtest.FreeAddress(t) + "/metrics"
	cmd.Env = append(cmd.Env, "DCGM_ENDPOINT="+strings.Replace(endpoint, "//", "//user:secret@", 1), "SCRAPE_INTERVAL=1s")
	screen := show(t, cmd)
	screen.waitFor(t, endpoint+": scrape fails")
	screen.ends(t, syscall.SIGINT)
	assert.Equal(t, "Scraping "+endpoint+" every 1s for windows of 60s: dcgm-exporter reads its GPUs every 30s.", screen.seen[0])
	assert.Equal(t, 1, strings.Count(strings.Join(screen.seen, "\n"), endpoint+": scrape fails"))
}

func TestQuickstartNamesABusyPort(t *testing.T) {
	t.Parallel()
	for name, busy := range map[string]func(listen, page string) string{
		"of the exporter": func(listen, _ string) string { return listen },
		"of the page":     func(_, page string) string { return page },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, listen, page := quickstart(t)
			address := busy(listen, page)
			listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
			require.NoError(t, err)
			defer listener.Close()

			output, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.Equal(t, 1, exit.ExitCode())
			assert.Contains(t, string(output), "port "+processtest.Port(t, address)+" is in use")
		})
	}
}

// The process that reads the table exits, as in `make run | head`.
func TestQuickstartEndsWhenItsReaderExits(t *testing.T) {
	t.Parallel()
	cmd, _, _ := quickstart(t)
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
		require.NoError(t, err)
	case <-time.After(processtest.Patience):
		require.Fail(t, "still there")
	}
	require.ErrorIs(t, syscall.Kill(group, 0), syscall.ESRCH, "a process is still running")
}
