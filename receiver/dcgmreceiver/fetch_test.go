package dcgmreceiver

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/bearertokenauthextension"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/configopaque"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/extension/extensiontest"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

// The raw function returns a handler that writes the given bytes to the connection instead of an
// HTTP response, and then closes the connection.
func raw(response string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte(response))
		_ = conn.Close()
	}
}

func zipped(body string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(body))
	_ = w.Close()
	return b.Bytes()
}

// gzipped returns a handler that responds with a gzip-compressed body.
func gzipped(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	}
}

// gzippedError returns a handler that responds with an HTTP status and a body that it declares as
// gzip.
func gzippedError(status int, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func TestScrapesThatFail(t *testing.T) {
	small := func(cfg *Config) { cfg.MaxBodySize = 1 << 10 }
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		change  func(*Config)
		outcome outcome
		message string
	}{
		{
			name: "status 500, as 4.8.3 answers when one value is bad",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "collected metric was collected before\n with\tthe same name "+strings.Repeat("x", 1000), http.StatusInternalServerError)
			},
			outcome: outcomeHTTPStatus,
			message: "HTTP status 500 Internal Server Error: collected metric was collected before with the same name xxx",
		},
		{
			name:    "another status without a body",
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
			outcome: outcomeHTTPStatus,
			message: "HTTP status 404 Not Found",
		},
		{
			name: "a status with an endless body",
			handler: func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusBadGateway)
				for r.Context().Err() == nil {
					if _, err := w.Write([]byte("bad gateway\n")); err != nil {
						return
					}
				}
			},
			outcome: outcomeHTTPStatus,
			message: "HTTP status 502 Bad Gateway: bad gateway bad gateway",
		},
		{
			name:    "a status with a gzip body",
			handler: gzippedError(http.StatusUnauthorized, zipped("Unauthorized\n")),
			outcome: outcomeHTTPStatus,
			message: "HTTP status 401 Unauthorized: Unauthorized",
		},
		{
			name:    "a status of a proxy that declares gzip and sends no body",
			handler: gzippedError(http.StatusServiceUnavailable, nil),
			outcome: outcomeHTTPStatus,
			message: "HTTP status 503 Service Unavailable",
		},
		{
			name:    "a status of a proxy that declares gzip and sends text",
			handler: gzippedError(http.StatusUnauthorized, []byte("Unauthorized\n")),
			outcome: outcomeHTTPStatus,
			message: "HTTP status 401 Unauthorized",
		},
		{
			name:    "200 without a body, as during a hot reload",
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
			outcome: outcomeEmpty,
			message: "the body contains no sample",
		},
		{
			name:    "200 with an empty gzip body",
			handler: gzipped(nil),
			outcome: outcomeEmpty,
			message: "the body is empty",
		},
		{
			name:    "200 with comments only",
			handler: serve("# HELP a A.\n# TYPE a gauge\n\n"),
			outcome: outcomeEmpty,
			message: "the body contains no sample",
		},
		{
			name:    "a body shorter than its Content-Length",
			handler: raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + goodBody),
			outcome: outcomeTruncated,
			message: "the body is cut off: unexpected EOF",
		},
		{
			name:    "a body without its last chunk",
			handler: raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(goodBody), goodBody)),
			outcome: outcomeTruncated,
			message: "the body is cut off: unexpected EOF",
		},
		{
			name:    "a body that ends with the connection, in the middle of a line",
			handler: raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + goodBody[:len(goodBody)-2]),
			outcome: outcomeTruncated,
			message: "the connection ended in the middle of a line",
		},
		{
			name:    "a gzip body that is cut off",
			handler: gzipped(zipped(goodBody)[:60]),
			outcome: outcomeTruncated,
			message: "the body is cut off: unexpected EOF",
		},
		{
			name:    "a body that says it is gzip and is not",
			handler: gzipped([]byte(goodBody)),
			outcome: outcomeEncoding,
			message: "cannot decompress the body: gzip: invalid header",
		},
		{
			name:    "a gzip body whose checksum is wrong",
			handler: gzipped(append(zipped(goodBody)[:len(zipped(goodBody))-8], 1, 2, 3, 4, 5, 6, 7, 8)),
			outcome: outcomeEncoding,
			message: "cannot decompress the body: gzip: invalid checksum",
		},
		{
			name: "an encoding that was not requested",
			handler: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "br")
				_, _ = w.Write([]byte(goodBody))
			},
			outcome: outcomeEncoding,
			message: `content encoding "br" was not requested`,
		},
		{
			name:    "a body beyond the limit that says so",
			handler: serve(goodBody + strings.Repeat("# more\n", 200)),
			change:  small,
			outcome: outcomeTooLarge,
			message: "the body is larger than max_body_size (1024 bytes)",
		},
		{
			name: "a body beyond the limit that does not end",
			handler: func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					if _, err := w.Write([]byte(goodBody)); err != nil {
						return
					}
				}
			},
			change:  small,
			outcome: outcomeTooLarge,
			message: "the body is larger than max_body_size (1024 bytes)",
		},
		{
			name:    "a small gzip body that becomes a large one",
			handler: gzipped(zipped(goodBody + strings.Repeat("# more\n", 1<<20))),
			outcome: outcomeTooLarge,
			change:  func(cfg *Config) { cfg.MaxBodySize = 1 << 20 },
			message: "the body is larger than max_body_size (1048576 bytes)",
		},
		{
			name:    "more samples than a body may hold",
			handler: serve(manySeries(300_000)),
			outcome: outcomeTooLarge,
			message: "the body contains more than 262144 samples and labels",
		},
		{
			name:    "more samples than a body may hold, and the body ends with the connection",
			handler: raw("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + manySeries(300_000)),
			outcome: outcomeTooLarge,
			message: "the body contains more than 262144 samples and labels",
		},
		{
			name:    "an HTML page",
			handler: serve("<!DOCTYPE html><html><body>\nsigned_out 1\n</body></html>"),
			outcome: outcomeNotText,
			message: "the response is an HTML page",
		},
		{
			name:    "JSON",
			handler: serve(`{"error": "not here"}`),
			outcome: outcomeNotText,
			message: `no line of the body is a sample: {"error": "not here"}`,
		},
		{
			name:    "bytes that are no text",
			handler: serve("\x08\x96\x01\x12\xff\xfe\x00\x00"),
			outcome: outcomeNotText,
			message: "no line of the body is a sample",
		},
		{
			// About one in ten thousand random 64 KiB bodies contains a line that looks like a
			// sample.
			name:    "something else with a line that looks like a sample",
			handler: serve("q 1\n" + strings.Repeat("\x08\x96\n", 101)),
			outcome: outcomeNotText,
			message: "only 1 of 102 lines of the body could be a sample: q 1",
		},
		{
			name:    "redirects in a circle",
			handler: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/metrics", http.StatusFound) },
			outcome: outcomeRedirect,
			message: "more than 5 redirects",
		},
		{
			name: "a redirect to another host, which would get our credentials",
			handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere.example/metrics", http.StatusFound)
			},
			outcome: outcomeRedirect,
			message: "redirect to another host or from https to http",
		},
		{
			name:    "an answer that is not HTTP",
			handler: raw("SSH-2.0-OpenSSH_9.6\r\n"),
			outcome: outcomeConnect,
			message: "malformed HTTP",
		},
		{
			name:    "a connection that closes without an answer",
			handler: raw(""),
			outcome: outcomeConnect,
			message: "EOF",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			assertScrapeFails(t, opened(t, []string{server.URL}, tt.change), tt.outcome, tt.message)
		})
	}
}

// assertScrapeFails scrapes the only endpoint and checks that the scrape fails. The logged error
// must contain the given message, and the batch must contain only gpu.exporter.up with the value 0.
func assertScrapeFails(t *testing.T, f *fixture, o outcome, message string) {
	t.Helper()
	md := f.scrape(t, 0)
	assert.Equal(t, 1, md.MetricCount(), "a failed scrape has no samples")
	value, url := exporterUpOf(t, md)
	assert.Zero(t, value)
	assert.Equal(t, f.endpoints[0].urlFull, url)
	require.Equal(t, []string{"warn: Scraping the exporter fails"}, messages(f.logs))
	fields := f.logs.All()[0].ContextMap()
	assert.Equal(t, string(o), fields["outcome"])
	text := fields["error"].(string)
	assert.Contains(t, text, message)
	assert.Less(t, len(text), 400)
	assert.NotContains(t, text, "\n")
}

func manySeries(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "m%d 1\n", i)
	}
	return b.String()
}

func TestScrapesOfExportersThatCannotBeReached(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(serve(goodBody))
		server.Close()
		assertScrapeFails(t, opened(t, []string{server.URL}, nil), outcomeConnect, "connection refused")
	})
	t.Run("the name does not resolve", func(t *testing.T) {
		f := opened(t, []string{"http://exporter.invalid:9400"}, nil)
		f.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "exporter.invalid", IsNotFound: true}}
		}
		assertScrapeFails(t, f, outcomeConnect, "lookup exporter.invalid: no such host")
	})
	t.Run("the certificate is signed by an unknown authority", func(t *testing.T) {
		server := httptest.NewTLSServer(serve(goodBody))
		server.Config.ErrorLog = discardLog()
		defer server.Close()
		assertScrapeFails(t, opened(t, []string{server.URL}, nil), outcomeTLS, "certificate")
	})
	t.Run("https request to an http server", func(t *testing.T) {
		server := httptest.NewServer(serve(goodBody))
		defer server.Close()
		url := strings.Replace(server.URL, "http:", "https:", 1)
		assertScrapeFails(t, opened(t, []string{url}, nil), outcomeTLS, "server gave HTTP response to HTTPS client")
	})
	t.Run("a password in the URL is not logged", func(t *testing.T) {
		f := opened(t, []string{"http://user:secret@exporter:9400"}, nil)
		f.transport.DialContext = (&network{}).dial
		assertScrapeFails(t, f, outcomeConnect, "connection refused")
		for _, entry := range f.logs.All() {
			text := fmt.Sprint(entry.Message, entry.ContextMap())
			assert.NotContains(t, text, "secret")
			assert.NotContains(t, text, "user")
		}
		assert.NotContains(t, f.host.Events()[0].Err().Error(), "user")
	})
}

func TestScrapesThatTakeTooLong(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		message string
	}{
		"an exporter that hangs": {
			handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			message: "no response within the timeout",
		},
		"an exporter that sends the body very slowly": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				ticker := time.NewTicker(time.Second)
				defer ticker.Stop()
				for r.Context().Err() == nil {
					_, _ = w.Write([]byte("a 1\n"))
					_ = http.NewResponseController(w).Flush()
					select {
					case <-ticker.C:
					case <-r.Context().Done():
					}
				}
			},
			message: "the body did not arrive within the timeout",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n network
				n.listen(t, "exporter:9400", tt.handler)
				f := opened(t, []string{"http://exporter:9400"}, nil)
				f.transport.DialContext = n.dial
				start := time.Now()
				assertScrapeFails(t, f, outcomeTimeout, tt.message)
				assert.Equal(t, defaultTimeout, time.Since(start))
			})
		})
	}
}

func TestScrapesThatSucceed(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"a plain body": serve(goodBody),
		"a gzip body":  gzipped(zipped(goodBody)),
		"a chunked body without a newline at its end":      raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(goodBody)-1, goodBody[:len(goodBody)-1])),
		"a body with a length and without a newline":       raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(goodBody)-1, goodBody[:len(goodBody)-1])),
		"a body that ends when the connection closes":      raw("HTTP/1.0 200 OK\r\n\r\n" + goodBody),
		"a gzip body that ends when the connection closes": raw("HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + string(zipped(goodBody[:len(goodBody)-1]))),
		"invalid lines and valid lines":                    serve("bad line\n" + goodBody + "DCGM_FI_DEV_BRAND{gpu=\"0\"} NVIDIA\n"),
		"an unknown content type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ";;")
			_, _ = w.Write([]byte(goodBody))
		},
		"a redirect on the same host":        redirectOnce,
		"a body of exactly the maximum size": serve(goodBody + "#" + strings.Repeat("x", 1<<10-len(goodBody)-2) + "\n"),
		"the content encoding identity": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "identity")
			_, _ = w.Write([]byte(goodBody))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(handler)
			defer server.Close()
			f := opened(t, []string{server.URL}, func(cfg *Config) { cfg.MaxBodySize = 1 << 10 })
			for range 3 {
				md := f.scrape(t, 0)
				assert.Equal(t, 3, md.MetricCount())
				value, _ := exporterUpOf(t, md)
				assert.EqualValues(t, 1, value)
			}
			assert.Empty(t, messages(f.logs))
			assert.Empty(t, f.host.Statuses())
		})
	}
}

func TestScrapesOverTLS(t *testing.T) {
	server := httptest.NewTLSServer(serve(goodBody))
	defer server.Close()
	f := opened(t, []string{server.URL}, func(cfg *Config) { cfg.HTTP.TLS.InsecureSkipVerify = true })
	value, _ := exporterUpOf(t, f.scrape(t, 0))
	assert.EqualValues(t, 1, value)
}

func redirectOnce(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/metrics" {
		http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
		return
	}
	_, _ = w.Write([]byte(goodBody))
}

func TestTheRequest(t *testing.T) {
	requests := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		_, _ = w.Write([]byte(goodBody))
	}))
	defer server.Close()
	url := strings.Replace(server.URL, "http://", "http://user:secret@", 1)
	f := opened(t, []string{url + "/node/7/metrics?a=b"}, func(cfg *Config) {
		cfg.HTTP.Headers = configopaque.MapList{{Name: "X-Tenant", Value: "gpu"}}
	})
	_, urlFull := exporterUpOf(t, f.scrape(t, 0))
	assert.Equal(t, server.URL+"/node/7/metrics?a=b", urlFull, "url.full contains no credentials")
	r := <-requests
	assert.Equal(t, http.MethodGet, r.Method)
	assert.Equal(t, "/node/7/metrics?a=b", r.URL.String())
	assert.Equal(t, "gzip", r.Header.Get("Accept-Encoding"))
	assert.True(t, strings.HasPrefix(r.Header.Get("Accept"), "text/plain;version=0.0.4"))
	assert.Equal(t, "otelcol-gpu/1.2.3", r.Header.Get("User-Agent"))
	assert.Equal(t, "gpu", r.Header.Get("X-Tenant"))
	user, password, ok := r.BasicAuth()
	assert.True(t, ok)
	assert.Equal(t, "user:secret", user+":"+password)
}

func TestRequestsGoThroughTheConfiguredProxy(t *testing.T) {
	asked := make(chan string, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI
		_, _ = w.Write([]byte(goodBody))
	}))
	defer proxy.Close()
	f := opened(t, []string{"http://exporter.invalid:9400/metrics"}, func(cfg *Config) { cfg.HTTP.ProxyURL = proxy.URL })
	isUp, _ := exporterUpOf(t, f.scrape(t, 0))
	assert.EqualValues(t, 1, isUp)
	assert.Equal(t, "http://exporter.invalid:9400/metrics", <-asked)
}

// The extensions type is a component host that has the given extensions.
type extensions map[component.ID]component.Component

func (e extensions) GetExtensions() map[component.ID]component.Component { return e }

func TestRequestsCarryTheTokenOfAnAuthExtension(t *testing.T) {
	tokens := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization")
		_, _ = w.Write([]byte(goodBody))
	}))
	defer server.Close()
	factory := bearertokenauthextension.NewFactory()
	id := component.NewID(factory.Type())
	cfg := factory.CreateDefaultConfig().(*bearertokenauthextension.Config)
	cfg.BearerToken = "secret"
	auth, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), cfg)
	require.NoError(t, err)
	require.NoError(t, auth.Start(t.Context(), componenttest.NewNopHost()))
	defer func() { require.NoError(t, auth.Shutdown(context.Background())) }()

	f := newFixture(t, []string{server.URL}, func(cfg *Config) {
		cfg.HTTP.Auth = configoptional.Some(configauth.Config{AuthenticatorID: id})
	})
	f.host = statustest.Around(extensions{id: auth})
	require.NoError(t, f.open(t.Context(), f.host))
	isUp, _ := exporterUpOf(t, f.scrape(t, 0))
	assert.EqualValues(t, 1, isUp)
	assert.Equal(t, "Bearer secret", <-tokens)
}

func TestOneConnectionServesAllScrapesOfAnEndpoint(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"that succeed": serve(goodBody),
		"that fail":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
	} {
		t.Run(name, func(t *testing.T) {
			peers := map[string]bool{}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				peers[r.RemoteAddr] = true
				handler(w, r)
			}))
			defer server.Close()
			f := opened(t, []string{server.URL}, nil)
			for range 3 {
				f.scrape(t, 0)
			}
			assert.Len(t, peers, 1)
		})
	}
}

// To the HTTP client, a proxy in front of many exporters looks like a single host.
func TestEachEndpointOfAHostKeepsAConnection(t *testing.T) {
	const endpoints = 5
	var (
		mu    sync.Mutex
		peers = map[string]bool{}
		round sync.WaitGroup
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		peers[r.RemoteAddr] = true
		mu.Unlock()
		round.Done()
		round.Wait() // the scrapes are concurrent, so each scrape needs a separate connection
		serve(goodBody)(w, r)
	}))
	defer server.Close()
	var urls []string
	for i := range endpoints {
		urls = append(urls, fmt.Sprintf("%s/nodes/%d/metrics", server.URL, i))
	}
	f := opened(t, urls, nil)
	for range 3 {
		round.Add(endpoints)
		var scrapes sync.WaitGroup
		for _, e := range f.endpoints {
			scrapes.Go(func() { e.scrape(t.Context(), t.Context()) })
		}
		scrapes.Wait()
	}
	assert.Len(t, peers, endpoints)
}
