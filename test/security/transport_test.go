package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certificate is one for 127.0.0.1 that vouches for itself, and its files.
type certificate struct {
	tls.Certificate
	pool      *x509.CertPool
	cert, key string
}

func newCertificate(t *testing.T) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "otelcol-gpu test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	dir := t.TempDir()
	c := certificate{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	require.NoError(t, os.WriteFile(c.cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(c.key, keyPEM, 0o600))
	require.True(t, c.pool.AppendCertsFromPEM(certPEM))
	c.Certificate, err = tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	return c
}

// server starts an HTTPS server.
func (c certificate) server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// ask sends one request and returns the status, and the beginning of the answer.
func (c certificate) ask(t *testing.T, method, url string, credentials func(*http.Request)) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	credentials(request)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12},
	}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body := make([]byte, 64)
	n, err := answer.Body.Read(body) // not to its end, which /events has not
	if n == 0 {
		require.ErrorIs(t, err, io.EOF)
	}
	return answer.StatusCode, string(body[:n])
}

func nothing(*http.Request) {}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func basic(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

func TestTLSAndAuthenticationHoldOnEveryConnection(t *testing.T) {
	own := newCertificate(t)
	var refused atomic.Int64
	exporter := own.server(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer exporter-token" {
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\"} 7\n")
	})
	var arrived atomic.Int64
	backend := own.server(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "agent" || password != "backend-password" {
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		arrived.Add(1)
	})
	htpasswd := filepath.Join(t.TempDir(), "htpasswd")
	require.NoError(t, os.WriteFile(htpasswd, []byte("reader:page-password\n"), 0o600))
	bearerPage, basicPage, intake := freeAddress(t), freeAddress(t), freeAddress(t)
	c := start(t, command(t, map[string]string{
		"EXPORTER": exporter.URL, "EXPORTER_TOKEN": "exporter-token", "BACKEND": backend.URL, "BACKEND_PASSWORD": "backend-password",
		"PAGE_TOKEN": "page-token", "HTPASSWD": htpasswd, "INTAKE_TOKEN": "intake-token",
		"BEARER_PAGE": bearerPage, "BASIC_PAGE": basicPage, "INTAKE": intake,
		"CA": own.cert, "CERT": own.cert, "KEY": own.key,
	}, "--config", "testdata/guarded.yaml"))

	c.until(t, "what the exporter said", func() bool { return arrived.Load() > 0 })
	assert.Zero(t, refused.Load(), "requests without the credentials that belong to them")

	for _, listener := range []struct {
		name, method, address string
		paths                 []string
		right                 func(*http.Request)
		status                int // of the right credentials
		wrong                 map[string]func(*http.Request)
	}{
		{
			"the page with a token", http.MethodGet, bearerPage,
			[]string{"/", "/app.js", "/api/devices", "/events", "/allocation", "/allocation.schema.json"},
			bearer("page-token"), http.StatusOK,
			map[string]func(*http.Request){"none": nothing, "another": bearer("intake-token"), "another kind": basic("reader", "page-password")},
		},
		{
			"the page with a password", http.MethodGet, basicPage,
			[]string{"/", "/app.js", "/api/devices", "/events", "/allocation", "/allocation.schema.json"},
			basic("reader", "page-password"), http.StatusOK,
			map[string]func(*http.Request){"none": nothing, "another": basic("reader", "x"), "nobody's": basic("agent", "page-password")},
		},
		{
			"the intake", http.MethodPost, intake,
			[]string{"/v1/metrics"},
			bearer("intake-token"), http.StatusUnsupportedMediaType,
			map[string]func(*http.Request){"none": nothing, "another": bearer("page-token")},
		},
	} {
		t.Run(listener.name, func(t *testing.T) {
			for _, path := range listener.paths {
				status, _ := own.ask(t, listener.method, "https://"+listener.address+path, listener.right)
				assert.Equal(t, listener.status, status, path)
				for name, credentials := range listener.wrong {
					status, _ := own.ask(t, listener.method, "https://"+listener.address+path, credentials)
					assert.Equal(t, http.StatusUnauthorized, status, "%s with %s", path, name)
				}
				status, said := own.ask(t, listener.method, "http://"+listener.address+path, listener.right)
				assert.Equal(t, http.StatusBadRequest, status, "%s without TLS", path)
				assert.True(t, strings.HasPrefix(said, "Client sent an HTTP request to an HTTPS server."), said)
			}
		})
	}
	c.stop(t)
}

// A server that shows a certificate of another authority gets no credentials.
func TestCredentialsGoToNobodyElse(t *testing.T) {
	own, other := newCertificate(t), newCertificate(t)
	var asked atomic.Int64
	impostor := other.server(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	htpasswd := filepath.Join(t.TempDir(), "htpasswd")
	require.NoError(t, os.WriteFile(htpasswd, []byte("reader:page-password\n"), 0o600))
	c := start(t, command(t, map[string]string{
		"EXPORTER": impostor.URL, "EXPORTER_TOKEN": "exporter-token", "BACKEND": impostor.URL, "BACKEND_PASSWORD": "backend-password",
		"PAGE_TOKEN": "page-token", "HTPASSWD": htpasswd, "INTAKE_TOKEN": "intake-token",
		"BEARER_PAGE": freeAddress(t), "BASIC_PAGE": freeAddress(t), "INTAKE": freeAddress(t),
		"CA": own.cert, "CERT": own.cert, "KEY": own.key,
	}, "--config", "testdata/guarded.yaml"))
	for _, failure := range []string{"Scraping the exporter fails", "Exporting failed"} {
		c.until(t, failure, func() bool { return strings.Contains(c.output.String(), failure) })
	}
	assert.Contains(t, c.output.String(), "certificate")
	assert.Zero(t, asked.Load())
}
