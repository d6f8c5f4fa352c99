package examples

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// The collector can send data to Prometheus in three ways. Each test uses a real Prometheus server
// and follows the same steps. First, windows for devices and containers arrive. Next, all series
// end. Finally, all series return. Prometheus must have stored every point that the collector sent,
// under the name in docs/signals.md, and must not have rejected anything.

// everything is a selector that matches all series in Prometheus.
const everything = `{__name__=~".+"}`

// runToPrometheus sends data to Prometheus' OTLP endpoint through a proxy that records the points.
func runToPrometheus(t *testing.T, files, set []string) {
	t.Helper()
	server := startPrometheus(t, "")
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	sent := processtest.StartBackend(t, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{DisableKeepAlives: true},
	})
	set = join(set, []string{
		"processors.gpu_window.start_timestamp=false",
		"processors.gpu_window.flat_attributes=true",
		"service.pipelines.metrics/fed.exporters=[otlp_http]",
	})
	throughPrometheus(t, server, sent, files, set, map[string]string{"OTLP_ENDPOINT": sent.URL + "/api/v1/otlp"})

	for p := range points.All(sent.All()) {
		if p.Metric.Type() == pmetric.MetricTypeGauge {
			assert.Zero(t, p.StartTimestamp(), "%s: the start of a window would become a sample", p.Metric.Name())
		}
	}
	checkStored(t, server, sent.All())
}

// runRemoteWrite sends data to Prometheus' remote write endpoint.
func runRemoteWrite(t *testing.T, files, set []string) {
	t.Helper()
	server, sent := startPrometheus(t, ""), processtest.StartBackend(t, nil)
	throughPrometheus(t, server, sent, files, join(set, alsoTo(sent, "prometheus_remote_write")),
		map[string]string{"REMOTE_WRITE_ENDPOINT": server.URL + "/api/v1/write"})
	checkStored(t, server, sent.All())
}

// runToScrapingPrometheus makes Prometheus scrape the prometheus exporter's page. The number of
// samples depends on when Prometheus scrapes. Prometheus must have stored all samples from all
// scrapes, and all series that were sent to the exporter.
func runToScrapingPrometheus(t *testing.T, files, set []string) {
	t.Helper()
	listen := processtest.FreeAddress(t)
	server := startPrometheus(t, fmt.Sprintf(`
scrape_configs:
  - job_name: windows
    scrape_interval: 1s
    scrape_timeout: 1s
    static_configs: [{targets: [%q]}]
`, listen))
	sent := processtest.StartBackend(t, nil)
	set = join(set, alsoTo(sent, "prometheus"), []string{"exporters.prometheus.metric_expiration=" + (5 * windowLength / 2).String()})
	throughPrometheus(t, server, sent, files, set,
		map[string]string{"PROMETHEUS_LISTEN": listen}, listen)

	onPages, stored := 0.0, 0
	names := map[string]bool{}
	for _, series := range server.stored(t) {
		name := series.Metric["__name__"]
		switch {
		case name == "scrape_samples_scraped":
			for _, sample := range series.Values {
				onPages += (&storedSeries{Value: sample}).last(t)
			}
		case name == "up" || strings.HasPrefix(name, "scrape_"):
		default:
			stored += len(series.Values)
			names[name] = true
		}
	}
	assert.InDelta(t, onPages, stored, 0, "samples stored for those on the pages")
	assert.ElementsMatch(t, slices.Collect(maps.Keys(valuesSent(t, sent.All()))), slices.Collect(maps.Keys(names)))

	series := 0
	for _, labels := range server.series(t) {
		if name := labels["__name__"]; name != "up" && !strings.HasPrefix(name, "scrape_") {
			series++
		}
	}
	assert.Equal(t, len(lastPoints(sent.All())), series, "series stored for those sent")
}

// alsoTo returns settings that also send the exporter's input to a sink, which records the points.
// The additional exporter has no storage, so that its queue is empty after the collector has
// stopped.
func alsoTo(sent *processtest.Backend, exporter string) []string {
	return []string{
		"exporters.otlp_http/sent.endpoint=" + sent.URL,
		"service.pipelines.metrics.exporters=[" + exporter + ",otlp_http/sent]",
		"service.pipelines.metrics/fed.exporters=[" + exporter + ",otlp_http/sent]",
	}
}

// throughPrometheus runs the collector with series that start, end, and return, and waits until the
// collector has sent everything and has stopped.
func throughPrometheus(t *testing.T, server *prometheus, sent *processtest.Backend, files, set []string, env map[string]string, listens ...string) {
	t.Helper()
	exporter := processtest.FreeAddress(t)
	simulator := processtest.StartSimulator(t, exporter)
	feed, telemetry := &containers{address: processtest.FreeAddress(t)}, processtest.FreeAddress(t)
	// The test's own series go through a separate pipeline, in which gpu_window has the same
	// settings as the receiver's gpu_window stage.
	set = join(set, []string{
		stages + ".gpu_window.idle_timeout=2s", stages + ".gpu_window.max_gap=2s",
		"receivers.otlp.protocols.http.endpoint=" + feed.address,
		"service.pipelines.metrics/fed.receivers=[otlp]",
		"service.pipelines.metrics/fed.processors=[gpu_window]",
		"processors.gpu_window.window=" + windowLength.String(),
		"processors.gpu_window.grace=1s",
		"processors.gpu_window.idle_timeout=2s", "processors.gpu_window.max_gap=2s",
	})
	env = agentEnv(t, env)
	env["DCGM_ENDPOINT"] = "http://" + exporter + "/metrics"
	env["TELEMETRY_PORT"] = processtest.Port(t, telemetry)
	c := startCollector(t, files, set, env, append(listens, feed.address, telemetry)...)

	arrive := func(what string) {
		processtest.Until(t, what, func() bool {
			feed.send(t)
			return feed.stored(t, server) && liveSeries(t, server) > len(feed.resources())*2
		}, c.Process)
	}
	arrive("windows of devices and containers in Prometheus")
	before := liveSeries(t, server)

	simulator.Kill()
	processtest.Until(t, "the end of every series, sent and stored", func() bool {
		for key, point := range lastPoints(sent.All()) {
			if !point.Flags().NoRecordedValue() && !strings.HasPrefix(key, signal.GPUExporterUp.Name) {
				return false
			}
		}
		return liveSeries(t, server) == 0
	}, c.Process)

	processtest.StartSimulator(t, exporter)
	arrive("the series that came back")
	processtest.Until(t, "as many series as before", func() bool {
		feed.send(t)
		return liveSeries(t, server) >= before
	}, c.Process)

	own := selfMetrics(t, "http://"+telemetry+"/metrics")
	left := 0.0
	for key, value := range own {
		switch name := baseName(key); {
		case strings.HasPrefix(name, "otelcol_exporter_sent_metric_points"):
			left += value
		case strings.HasPrefix(name, "otelcol_exporter_") && strings.Contains(name, "failed"):
			assert.Zero(t, value, key)
		}
	}
	assert.Positive(t, left, "points that the collector reports as sent")
	c.stop(t)
	checkWindows(t, sent.All(), windowLength)
	server.checkNothingRefused(t)
}

// liveSeries returns the number of device and container series that currently have a value.
func liveSeries(t *testing.T, server *prometheus) int {
	t.Helper()
	return len(server.query(t, `{hw_id!=""}`))
}

// checkStored checks that Prometheus stored everything that was sent. checkStored compares the
// number of series, and the number of samples of each metric under the metric's name in
// docs/signals.md.
func checkStored(t *testing.T, server *prometheus, sent pmetric.Metrics) {
	t.Helper()
	stored := map[string]int{}
	for _, series := range server.stored(t) {
		stored[series.Metric["__name__"]] += len(series.Values)
	}
	assert.Equal(t, valuesSent(t, sent), stored, "samples stored for the points sent")
	assert.Len(t, server.series(t), len(lastPoints(sent)), "series stored for those sent")
}

// valuesSent maps each metric's Prometheus name in docs/signals.md to the number of sent points
// that have a value.
func valuesSent(t *testing.T, sent pmetric.Metrics) map[string]int {
	t.Helper()
	rendered, counts := renderedNames(t), map[string]int{}
	for p := range points.All(sent) {
		name, ok := rendered[p.Metric.Name()]
		require.True(t, ok, "docs/signals.md has no %s", p.Metric.Name())
		if !p.Flags().NoRecordedValue() {
			counts[name]++
		}
	}
	return counts
}

// renderedNames returns the Prometheus name of each metric in docs/signals.md.
func renderedNames(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile("../../docs/signals.md")
	require.NoError(t, err)
	names := map[string]string{}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) == 7 && strings.HasPrefix(cells[0], " `") {
			names[strings.Trim(cells[0], " `")] = strings.Trim(cells[6], " `")
		}
	}
	require.NotEmpty(t, names)
	return names
}

// lastPoints returns the most recent point of each series. Points are in different series if they
// differ in anything that Prometheus can use as a label.
func lastPoints(sent pmetric.Metrics) map[string]pmetric.NumberDataPoint {
	last := map[string]pmetric.NumberDataPoint{}
	for p := range points.All(sent) {
		key := fmt.Sprint(p.Metric.Name(), p.Resource.Attributes().AsRaw(), p.Attributes().AsRaw())
		if known, ok := last[key]; !ok || p.Timestamp() >= known.Timestamp() {
			last[key] = p.NumberDataPoint
		}
	}
	return last
}

// containers sends series for a device and for three containers that share the device. Two of the
// containers are in the same pod. All series have the same hw.id and differ only in their Resource.
type containers struct {
	address string // address of the collector's OTLP receiver
}

// occupied is the memory used by a container or by the device as a whole.
type occupied struct {
	pod, container string
	share          float64
}

func (*containers) resources() []occupied {
	return []occupied{
		{"", "", 0.875},
		{"trainer-0", "main", 0.5},
		{"trainer-0", "sidecar", 0.125},
		{"trainer-1", "main", 0.25},
	}
}

func (f *containers) send(t *testing.T) {
	t.Helper()
	now := pcommon.NewTimestampFromTime(time.Now())
	metrics := pmetric.NewMetrics()
	for _, holder := range f.resources() {
		rm := metrics.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr(signal.HostName, "shared-node")
		rm.Resource().Attributes().PutStr(signal.K8sNodeName, "shared-node")
		if holder.pod != "" {
			rm.Resource().Attributes().PutStr("k8s.namespace.name", "training")
			rm.Resource().Attributes().PutStr("k8s.pod.name", holder.pod)
			rm.Resource().Attributes().PutStr("k8s.pod.uid", "uid-of-"+holder.pod)
			rm.Resource().Attributes().PutStr("k8s.container.name", holder.container)
		}
		m := rm.ScopeMetrics().AppendEmpty().Metrics().AppendEmpty()
		m.SetName(signal.HwGPUMemoryUtilization.Name)
		m.SetUnit(signal.HwGPUMemoryUtilization.Unit)
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(now)
		dp.SetDoubleValue(holder.share)
		dp.Attributes().PutStr(signal.HardwareID, sharedDevice)
	}
	body, err := pmetricotlp.NewExportRequestFromMetrics(metrics).MarshalProto()
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.address+"/v1/metrics", bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-protobuf")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return // the receiver is not listening yet; the caller retries until it times out
	}
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

const sharedDevice = "GPU-shared"

// stored reports whether Prometheus has received windows for the device and for each container, and
// checks that each window has the expected value.
func (f *containers) stored(t *testing.T, server *prometheus) bool {
	t.Helper()
	found := server.query(t, `gpu_saturation_memory_utilization_avg_ratio{hw_id="`+sharedDevice+`"}`)
	if len(found) < len(f.resources()) {
		return false
	}
	var got []occupied
	for _, series := range found {
		got = append(got, occupied{series.Metric["k8s_pod_name"], series.Metric["k8s_container_name"], series.last(t)})
	}
	assert.ElementsMatch(t, f.resources(), got)
	// In the simulated exporter's data, several containers must also share a device.
	return len(server.query(t, `count by (hw_id) (gpu_device_holder) > 1`)) > 0
}
