package processtest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAProcessIsWaitedForReadAndStopped(t *testing.T) {
	p := Start(t, exec.Command("/bin/sh", "-c", `trap 'echo leaving >&2; exit 0' TERM; echo ready; while :; do sleep 0.01; done`))
	Until(t, "the first line", func() bool { return strings.Contains(p.Output.String(), "ready\n") }, p)
	select {
	case <-p.Ended:
		require.Fail(t, "the process has ended without a signal", p.Output.String())
	default:
	}
	p.Stop(t)
	assert.Equal(t, "ready\nleaving\n", p.Output.String())
	p.Kill() // has no effect if the process has exited
	require.NoError(t, p.Err)
}

func TestAKilledProcessHasEndedWithItsError(t *testing.T) {
	p := Start(t, exec.Command("/bin/sh", "-c", "while :; do sleep 0.01; done"))
	p.Kill()
	require.EqualError(t, p.Err, "signal: killed")
}

// failing is a testing.TB that records a failure and the failure messages.
type failing struct {
	testing.TB
	messages string
}

func (f *failing) Helper()                        {}
func (f *failing) Errorf(format string, v ...any) { f.messages += fmt.Sprintf(format, v...) }
func (f *failing) FailNow()                       { runtime.Goexit() }

// The fails function runs a function that must fail the test, and returns the failure message.
func fails(t *testing.T, part func(testing.TB)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		part(f)
	}()
	<-done
	return f.messages
}

func TestAProcessThatEndsWithAnErrorFailsItsTest(t *testing.T) {
	for script, messages := range map[string]string{
		"exit 3":                          "exit status 3",
		"echo 'panic: assertion'; exit 0": "panic: assertion",
	} {
		p := Start(t, exec.Command("/bin/sh", "-c", "trap \""+script+"\" TERM; echo ready; while :; do sleep 0.01; done"))
		Until(t, "the first line", func() bool { return strings.Contains(p.Output.String(), "ready\n") }, p)
		assert.Contains(t, fails(t, func(tb testing.TB) { tb.Helper(); p.Stop(tb) }), messages)
	}
}

func TestUntilDoesNotWaitForAProcessThatHasEnded(t *testing.T) {
	p := Start(t, exec.Command("/bin/sh", "-c", "exit 3"))
	<-p.Ended
	messages := fails(t, func(tb testing.TB) { tb.Helper(); Until(tb, "an answer", func() bool { return false }, p) })
	assert.Contains(t, messages, "sh, waiting for an answer: exit status 3")
}

func TestACommandGetsNoSettingOfTheCaller(t *testing.T) {
	t.Setenv("DCGM_ENDPOINT", "http://elsewhere:9400/metrics")
	cmd := exec.Command("/usr/bin/env")
	cmd.Env = Environment(map[string]string{"NODE_NAME": "n1"})
	p := Start(t, cmd)
	<-p.Ended
	assert.Contains(t, p.Output.String(), "NODE_NAME=n1\n")
	assert.Contains(t, p.Output.String(), "PATH=")
	assert.NotContains(t, p.Output.String(), "DCGM_ENDPOINT")
}

func TestAnAddressIsFreeAndReturnedOnce(t *testing.T) {
	given := map[string]bool{}
	for range 100 {
		address := FreeAddress(t)
		assert.False(t, given[address], address)
		given[address] = true
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		assert.Equal(t, "127.0.0.1:"+Port(t, address), listener.Addr().String())
		require.NoError(t, listener.Close())
	}
}

func TestAPageWithoutContentIsEmpty(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) }))
	assert.Equal(t, "page", Get(t, server.URL))
	server.Close()
	assert.Empty(t, Get(t, server.URL))
}

func TestABackendStoresAndForwardsRequests(t *testing.T) {
	var passed []byte
	backend := StartBackend(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passed, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
	}))
	sent := pmetric.NewMetrics()
	sent.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics().AppendEmpty().SetName("hw.power")
	body, err := pmetricotlp.NewExportRequestFromMetrics(sent).MarshalProto()
	require.NoError(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(body)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, backend.URL+"/v1/metrics", &packed)
	require.NoError(t, err)
	request.Header.Set("Content-Encoding", "gzip")
	response, err := client.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, http.StatusTeapot, response.StatusCode)
	assert.Equal(t, body, passed)
	assert.Equal(t, sent, backend.All())
}

func TestTheListenAddressesOfAProcessAreFound(t *testing.T) {
	var want []netip.AddrPort
	for _, address := range []string{"127.0.0.1:0", ":0"} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		want = append(want, listener.Addr().(*net.TCPAddr).AddrPort())
	}
	got := Listens(t, os.Getpid())
	assert.Contains(t, got, want[0])
	assert.True(t, slices.ContainsFunc(got, func(a netip.AddrPort) bool {
		return a.Port() == want[1].Port() && a.Addr().IsUnspecified()
	}), "%v", got)
}
