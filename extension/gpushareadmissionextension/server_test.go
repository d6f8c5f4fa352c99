package gpushareadmissionextension

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configtls"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/otelcol-gpu/otelcol-gpu/extension/gpushareadmissionextension/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/certtest"
)

// An extension that listens on a free port, with a client that trusts the extension's certificate.
type running struct {
	*server
	t         *testing.T
	ca        *certtest.Authority
	dir       string // directory that contains the certificate
	client    *http.Client
	telemetry *componenttest.Telemetry
}

func start(t *testing.T, change ...func(*Config)) *running {
	t.Helper()
	r := &running{t: t, ca: certtest.NewAuthority(t), dir: t.TempDir(), telemetry: componenttest.NewTelemetry()}
	cert, key := r.ca.Write(t, r.dir)
	cfg := createDefaultConfig().(*Config)
	cfg.HTTP.NetAddr.Endpoint = "127.0.0.1:0"
	cfg.HTTP.TLS = configoptional.Some(configtls.ServerConfig{Config: configtls.Config{
		CertFile: cert, KeyFile: key, ReloadInterval: time.Nanosecond,
	}})
	for _, c := range change {
		c(cfg)
	}
	require.NoError(t, confmap.Validate(cfg))
	var err error
	r.server, err = newServer(metadatatest.NewSettings(r.telemetry), cfg)
	require.NoError(t, err)
	require.NoError(t, r.Start(t.Context(), componenttest.NewNopHost()))
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.ca.Pool()}}}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		r.client.CloseIdleConnections()
		require.NoError(t, r.Shutdown(ctx))
		require.NoError(t, r.telemetry.Shutdown(ctx))
	})
	return r
}

// post sends a POST request and returns the status and the body of the response.
func (r *running) post(path, contentType, body string) (int, string) {
	r.t.Helper()
	answer, err := r.client.Post("https://"+r.address.String()+path, contentType, strings.NewReader(body))
	require.NoError(r.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(r.t, err)
	return answer.StatusCode, string(data)
}

// The review method sends an AdmissionReview and returns the webhook's response.
func (r *running) review(path, request string) *admissionv1.AdmissionResponse {
	r.t.Helper()
	code, body := r.post(path, "application/json", reviewOf(request))
	require.Equal(r.t, http.StatusOK, code, body)
	var review admissionv1.AdmissionReview
	require.NoError(r.t, json.Unmarshal([]byte(body), &review))
	assert.Equal(r.t, reviewKind, review.TypeMeta)
	require.NotNil(r.t, review.Response)
	assert.EqualValues(r.t, "u-1", review.Response.UID, "the response has the uid of the request")
	return review.Response
}

// reviewOf returns an AdmissionReview as JSON. The argument contains the JSON fields of the
// request, except for the uid and resource fields.
func reviewOf(request string) string {
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","resource":{"version":"v1","resource":"pods"},` + request + `}}`
}

// podOf returns a pod as JSON. The pod has one container with the given requests and limits. If a
// name has no domain, the koordinator.sh domain is added, so "gpu=100" requests koordinator.sh/gpu.
func podOf(requested string) string {
	list := map[string]string{}
	for field := range strings.FieldsSeq(requested) {
		name, quantity, _ := strings.Cut(field, "=")
		if !strings.Contains(name, "/") {
			name = "koordinator.sh/" + name
		}
		list[name] = quantity
	}
	data, _ := json.Marshal(list)
	return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-1"},"spec":{"containers":[{"name":"main","resources":{"requests":` +
		string(data) + `,"limits":` + string(data) + `}}]}}`
}

func creation(requested string) string { return `"operation":"CREATE","object":` + podOf(requested) }

func update(from, to string) string {
	return `"operation":"UPDATE","oldObject":` + podOf(from) + `,"object":` + podOf(to)
}

func TestTheMutatingWebhookRespondsWithAPatch(t *testing.T) {
	r := start(t)
	for request, want := range map[string]string{
		creation("gpu-memory-ratio=200"): `[
			{"op":"add","path":"/spec/containers/0/resources/limits/koordinator.sh~1gpu.shared","value":"2"},
			{"op":"add","path":"/spec/containers/0/resources/requests/koordinator.sh~1gpu.shared","value":"2"}]`,
		creation("nvidia.com/gpu=1"):                           "",
		creation("gpu-memory=4Gi gpu-core=100 gpu.shared=2"):   "",
		creation("gpu=150"):                                    "",
		update("gpu-memory-ratio=200", "gpu-memory-ratio=200"): "",
	} {
		for _, dry := range []string{"", `,"dryRun":true`} {
			answer := r.review(mutatePath, request+dry)
			assert.True(t, answer.Allowed, request)
			if want == "" {
				assert.Empty(t, answer.Patch, request)
				assert.Nil(t, answer.PatchType, request)
				continue
			}
			assert.JSONEq(t, want, string(answer.Patch))
			assert.Equal(t, admissionv1.PatchTypeJSONPatch, *answer.PatchType)
		}
	}
}

func TestTheValidatingWebhookRejectsPodsThatBreakARule(t *testing.T) {
	const missing = `memory_without_shared: container "main": spec.containers[0].resources.requests[koordinator.sh/gpu.shared] is missing: ` +
		`must be at least 1 where koordinator.sh/gpu-memory or koordinator.sh/gpu-memory-ratio is requested`
	enforcing, warning := start(t), start(t, func(cfg *Config) { cfg.Enforce = false })
	for name, c := range map[string]struct {
		request string
		want    []string // parts of the message
	}{
		"a share":                            {creation("gpu-memory=4Gi gpu-core=50 gpu.shared=1"), nil},
		"a vendor's GPU":                     {creation("nvidia.com/gpu=1"), nil},
		"no gpu.shared":                      {creation("gpu-memory=4Gi"), []string{missing}},
		"two rules":                          {creation("gpu-core=50 gpu.shared=1"), []string{"core_without_memory: ", "shared_without_memory: "}},
		"an update that breaks a rule":       {update("gpu-memory=4Gi gpu.shared=1", "gpu-memory=4Gi"), []string{missing}},
		"an update that breaks another rule": {update("gpu-memory=4Gi", "gpu-core=50"), []string{"core_without_memory: "}},
		"an update of a pod that already breaks the rule": {update("gpu-memory=4Gi", "gpu-memory=4Gi"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			answer, warned := enforcing.review(validatePath, c.request), warning.review(validatePath, c.request)
			assert.True(t, warned.Allowed)
			assert.Len(t, warned.Warnings, len(c.want))
			assert.Equal(t, len(c.want) == 0, answer.Allowed)
			assert.Empty(t, answer.Warnings)
			if answer.Allowed {
				assert.Nil(t, answer.Result)
				return
			}
			assert.EqualValues(t, http.StatusForbidden, answer.Result.Code)
			assert.True(t, strings.HasPrefix(answer.Result.Message, "GPU share rules: "), answer.Result.Message)
			for _, part := range c.want {
				assert.Contains(t, answer.Result.Message, part)
				assert.Contains(t, strings.Join(warned.Warnings, "\n"), part)
			}
		})
	}
}

func TestAdditionalResourcesAreGPUsOfVendors(t *testing.T) {
	r := start(t, func(cfg *Config) { cfg.Resources = []string{"example.com/gpu-*"} })
	answer := r.review(validatePath, creation("example.com/gpu-large=1 gpu-memory=4Gi gpu.shared=1"))
	assert.False(t, answer.Allowed)
	assert.Contains(t, answer.Result.Message, "vendor_with_share: ")
}

func TestOtherOperationsAreAccepted(t *testing.T) {
	r := start(t)
	broken := podOf("gpu-core=50")
	for name, request := range map[string]string{
		"a deletion":           `"operation":"DELETE","oldObject":` + broken,
		"a status":             `"operation":"UPDATE","subResource":"status","object":` + broken + `,"oldObject":` + podOf(""),
		"another resource":     `"operation":"CREATE","resource":{"group":"apps","version":"v1","resource":"deployments"},"object":{"kind":"Deployment"}`,
		"an unknown operation": `"operation":"MAKE","object":` + broken,
		"no operation":         `"object":` + broken,
		"a connect operation":  `"operation":"CONNECT","subResource":"exec"`,
	} {
		for _, path := range []string{mutatePath, validatePath} {
			answer := r.review(path, request)
			assert.True(t, answer.Allowed, "%s: %s", path, name)
			assert.Empty(t, answer.Patch, "%s: %s", path, name)
		}
	}
}

func TestAnObjectThatIsNotAPodIsRejected(t *testing.T) {
	r := start(t)
	for request, want := range map[string]string{
		`"operation":"CREATE"`:                                                            "the request has no object",
		`"operation":"CREATE","object":null`:                                              "the request has no object",
		`"operation":"CREATE","object":7`:                                                 "the request's object is not a pod: ",
		`"operation":"CREATE","object":{}`:                                                `the request's object is "" of apiVersion "": must be a Pod of v1`,
		`"operation":"CREATE","object":{"kind":"Pod","apiVersion":"v2"}`:                  `the request's object is "Pod" of apiVersion "v2": must be a Pod of v1`,
		`"operation":"CREATE","object":{"kind":"Pod","apiVersion":"v1","spec":[]}`:        "the request's object is not a pod: ",
		strings.ReplaceAll(creation("gpu=100"), `"100"`, `"much"`):                        "the request's object is not a pod: ",
		`"operation":"UPDATE","object":` + podOf("gpu-core=50"):                           "the request has no oldObject",
		`"operation":"UPDATE","object":` + podOf("gpu-core=50") + `,"oldObject":{"a":[]}`: `the request's oldObject is ""`,
	} {
		for _, path := range []string{mutatePath, validatePath} {
			if path == mutatePath && strings.Contains(request, "UPDATE") {
				continue
			}
			answer := r.review(path, request)
			assert.False(t, answer.Allowed, request)
			assert.EqualValues(t, http.StatusBadRequest, answer.Result.Code)
			assert.Contains(t, answer.Result.Message, want)
		}
	}
}

// For an exponent with seven digits, resource.ParseQuantity takes a second. For an exponent with
// ten digits, resource.ParseQuantity takes hours.
func TestOnlyARequestedQuantityMustHaveAShortExponent(t *testing.T) {
	r := start(t)
	const slow = `"1e-9999999999"`
	pod := func(metadata, spec, container string) string {
		return `"operation":"CREATE","object":{"apiVersion":"v1","kind":"Pod","metadata":{` + metadata + `},"spec":{` + spec + `"containers":[{"name":"main"` + container + `}]}}`
	}
	for name, c := range map[string]struct {
		request string
		refused bool
	}{
		"an annotation":                     {pod(`"annotations":{"learning-rate":`+slow+`}`, "", ""), false},
		"an environment variable":           {pod("", "", `,"env":[{"name":"RATE","value":`+slow+`}]`), false},
		"an argument":                       {pod("", "", `,"args":[`+slow+`]`), false},
		"a quantity that no rule uses":      {pod("", `"volumes":[{"name":"v","emptyDir":{"sizeLimit":`+slow+`}}],`, ""), false},
		"the name of a resource":            {pod("", "", `,"resources":{"requests":{"example.com/type-12345":"1"}}`), false},
		"a request":                         {pod("", "", `,"resources":{"requests":{"koordinator.sh/gpu":`+slow+`}}`), true},
		"a limit":                           {pod("", "", `,"resources":{"limits":{"koordinator.sh/gpu":`+slow+`}}`), true},
		"a request without quotation marks": {pod("", "", `,"resources":{"requests":{"koordinator.sh/gpu":1E-9999999999}}`), true},
		"an init container's request":       {pod("", `"initContainers":[{"name":"i","resources":{"requests":{"cpu":`+slow+`}}}],`, ""), true},
		"the pod's request":                 {pod("", `"resources":{"requests":{"cpu":`+slow+`}},`, ""), true},
		"the overhead":                      {pod("", `"overhead":{"cpu":`+slow+`},`, ""), true},
	} {
		for _, path := range []string{mutatePath, validatePath} {
			answer := r.review(path, c.request)
			if !c.refused {
				assert.True(t, answer.Allowed, "%s: %s: %v", path, name, answer.Result)
				continue
			}
			if assert.False(t, answer.Allowed, "%s: %s", path, name) {
				assert.EqualValues(t, http.StatusBadRequest, answer.Result.Code, name)
				assert.Contains(t, answer.Result.Message, "must have an exponent of at most four digits", name)
			}
		}
	}
}

func TestAnInvalidRequestIsAnError(t *testing.T) {
	r := start(t, func(cfg *Config) { cfg.HTTP.MaxRequestBodySize = 4096 })
	for name, c := range map[string]struct {
		contentType, body string
		code              int
		want              string
	}{
		"another content type": {"text/plain", reviewOf(creation("")), 415, `the Content-Type is "text/plain": must be application/json`},
		"no content type":      {"", reviewOf(creation("")), 415, `the Content-Type is "": must be application/json`},
		"no body":              {"application/json", "", 400, "the body is not an AdmissionReview: "},
		"half a body":          {"application/json", reviewOf(creation(""))[:100], 400, "the body is not an AdmissionReview: "},
		"two bodies":           {"application/json", reviewOf(creation("")) + "{}", 400, "the body is not an AdmissionReview: "},
		"too much":             {"application/json", strings.Repeat(" ", 5000), 413, "the body has more than 4096 bytes: see max_request_body_size"},
		"another version":      {"application/json", strings.Replace(reviewOf(creation("")), "/v1", "/v1beta1", 1), 400, `the body is "AdmissionReview" of apiVersion "admission.k8s.io/v1beta1": must be an AdmissionReview of admission.k8s.io/v1`},
		"another kind":         {"application/json", `{"apiVersion":"v1","kind":"Pod"}`, 400, `the body is "Pod" of apiVersion "v1": must be`},
		"no request":           {"application/json", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`, 400, "the AdmissionReview has no request"},
		"no uid":               {"application/json; charset=utf-8", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`, 400, "the request of the AdmissionReview has no uid"},
	} {
		for _, path := range []string{mutatePath, validatePath} {
			code, body := r.post(path, c.contentType, c.body)
			assert.Equal(t, c.code, code, name)
			assert.Contains(t, body, c.want, name)
		}
	}
	code, _ := r.post("/", "application/json", "{}")
	assert.Equal(t, http.StatusNotFound, code)
	answer, err := r.client.Get("https://" + r.address.String() + mutatePath)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
}

// Returns the values of a self-metric, keyed by the values of the metric's attributes.
func (r *running) counted(metric string) map[string]int64 {
	m, err := r.telemetry.GetMetric("otelcol_extension_gpu_share_admission_" + metric)
	require.NoError(r.t, err)
	counts := map[string]int64{}
	for _, point := range m.Data.(metricdata.Sum[int64]).DataPoints {
		var values []string
		for _, key := range []attribute.Key{"webhook", "rule", "outcome"} {
			if v, ok := point.Attributes.Value(key); ok {
				values = append(values, v.AsString())
			}
		}
		counts[strings.Join(values, " ")] = point.Value
	}
	return counts
}

func TestRequestsAndBrokenRulesAreCounted(t *testing.T) {
	r := start(t)
	twice := strings.Replace(creation("gpu-core=50 gpu.shared=1"), `"containers":[`,
		`"initContainers":[{"name":"init","resources":{"requests":{"koordinator.sh/gpu-core":"50"}}}],"containers":[`, 1)
	r.review(mutatePath, creation("gpu=100"))
	r.review(mutatePath, creation("nvidia.com/gpu=1"))
	r.review(mutatePath, update("", ""))
	r.review(validatePath, creation("gpu-memory=1 gpu.shared=1"))
	r.review(validatePath, twice)
	r.review(validatePath, creation("gpu-core=50"))
	r.post(validatePath, "application/json", "")
	assert.Equal(t, map[string]int64{
		"mutate mutated": 1, "mutate unchanged": 1, "mutate ignored": 1,
		"validate accepted": 1, "validate rejected": 2, "validate invalid": 1,
	}, r.counted("requests"))
	assert.Equal(t, map[string]int64{"core_without_memory rejected": 2, "shared_without_memory rejected": 1}, r.counted("violations"))
	m, err := r.telemetry.GetMetric("otelcol_extension_gpu_share_admission_duration")
	require.NoError(t, err)
	var answered uint64
	for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
		answered += point.Count
	}
	assert.EqualValues(t, 7, answered)

	warning := start(t, func(cfg *Config) { cfg.Enforce = false })
	warning.review(validatePath, creation("gpu-core=50"))
	assert.Equal(t, map[string]int64{"validate warned": 1}, warning.counted("requests"))
	assert.Equal(t, map[string]int64{"core_without_memory warned": 1}, warning.counted("violations"))
}

// In this test, the new certificate is signed by a new CA. Clients that trust only the new CA must
// be able to connect, and clients that trust only the old CA must fail to connect.
func TestAReplacedCertificateIsUsedWithoutARestart(t *testing.T) {
	r := start(t)
	r.review(mutatePath, creation("gpu=100"))
	renewed := certtest.NewAuthority(t)
	renewed.Write(t, r.dir)

	old := r.client
	r.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: renewed.Pool()}}}
	defer r.client.CloseIdleConnections()
	r.review(mutatePath, creation("gpu=100"))
	old.CloseIdleConnections()
	answer, err := old.Post("https://"+r.address.String()+mutatePath, "application/json", strings.NewReader(""))
	if err == nil {
		_ = answer.Body.Close()
	}
	require.ErrorContains(t, err, "certificate")
}

func TestARequestInProgressIsCompletedBeforeTheServerEnds(t *testing.T) {
	r := start(t)
	// With Expect: 100-continue, the client does not send the body until the handler reads it.
	r.client.Transport.(*http.Transport).ExpectContinueTimeout = time.Minute
	body, write := io.Pipe()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+r.address.String()+mutatePath, body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	sent := make(chan error, 1)
	go func() {
		answer, err := r.client.Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		sent <- err
	}()
	_, err = write.Write([]byte(" "))
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- r.http.Shutdown(t.Context()) }()
	// Once the server has started to shut down, it no longer accepts connections.
	require.Eventually(t, func() bool {
		c, err := net.DialTimeout("tcp", r.address.String(), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, 10*time.Second, time.Millisecond)
	_, err = io.Copy(write, bytes.NewReader([]byte(reviewOf(creation("gpu=100")))))
	require.NoError(t, err)
	require.NoError(t, write.Close())
	require.NoError(t, <-sent)
	require.NoError(t, <-ended)
}

func TestWithoutTheCertificateTheExtensionDoesNotStart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.HTTP.NetAddr.Endpoint = "127.0.0.1:0"
	cfg.HTTP.TLS = configoptional.Some(configtls.ServerConfig{Config: configtls.Config{CertFile: "/no/such/file", KeyFile: "/no/such/key"}})
	s, err := newServer(metadatatest.NewSettings(componenttest.NewTelemetry()), cfg)
	require.NoError(t, err)
	require.ErrorContains(t, s.Start(t.Context(), componenttest.NewNopHost()), "/no/such/file")
	require.NoError(t, s.Shutdown(t.Context()))
}
