package examples

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// prometheus is a running Prometheus server with default flags.
type prometheus struct{ *processtest.Prometheus }

// startPrometheus starts a Prometheus server with the given YAML configuration.
func startPrometheus(t *testing.T, config string) *prometheus {
	t.Helper()
	return &prometheus{processtest.StartPrometheus(t, config)}
}

// storedSeries is a series and its samples in a query response. Prometheus omits staleness markers
// from responses.
type storedSeries struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
	Value  [2]any            `json:"value"`
}

// last returns the value of a series from an instant query.
func (s *storedSeries) last(t *testing.T) float64 {
	t.Helper()
	text, ok := s.Value[1].(string)
	require.True(t, ok, "%v", s.Value)
	value, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return value
}

// query evaluates an expression at the current time.
func (p *prometheus) query(t *testing.T, expression string) []storedSeries {
	t.Helper()
	return p.queryAt(t, expression, time.Now())
}

// stored returns all stored samples, including samples with timestamps in the future. If the
// collector stops during a window, that window is still timestamped with its scheduled end.
func (p *prometheus) stored(t *testing.T) []storedSeries {
	t.Helper()
	return p.queryAt(t, everything+"[1h]", time.Now().Add(time.Minute))
}

func (p *prometheus) queryAt(t *testing.T, expression string, at time.Time) []storedSeries {
	t.Helper()
	var data struct {
		Result []storedSeries `json:"result"`
	}
	values := url.Values{"query": {expression}, "time": {at.Format(time.RFC3339Nano)}}
	p.API(t, "query?"+values.Encode(), &data)
	return data.Result
}

// series returns the label sets of all series, including stale ones.
func (p *prometheus) series(t *testing.T) []map[string]string {
	t.Helper()
	var data []map[string]string
	p.API(t, "series?match[]="+url.QueryEscape(everything), &data)
	return data
}

// checkNothingRefused checks that Prometheus' counters of rejected samples and rejected requests
// are 0.
func (p *prometheus) checkNothingRefused(t *testing.T) {
	t.Helper()
	page := selfMetrics(t, p.URL+"/metrics")
	for _, name := range []string{
		"prometheus_target_scrapes_exceeded_sample_limit_total",
		"prometheus_target_scrapes_sample_duplicate_timestamp_total",
		"prometheus_target_scrapes_sample_out_of_bounds_total",
		"prometheus_target_scrapes_sample_out_of_order_total",
		"prometheus_tsdb_out_of_bound_samples_total",
		"prometheus_tsdb_out_of_order_samples_total",
		"prometheus_tsdb_too_old_samples_total",
	} {
		found := false
		for key, value := range page {
			if baseName(key) == name {
				found = true
				assert.Zero(t, value, key)
			}
		}
		assert.True(t, found, "Prometheus no longer has the metric %s", name)
	}
	answers := 0.0
	for key, value := range page {
		if baseName(key) != "prometheus_http_requests_total" {
			continue
		}
		answers += value
		if !strings.Contains(key, `code="2`) && value > 0 && !strings.Contains(key, `handler="/-/ready"`) {
			assert.Fail(t, "a request was rejected", "%s %v", key, value)
		}
	}
	assert.Positive(t, answers)
}

// selfMetrics reads a page of self-metrics and returns the values. Each key is the metric's name
// and labels, exactly as on the page.
func selfMetrics(t *testing.T, page string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for line := range strings.Lines(processtest.Get(t, page)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		split := strings.LastIndexByte(line, ' ')
		require.Positive(t, split, line)
		value, err := strconv.ParseFloat(line[split+1:], 64)
		require.NoError(t, err, line)
		values[line[:split]] = value
	}
	require.NotEmpty(t, values, page)
	return values
}

func baseName(series string) string {
	name, _, _ := strings.Cut(series, "{")
	return name
}
