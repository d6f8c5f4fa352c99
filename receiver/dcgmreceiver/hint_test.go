package dcgmreceiver

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
)

func TestFailureHasAHint(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>"))
	}
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		tls     bool
		scheme  string // replaces the scheme of the server's URL
		dial    error
		timeout time.Duration // The scrape timeout, which is one minute by default.
		want    string        // A part of the expected hint, or empty if no hint is expected.
	}{
		"an unknown host name":     {dial: &net.DNSError{Err: "no such host", IsNotFound: true}, want: "Is the host's name correct"},
		"another authority":        {handler: serve(goodBody), tls: true, want: "http::tls::ca_file"},
		"https to an http port":    {handler: serve(goodBody), scheme: "https", want: "use http://"},
		"http to an https port":    {handler: serve(goodBody), tls: true, scheme: "http", want: "use https://"},
		"missing credentials":      {handler: status(http.StatusUnauthorized), want: "http::auth"},
		"insufficient credentials": {handler: status(http.StatusForbidden), want: "http::auth"},
		"a wrong path":             {handler: status(http.StatusNotFound), want: "end in /metrics"},
		"an HTML page":             {handler: page, want: "end in /metrics"},
		"another text":             {handler: serve("hello world, this is no metric"), want: "end in /metrics"},
		"text without a newline":   {handler: serve(strings.Repeat("x", exposition.MaxLine+1)), want: "end in /metrics"},
		"labels over the limit":    {handler: serve(overlongLine())},
		"no sample":                {handler: serve(""), want: "while it reloads its csv"},
		"a missing response":       {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, timeout: 200 * time.Millisecond, want: "NetworkPolicy"},
		"an error of the exporter": {handler: status(http.StatusInternalServerError)},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(tt.handler)
			server.Config.ErrorLog = discardLog()
			if tt.tls {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			url := server.URL
			if _, host, _ := strings.Cut(url, "://"); tt.scheme != "" {
				url = tt.scheme + "://" + host
			}
			f := opened(t, []string{url}, func(cfg *Config) { cfg.Timeout = cmp.Or(tt.timeout, time.Minute) })
			if tt.dial != nil {
				f.transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, tt.dial }
			}
			assert.Equal(t, tt.want, hinted(t, f, tt.want))
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(serve(goodBody))
		server.Close()
		const want = "Is the exporter running, and is this its port?"
		assert.Equal(t, want, hinted(t, opened(t, []string{server.URL}, nil), want))
	})
}

// The hinted function scrapes the only endpoint. If the logged hint contains the string in the want
// argument, the function returns that string. Otherwise, the function returns the logged hint.
func hinted(t *testing.T, f *fixture, want string) string {
	t.Helper()
	f.scrape(t, 0)
	entries := f.logs.FilterMessage("Scraping the exporter fails").All()
	require.Len(t, entries, 1)
	hint, _ := entries[0].ContextMap()["hint"].(string)
	if strings.Contains(hint, want) && want != "" {
		return want
	}
	return hint
}
