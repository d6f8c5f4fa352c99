package security

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// hidden is the prefix of every secret in these tests.
const hidden = "hidden-"

// assertHidden checks that the text does not contain any secret.
func assertHidden(t *testing.T, text, where string) {
	t.Helper()
	for line := range strings.Lines(text) {
		assert.NotContains(t, line, hidden, where)
	}
	for _, user := range []string{"user", "agent", "reader"} {
		// Basic authentication sends credentials in base64. The first 12 bytes of the credentials
		// are enough to recognize them, because base64 encodes these bytes independently of the
		// rest.
		sent := base64.StdEncoding.EncodeToString([]byte(user + ":" + hidden)[:12])
		assert.NotContains(t, text, sent, where)
	}
}

// The configuration contains a secret in every possible setting, debug logging is enabled, and
// servers reject all requests. No secret may appear in logs, pages, telemetry, or the printed
// configuration.
func TestNoSecretLeavesTheProcess(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	var sent processtest.Buffer
	accepting := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&sent, r.Body)
	}))
	t.Cleanup(accepting.Close)
	htpasswd := filepath.Join(t.TempDir(), "htpasswd")
	require.NoError(t, os.WriteFile(htpasswd, []byte("reader:hidden-page-password\n"), 0o600))
	health, telemetry, pprof := processtest.FreeAddress(t), processtest.FreeAddress(t), processtest.FreeAddress(t)
	env := map[string]string{
		"EXPORTER_WITH_PASSWORD": strings.Replace(refusing.URL, "//", "//user:hidden-url-password@", 1),
		"REFUSING":               refusing.URL, "ACCEPTING": accepting.URL, "HEADER": "hidden-backend-header", "HTPASSWD": htpasswd,
		"HEALTH": health, "PPROF": pprof, "TELEMETRY_PORT": processtest.Port(t, telemetry), "PAGE": processtest.FreeAddress(t),
	}
	const config = "testdata/secrets.yaml"

	c := start(t, command(t, env, "--config", config))
	for _, said := range []string{
		`"otelcol.component.id": "dcgm/url"`, "HTTP status 401", "connection refused",
		`"otelcol.component.id": "otlp_http/header"`, `"otelcol.component.id": "otlp_http/basic"`, `"otelcol.component.id": "otlp_http/oauth2"`,
		"gpu.exporter.up",
	} {
		processtest.Until(t, said, func() bool { return strings.Contains(c.Output.String(), said) }, c)
	}
	for _, sort := range []string{"gpu.exporter.up", "receiver/dcgm/url/"} { // self-metrics and spans
		processtest.Until(t, sort, func() bool { return strings.Contains(sent.String(), sort) }, c)
	}
	for _, url := range []string{
		health, telemetry + "/metrics", pprof + "/debug/pprof/cmdline",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+url, http.NoBody)
		require.NoError(t, err)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		answer, err := client.Do(request)
		require.NoError(t, err)
		page, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, url)
		require.NotEmpty(t, page, url)
		assertHidden(t, string(page), url)
	}
	c.Stop(t)
	assertHidden(t, c.Output.String(), "log")
	assertHidden(t, sent.String(), "telemetry")

	for _, subcommand := range []string{"print-config", "validate"} {
		output, err := command(t, env, subcommand, "--config", config).CombinedOutput()
		require.NoError(t, err, "%s", output)
		assertHidden(t, string(output), subcommand)
	}
}

// Error messages about a configuration must not contain secrets.
func TestAnErrorHasNoCredentials(t *testing.T) {
	const pipeline = `
exporters: {debug: {}}
service: {pipelines: {metrics: {receivers: [dcgm], exporters: [debug]}}}
receivers:
  dcgm: `
	for name, tc := range map[string]struct{ settings, want string }{
		"no URL":                  {`{endpoints: ["http://user:hidden-password@[::1"]}`, "not a URL"},
		"another scheme":          {`{endpoints: ["ftp://user:hidden-password@gpu-node-1:9400"]}`, "not an http or https URL"},
		"an address alone":        {`{endpoints: ["user:hidden-password@gpu-node-1:9400"]}`, "not"},
		"a URL for a section":     {`{http: "http://user:hidden-password@gpu-node-1:9400"}`, "http is a text: must be a map"},
		"a list for a header":     {`{http: {headers: {X-Key: [hidden-header]}}}`, "http::headers::X-Key is a list: must be a string in quotes"},
		"no host":                 {`{endpoints: ["http://user:hidden-password@:9400"]}`, "no host"},
		"a port that is none":     {`{endpoints: ["http://user:hidden-password@gpu-node-1:94000"]}`, "not a port"},
		"listed twice":            {`{endpoints: ["http://user:hidden-password@gpu-node-1", "http://gpu-node-1"]}`, "must be listed once"},
		"endpoints and discovery": {`{endpoints: ["http://user:hidden-password@gpu-node-1"], discovery: {}}`, "must be one of them"},
		"a fallback":              {`{discovery: {fallback: "ftp://user:hidden-password@gpu-node-1"}}`, "fallback is"},
		"an endpoint of http":     {`{endpoints: [http://gpu-node-1], http: {endpoint: "http://user:hidden-password@gpu-node-2"}}`, "must not be set"},
		"in addition to a header": {`{endpoints: [http://gpu-node-1], timeout: 0s, http: {headers: {X-Key: hidden-header}}}`, "timeout is 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			require.NoError(t, os.WriteFile(file, []byte(pipeline+tc.settings+"\n"), 0o600))
			output, err := command(t, nil, "validate", "--config", file).CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", output)
			assert.Contains(t, string(output), tc.want)
			assertHidden(t, string(output), name)
		})
	}
	t.Run("gpudoctor", func(t *testing.T) {
		for _, url := range []string{
			"http://user:hidden-password@127.0.0.1:1/metrics", "ftp://user:hidden-password@gpu-node-1", "http://user:hidden-password@[::1",
		} {
			var output bytes.Buffer
			cmd := exec.CommandContext(t.Context(), processtest.Binary(t, "gpudoctor"), url)
			cmd.Stdout, cmd.Stderr = &output, &output
			require.Error(t, cmd.Run())
			assert.NotEmpty(t, output.String())
			assertHidden(t, output.String(), url)
		}
	})
}
