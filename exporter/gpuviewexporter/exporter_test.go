package gpuviewexporter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configauth"
	"go.opentelemetry.io/collector/config/confighttp"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The serve function starts an exporter on a free loopback port. The exporter stops at the end of
// the test.
func serve(t testing.TB, set exporter.Settings, with func(*Config)) (e *viewExporter, base string) {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	cfg.HTTP.NetAddr.Endpoint = "127.0.0.1:0"
	if with != nil {
		with(cfg)
	}
	e, err := newViewExporter(set, cfg)
	require.NoError(t, err)
	e.documents.age = 0 // Make each change visible immediately.
	require.NoError(t, e.start(t.Context(), componenttest.NewNopHost()))
	t.Cleanup(func() { require.NoError(t, e.shutdown(context.Background())) })
	return e, "http://" + e.address.String()
}

func nop() exporter.Settings { return exportertest.NewNopSettings(metadata.Type) }

// The client function returns an HTTP client whose connections are closed at the end of the test.
func client(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func get(t testing.TB, url string) (status int, header http.Header, body []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	answer, err := client(t).Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, answer.Header, body
}

func consume(t testing.TB, e *viewExporter, md pmetric.Metrics) {
	t.Helper()
	md.MarkReadOnly()
	require.NoError(t, e.consume(t.Context(), md))
}

// The now function returns the current time in whole seconds, which tests use as the end of the
// newest window.
func now() time.Time { return time.Now().Truncate(time.Second) }

func TestAnAllocationIsServed(t *testing.T) {
	e, base := serve(t, nop(), nil)
	consume(t, e, fleet(now(), time.Minute, 8, true))
	for aggregate, want := range map[string]int{"container": 10, "pod": 10, "namespace": 3, "claim": 2, "node": 1, "device": 11} {
		status, header, body := get(t, base+"/allocation?window=10m&aggregate="+aggregate)
		require.Equal(t, http.StatusOK, status)
		assert.Equal(t, "application/json", header.Get("Content-Type"))
		assertSchema(t, body)
		var answer struct{ Data []map[string]any }
		require.NoError(t, json.Unmarshal(body, &answer))
		assert.Len(t, answer.Data[0], want, aggregate)
	}
}

// The series of a batch job repeat the values of the device series. Like device series, the series
// of a batch job do not belong to a pod.
func TestJobSeriesAreNotDeviceSeries(t *testing.T) {
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute).onNode("n1").device("GPU-1").addPoint(signal.UtilizationAvg, 0.5)
	b.onNode("n1").device("GPU-2").addPoint(signal.UtilizationAvg, 0.5)
	b.rm.Resource().Attributes().PutStr(signal.HPCJobID, "4711")
	consume(t, e, b.md)
	_, _, body := get(t, base+"/allocation?window=10m&aggregate=device")
	assert.Contains(t, string(body), "GPU-1")
	assert.NotContains(t, string(body), "GPU-2")
}

func TestInvalidParameterIsReported(t *testing.T) {
	_, base := serve(t, nop(), nil)
	status, _, body := get(t, base+"/allocation?window=3h")
	assert.Equal(t, http.StatusBadRequest, status)
	assert.JSONEq(t, `{"code": 400, "message": "window must be a duration in s, m, h or d such as 10m, from 1s to 2h, the retention, got \"3h\"",
		"parameter": "window", "value": "3h", "allowed": "a duration in s, m, h or d such as 10m, from 1s to 2h, the retention"}`, string(body))
}

func TestSummaryIsServedOnlyIfEnabled(t *testing.T) {
	_, base := serve(t, nop(), nil)
	status, _, _ := get(t, base+"/stats/summary")
	assert.Equal(t, http.StatusNotFound, status)
	e, base := serve(t, nop(), func(c *Config) { c.StatsSummary = true })
	consume(t, e, fleet(now(), time.Minute, 16, false))
	status, _, body := get(t, base+"/stats/summary?node=gpu-node-01")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, string(body), `"nodeName":"gpu-node-01"`)
	for _, query := range []string{"", "?node=gpu-node-01&node=gpu-node-00"} {
		status, _, body = get(t, base+"/stats/summary"+query)
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, string(body), "node must be")
	}
}

func TestPageMayNotLoadFromOtherSites(t *testing.T) {
	_, base := serve(t, nop(), nil)
	for _, path := range []string{"/", "/app.js", "/app.css", "/favicon.svg", "/allocation.schema.json", "/api/devices"} {
		status, header, body := get(t, base+path)
		assert.Equal(t, http.StatusOK, status, path)
		assert.Contains(t, header.Get("Content-Security-Policy"), "default-src 'self'", path)
		assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"), path)
		assert.NotEmpty(t, body, path)
	}
}

// A website can make its own host name resolve to a loopback address (DNS rebinding). After DNS
// rebinding, the browser treats the exporter as part of the website, and only the Host header
// reveals that a request was meant for the website.
func TestOnLoopbackOnlyLocalNamesAreServed(t *testing.T) {
	ask := func(base, host string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/devices", http.NoBody)
		require.NoError(t, err)
		request.Host = host
		answer, err := client(t).Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	for endpoint, hosts := range map[string]map[string]int{
		"127.0.0.1:0": {
			"localhost": http.StatusOK, "LOCALHOST:9411": http.StatusOK, "localhost.:9411": http.StatusOK,
			"127.0.0.1:9411": http.StatusOK, "127.9.9.9": http.StatusOK, "[::1]:9411": http.StatusOK, "[::1]": http.StatusOK,
			"[::ffff:127.0.0.1]:9411": http.StatusOK,
			"rebound.example":         http.StatusMisdirectedRequest, "rebound.example:9411": http.StatusMisdirectedRequest,
			"localhost.example:9411": http.StatusMisdirectedRequest, "127.0.0.1.example": http.StatusMisdirectedRequest,
			"192.168.0.1:9411": http.StatusMisdirectedRequest, "0.0.0.0:9411": http.StatusMisdirectedRequest,
		},
		// An exporter that listens on a non-loopback address cannot know all of its host names.
		"0.0.0.0:0": {"gpu-view.monitoring.svc:9411": http.StatusOK},
	} {
		e, _ := serve(t, nop(), func(c *Config) { c.HTTP.NetAddr.Endpoint = endpoint })
		_, port, err := net.SplitHostPort(e.address.String())
		require.NoError(t, err)
		for host, want := range hosts {
			assert.Equal(t, want, ask("http://127.0.0.1:"+port, host), "%s asked of %s", host, endpoint)
		}
	}
}

func TestRequestsThatWriteAreRefused(t *testing.T) {
	_, base := serve(t, nop(), nil)
	for _, path := range []string{"/", "/allocation", "/api/devices"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader("{}"))
		require.NoError(t, err)
		answer, err := client(t).Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode, path)
	}
}

func TestWasteIsQueriedByGroup(t *testing.T) {
	e, base := serve(t, nop(), nil)
	at := now()
	for i := range 61 { // one of the two pods is idle for part of the time
		b := newBatch(at.Add(time.Duration(i-60)*time.Minute), time.Minute)
		b.onNode("n", "team", "sleeps", "main").device("GPU-1").addPoint(signal.K8sContainerGPUAllocatedTime, 60*float64(i), "false").addPoint(signal.K8sContainerGPUIdleTime, 60*float64(i), "false")
		b.onNode("n", "team", "unknown", "main").device("GPU-2").addPoint(signal.K8sContainerGPUAllocatedTime, 60*float64(i), "false")
		b.onNode("n", "team", "uncounted", "main").device("GPU-3").addPoint(signal.UtilizationAvg, 0)
		consume(t, e, b.md)
	}
	for by, want := range map[string]string{
		"workload":  `[{"name": "team/Pod/sleeps", "devices": 1, "allocated": 1, "idle": 1, "since": %[1]d}, {"name": "team/Pod/unknown", "devices": 1, "allocated": 1}]`,
		"namespace": `[{"name": "team", "devices": 2, "allocated": 2, "idle": 1}]`,
		"node":      `[{"name": "n", "devices": 2, "allocated": 2, "idle": 1}]`,
	} {
		status, _, body := get(t, base+"/api/waste?by="+by)
		require.Equal(t, http.StatusOK, status)
		var answer struct{ Groups, Holders, Total json.RawMessage }
		require.NoError(t, json.Unmarshal(body, &answer))
		begun := at.Add(-time.Hour).Unix()
		if by == "workload" {
			want = fmt.Sprintf(want, begun)
		}
		assert.JSONEq(t, want, string(answer.Groups), by)
		assert.JSONEq(t, `{"name": "", "devices": 0, "allocated": 2, "idle": 1}`, string(answer.Total), by)
		assert.JSONEq(t, fmt.Sprintf(`[{"name": "team/sleeps", "devices": 1, "allocated": 1, "idle": 1, "since": %d}]`, begun), string(answer.Holders), by)
	}
	for _, query := range []string{"", "?by=pod", "?by="} {
		status, _, body := get(t, base+"/api/waste"+query)
		assert.Equal(t, http.StatusBadRequest, status, query)
		assert.Contains(t, string(body), "by must be workload, namespace, claim or node")
	}
}

func TestEveryPointIsCountedOnce(t *testing.T) {
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := nop()
	set.TelemetrySettings = tel.NewTelemetrySettings()
	e, _ := serve(t, set, func(c *Config) { c.MaxDevices = 1 })
	b := newBatch(now(), time.Minute).onNode("node-1").
		device("GPU-a").addPoint(signal.UtilizationAvg, 1).addPoint(signal.GPUPipeActive, 1, "tensor").
		device("GPU-b").addPoint(signal.UtilizationAvg, 1)
	ended := b.rm.ScopeMetrics().At(0).Metrics().AppendEmpty()
	ended.SetName(signal.UtilizationAvg.Name)
	ended.SetEmptyGauge().DataPoints().AppendEmpty().SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	histogram := b.rm.ScopeMetrics().At(0).Metrics().AppendEmpty()
	histogram.SetEmptyHistogram().DataPoints().AppendEmpty()
	consume(t, e, b.md)
	consume(t, e, newBatch(now().Add(-3*time.Hour), time.Minute).onNode("node-1").device("GPU-a").addPoint(signal.UtilizationAvg, 1).md)
	consume(t, e, newBatch(now().Add(time.Hour), time.Minute).onNode("node-1").device("GPU-a").addPoint(signal.UtilizationAvg, 1).md)
	var want []metricdata.DataPoint[int64]
	for outcome, n := range map[string]int64{"accepted": 1, "ignored": 2, "no_value": 1, "refused": 1, "old": 1, "future": 1} {
		want = append(want, metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("outcome", outcome))})
	}
	metadatatest.AssertEqualExporterGpuViewPoints(t, tel, want, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualExporterGpuViewDevices(t, tel, []metricdata.DataPoint[int64]{{Value: 1}}, metricdatatest.IgnoreTimestamp())
	metadatatest.AssertEqualExporterGpuViewHolders(t, tel, []metricdata.DataPoint[int64]{{Value: 0}}, metricdatatest.IgnoreTimestamp())
}

// A faulty source may multiply a value by 100 even though the value is already a percentage, or may
// send the raw bits of a counter.
func TestImplausibleRatioIsNotShown(t *testing.T) {
	tel := componenttest.NewTelemetry()
	t.Cleanup(func() { require.NoError(t, tel.Shutdown(context.Background())) })
	set := nop()
	set.TelemetrySettings = tel.NewTelemetrySettings()
	e, base := serve(t, set, nil)
	consume(t, e, newBatch(now(), time.Minute).onNode("node-1").
		device("GPU-a").addPoint(signal.UtilizationAvg, 1.4e16).addPoint(signal.UtilizationMax, 1.4e16).addPoint(signal.SMActiveAvg, 1.004).md)
	_, _, body := get(t, base+"/allocation?window=10m&aggregate=device")
	assert.NotContains(t, string(body), "e+16")
	var want []metricdata.DataPoint[int64]
	for outcome, n := range map[string]int64{"accepted": 1, "ignored": 0, "no_value": 0, "refused": 0, "old": 0, "future": 0, "implausible": 2, "clamped": 1} {
		want = append(want, metricdata.DataPoint[int64]{Value: n, Attributes: attribute.NewSet(attribute.String("outcome", outcome))})
	}
	metadatatest.AssertEqualExporterGpuViewPoints(t, tel, want, metricdatatest.IgnoreTimestamp())
}

func TestMetricsFromAFastClockAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	set := nop()
	set.Logger = zap.New(core)
	e, err := newViewExporter(set, createDefaultConfig().(*Config))
	require.NoError(t, err)
	for i := range 3 {
		consume(t, e, fleet(now().Add(50*time.Second+time.Duration(i)*time.Second), time.Minute, 8, false))
	}
	require.Zero(t, logs.Len())
	for i := range 3 {
		consume(t, e, fleet(now().Add(time.Hour+time.Duration(i)*time.Second), time.Minute, 8, false))
	}
	require.Equal(t, 1, logs.Len())
	assert.Contains(t, logs.All()[0].Message, "more than a minute ahead")
}

func TestEndpointInUseFailsTheStart(t *testing.T) {
	e, _ := serve(t, nop(), nil)
	cfg := createDefaultConfig().(*Config)
	cfg.HTTP.NetAddr.Endpoint = e.address.String()
	second, err := newViewExporter(nop(), cfg)
	require.NoError(t, err)
	require.ErrorContains(t, second.start(t.Context(), componenttest.NewNopHost()), "address already in use")
	require.NoError(t, second.shutdown(t.Context()))
}

func TestAnAuthExtensionThatDoesNotExistFailsTheStart(t *testing.T) {
	cfg := createDefaultConfig().(*Config)
	cfg.HTTP.NetAddr.Endpoint = "127.0.0.1:0"
	cfg.HTTP.Auth = configoptional.Some(confighttp.AuthConfig{Config: configauth.Config{AuthenticatorID: component.MustNewID("nobody")}})
	e, err := newViewExporter(nop(), cfg)
	require.NoError(t, err)
	require.ErrorContains(t, e.start(t.Context(), componenttest.NewNopHost()), "nobody")
	require.NoError(t, e.shutdown(t.Context()))
}

func TestShutdownIsSafeWithoutStartAndTwice(t *testing.T) {
	e, err := NewFactory().CreateMetrics(t.Context(), nop(), createDefaultConfig())
	require.NoError(t, err)
	require.NoError(t, e.Shutdown(t.Context()))
	require.NoError(t, e.Shutdown(t.Context()))
}
