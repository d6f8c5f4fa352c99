package processtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// nextPort is the port that was tried last. All ports are below the range from which the kernel
// assigns ephemeral ports, so that no other process can take a port while the test's own process is
// stopped.
var nextPort atomic.Uint32

func init() { nextPort.Store(20_000 + rand.Uint32N(8_000)) }

// FreeAddress returns an unused loopback address with a port. FreeAddress never returns the same
// address twice.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1))
		if listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); err == nil {
			require.NoError(t, listener.Close())
			return address
		}
	}
}

// Port returns the port of an address.
func Port(t testing.TB, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return port
}

// client does not keep idle connections, so it leaves no goroutines behind.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Patience}

// Get returns the response body from a URL, or "" if the server does not respond.
func Get(t testing.TB, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "" // the server stopped during the response
	}
	return string(body)
}
