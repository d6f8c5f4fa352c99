package security

import (
	"context"
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
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// certificate is a self-signed certificate for 127.0.0.1 and other names, including the paths of
// the certificate's files.
type certificate struct {
	tls.Certificate
	pool      *x509.CertPool
	cert, key string
}

func newCertificate(t *testing.T, names ...string) certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "otelcol-gpu test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: names,
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

// mounted returns the path of a directory that contains the certificate in the same layout as a
// Secret that the chart mounts.
func (c certificate) mounted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, file := range map[string]string{"tls.crt": c.cert, "tls.key": c.key, "ca.crt": c.cert} {
		require.NoError(t, os.Symlink(file, filepath.Join(dir, name)))
	}
	return dir
}

// server starts an HTTPS server that uses the certificate.
func (c certificate) server(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// request sends a request with the credentials that the prove function adds, and returns the status
// code and the beginning of the response body.
func (c certificate) request(t *testing.T, method, url string, prove func(*http.Request)) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	prove(request)
	client := &http.Client{Timeout: processtest.Patience, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12},
	}}
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body := make([]byte, 64)
	n, err := answer.Body.Read(body)
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

func TestEveryConnectionUsesTLSAndAuthentication(t *testing.T) {
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
	bearerPage, basicPage, intake := processtest.FreeAddress(t), processtest.FreeAddress(t), processtest.FreeAddress(t)
	c := start(t, command(t, map[string]string{
		"EXPORTER": exporter.URL, "EXPORTER_TOKEN": "exporter-token", "BACKEND": backend.URL, "BACKEND_PASSWORD": "backend-password",
		"PAGE_TOKEN": "page-token", "HTPASSWD": htpasswd, "INTAKE_TOKEN": "intake-token",
		"BEARER_PAGE": bearerPage, "BASIC_PAGE": basicPage, "INTAKE": intake,
		"CA": own.cert, "CERT": own.cert, "KEY": own.key,
	}, "--config", "testdata/guarded.yaml"))

	processtest.Until(t, "the exporter's value", func() bool { return arrived.Load() > 0 }, c)
	assert.Zero(t, refused.Load(), "requests without the required credentials")

	for _, listener := range []struct {
		name, method, address string
		paths                 []string
		right                 func(*http.Request)
		status                int // expected status code with the right credentials
		wrong                 map[string]func(*http.Request)
	}{
		{
			"the page with a token", http.MethodGet, bearerPage,
			[]string{"/", "/app.js", "/api/devices", "/allocation", "/allocation.schema.json"},
			bearer("page-token"), http.StatusOK,
			map[string]func(*http.Request){"none": nothing, "another": bearer("intake-token"), "another kind": basic("reader", "page-password")},
		},
		{
			"the page with a password", http.MethodGet, basicPage,
			[]string{"/", "/app.js", "/api/devices", "/allocation", "/allocation.schema.json"},
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
				answered, _ := own.request(t, listener.method, "https://"+listener.address+path, listener.right)
				assert.Equal(t, listener.status, answered, path)
				for name, wrong := range listener.wrong {
					answered, _ := own.request(t, listener.method, "https://"+listener.address+path, wrong)
					assert.Equal(t, http.StatusUnauthorized, answered, "%s with %s", path, name)
				}
				answered, said := own.request(t, listener.method, "http://"+listener.address+path, listener.right)
				assert.Equal(t, http.StatusBadRequest, answered, "%s without TLS", path)
				assert.True(t, strings.HasPrefix(said, "Client sent an HTTP request to an HTTPS server."), said)
			}
		})
	}
	c.Stop(t)
}

// A client must not send credentials to a server with a certificate from another authority.
func TestCredentialsAreSentToNoOtherServer(t *testing.T) {
	own, other := newCertificate(t), newCertificate(t)
	var asked atomic.Int64
	impostor := other.server(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	htpasswd := filepath.Join(t.TempDir(), "htpasswd")
	require.NoError(t, os.WriteFile(htpasswd, []byte("reader:page-password\n"), 0o600))
	c := start(t, command(t, map[string]string{
		"EXPORTER": impostor.URL, "EXPORTER_TOKEN": "exporter-token", "BACKEND": impostor.URL, "BACKEND_PASSWORD": "backend-password",
		"PAGE_TOKEN": "page-token", "HTPASSWD": htpasswd, "INTAKE_TOKEN": "intake-token",
		"BEARER_PAGE": processtest.FreeAddress(t), "BASIC_PAGE": processtest.FreeAddress(t), "INTAKE": processtest.FreeAddress(t),
		"CA": own.cert, "CERT": own.cert, "KEY": own.key,
	}, "--config", "testdata/guarded.yaml"))
	for _, failure := range []string{"Scraping the exporter fails", "Exporting failed"} {
		processtest.Until(t, failure, func() bool { return strings.Contains(c.Output.String(), failure) }, c)
	}
	assert.Contains(t, c.Output.String(), "certificate")
	assert.Zero(t, asked.Load())
}

// The chart's gateways must reject all requests from clients without a certificate from the
// release's authority.
func TestAGatewayOfTheChartAcceptsOnlySamplesOfItsOwnAgents(t *testing.T) {
	const gateway, address = "otelcol-gpu-gateway-0.otelcol-gpu-gateway.otelcol-gpu.svc", "127.0.0.8"
	own, other := newCertificate(t, "*.otelcol-gpu-gateway.otelcol-gpu.svc"), newCertificate(t)
	_, config := configuration(t, filepath.Join(root, "test", "charts", "testdata", "gateways_compute_windows_and_a_page_shows_them", "manifests.yaml"),
		[]string{"data", "gateway.yaml"})
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	config = strings.NewReplacer("/etc/otelcol-gpu-tls", own.mounted(t), "/var/lib/otelcol-gpu", t.TempDir()).Replace(config)
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	c := start(t, command(t, map[string]string{"POD_IP": address, "BACKEND_TOKEN": "token"}, "--config", file,
		"--set", "exporters.otlp_grpc.tls.ca_file=", "--set", "exporters.otlp_grpc.endpoint=127.0.0.1:1", "--set", "exporters.otlp_grpc/view.endpoint=127.0.0.1:1"))

	send := func(by credentials.TransportCredentials) error {
		connection, err := grpc.NewClient(address+":4317", grpc.WithTransportCredentials(by))
		require.NoError(t, err)
		defer connection.Close()
		ctx, cancel := context.WithTimeout(t.Context(), processtest.Patience)
		defer cancel()
		_, err = pmetricotlp.NewGRPCClient(connection).Export(ctx, pmetricotlp.NewExportRequest())
		return err
	}
	settings := func(with ...tls.Certificate) credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{RootCAs: own.pool, Certificates: with, ServerName: gateway, MinVersion: tls.VersionTLS12})
	}
	require.NoError(t, send(settings(own.Certificate)))
	for name, by := range map[string]credentials.TransportCredentials{
		"no certificate":              settings(),
		"one of another authority":    settings(other.Certificate),
		"neither TLS nor credentials": insecure.NewCredentials(),
	} {
		assert.Equal(t, codes.Unavailable, status.Code(send(by)), name)
	}
	c.Stop(t)
}
