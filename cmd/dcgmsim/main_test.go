package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent())
}

func TestInvalidFlagsAreErrorsWithTheFlagItsValueAndTheAllowedValues(t *testing.T) {
	for args, want := range map[string]string{
		"--scenario hot":        `--scenario: "hot": want one of healthy, idle, power-capped, thermal,`,
		"--style 5":             `--style: "5": want one of 2.x, 3.x, 4.5, 4.8.3, 4.9`,
		"--fields few":          `--fields: "few": want one of default, all`,
		"--nodes 0":             `--nodes: "0": want 1 to 10000`,
		"--nodes many":          `invalid value "many" for flag -nodes: want a whole number`,
		"--gpus 65":             `--gpus: "65": want 1 to 64`,
		"--mig 8":               `--mig: "8": want 0 to 7`,
		"--collect-interval 5":  `invalid value "5" for flag -collect-interval: want a duration such as 30s`,
		"--collect-interval 2h": `--collect-interval: "2h0m0s": want 0s or 1ms to 1h0m0s`,
		"--replay nowhere.prom": `--replay: "nowhere.prom": want a file that can be read`,
		"--colour red":          `flag provided but not defined: -colour`,
		"metrics":               `"metrics": want flags only`,
	} {
		t.Run(args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			assert.Equal(t, exitUsage, run(t.Context(), strings.Fields(args), &stdout, &stderr))
			assert.Contains(t, stderr.String(), want)
			assert.Empty(t, stdout.String())
		})
	}
}

func TestHelpListsTheFlags(t *testing.T) {
	var stderr bytes.Buffer
	assert.Equal(t, exitOK, run(t.Context(), []string{"--help"}, io.Discard, &stderr))
	for _, flag := range []string{"-scenario", "-style", "-nodes", "-replay", "power-capped", "4.8.3", "127.0.0.1:9400"} {
		assert.Contains(t, stderr.String(), flag)
	}
}

// output is a buffer that another goroutine may write to. The first write closes the channel in the
// written field.
type output struct {
	mu      sync.Mutex
	text    strings.Builder
	written chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.text.Len() == 0 {
		close(o.written)
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs dcgmsim on a free port. The results are the base URL, and a function that stops
// dcgmsim and returns the exit status of dcgmsim.
func start(t *testing.T, args ...string) (url string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stdout := &output{written: make(chan struct{})}
	var stderr bytes.Buffer
	status := make(chan int, 1)
	go func() { status <- run(ctx, append(args, "--listen", "127.0.0.1:0"), stdout, &stderr) }()
	select {
	case <-stdout.written:
	case code := <-status:
		cancel()
		t.Fatalf("exit status %d: %s", code, stderr.String())
	}
	url = regexp.MustCompile(`http://[^/]+`).FindString(stdout.String())
	require.NotEmpty(t, url)
	return url, func() int {
		cancel()
		return <-status
	}
}

// get fetches a URL on a new connection.
func get(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestDcgmsimServesUntilItIsStoppedAndFreesItsPort(t *testing.T) {
	url, stop := start(t, "--nodes", "3", "--gpus", "2", "--style", "4.5")
	assert.Contains(t, get(t, url+"/metrics"), `Hostname="gpu-node-0"`)
	assert.Contains(t, get(t, url+"/node/2/metrics"), `Hostname="gpu-node-2"`)
	assert.Equal(t, "OK", get(t, url+"/health"))
	assert.Equal(t, exitOK, stop())

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}

func TestAHangingScrapeDoesNotDelayTheStop(t *testing.T) {
	url, stop := start(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/control?fault=hang", http.NoBody)
	require.NoError(t, err)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection, "GET /metrics HTTP/1.1\r\nHost: dcgmsim\r\n\r\n")
	require.NoError(t, err)

	begin := time.Now()
	assert.Equal(t, exitOK, stop())
	assert.Less(t, time.Since(begin), shutdownTimeout+5*time.Second)
}

func TestABusyPortIsReportedClearly(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	var stderr bytes.Buffer
	assert.Equal(t, exitError, run(t.Context(), []string{"--listen", listener.Addr().String()}, io.Discard, &stderr))
	assert.Contains(t, stderr.String(), `--listen: "`+listener.Addr().String()+`": want a free address host:port`)
}

func TestRecordedFilesAreReplayedInTurn(t *testing.T) {
	dir := t.TempDir()
	var args []string
	for _, text := range []string{"first 1\n", "second 2\n"} {
		file := filepath.Join(dir, text[:5]+".prom")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		args = append(args, "--replay", file)
	}
	url, stop := start(t, args...)
	assert.Equal(t, "first 1\n", get(t, url+"/metrics"))
	assert.Equal(t, "second 2\n", get(t, url+"/metrics"))
	assert.Equal(t, "first 1\n", get(t, url+"/metrics"))
	assert.Equal(t, exitOK, stop())
}
