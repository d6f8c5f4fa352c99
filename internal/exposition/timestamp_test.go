package exposition

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// The times function returns each sample's timestamp in milliseconds, or 0 if the sample has no
// timestamp. Each key of the map consists of the metric name and the label values.
func times(sc *Scrape) map[string]int64 {
	out := map[string]int64{}
	for _, set := range sc.Sets {
		for i, s := range set.Samples {
			key := s.Metric.Name
			for _, l := range set.Labels {
				key += " " + l.Value
			}
			out[key] = 0
			if i < len(set.Times) {
				out[key] = set.Times[i] / 1e6
			}
		}
	}
	return out
}

func TestHonoredTimestampsAreTheTimesOfTheSamples(t *testing.T) {
	p := NewParser()
	body := []byte("a{x=\"1\"} 1 1700000000000\nb{x=\"1\"} 2\nc{x=\"1\"} 3 1700000000500.9\na{x=\"2\"} 1\n# TYPE a gauge\nd 4 1700000001000 # {t=\"1\"} 2 3\n")
	assert.Equal(t, map[string]int64{"a 1": 0, "b 1": 0, "c 1": 0, "a 2": 0, "d": 0}, times(p.Parse(body)), "by default timestamps are ignored")

	p.HonorTimestamps(time.UnixMilli(1_700_000_000_000), time.UnixMilli(1_700_000_001_000))
	for range 3 { // the second and third iterations use a warm cache
		assert.Equal(t, map[string]int64{"a 1": 1_700_000_000_000, "b 1": 0, "c 1": 1_700_000_000_500, "a 2": 0, "d": 1_700_000_001_000}, times(p.Parse(body)))
	}
	got := p.Parse([]byte("a{x=\"1\"} 1\nb{x=\"1\"} 2\n"))
	assert.Equal(t, map[string]int64{"a 1": 0, "b 1": 0}, times(got), "each body has its own timestamps")
}

func TestSamplesWithImpossibleTimestampsAreSkippedAndCounted(t *testing.T) {
	p := NewParser()
	p.HonorTimestamps(time.UnixMilli(1000), time.UnixMilli(2000))
	for range 2 {
		got := p.Parse([]byte("a 1 999\nb 1 1000\nc 1 2000\nd 1 2001\ne 1 0\nf 1 -5\ng 1 99999999999999999999\nh 1\ni 1 NaN\n"))
		assert.Equal(t, map[string]int64{"b": 1000, "c": 2000, "h": 0}, times(got))
		assert.Equal(t, map[Reason]int{ReasonTimestamp: 5, ReasonValue: 1}, skipped(got))
	}
}

func TestTimestampsOfARecordingAreParsedAsByPrometheus(t *testing.T) {
	for _, path := range expositiontest.Recordings(t) {
		if !strings.HasSuffix(path, "ascend_910a_docs.prom") {
			continue
		}
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		p := NewParser()
		p.HonorTimestamps(time.UnixMilli(0), time.UnixMilli(2e12))
		want := map[string]int64{}
		prometheus := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
		for {
			entry, err := prometheus.Next()
			if err != nil {
				break
			}
			if entry != textparse.EntrySeries {
				continue
			}
			_, at, _ := prometheus.Series()
			if at != nil {
				want["own"]++
				want["sum"] += *at
			}
		}
		got := map[string]int64{}
		for _, at := range times(p.Parse(body)) {
			if at != 0 {
				got["own"]++
				got["sum"] += at
			}
		}
		assert.Positive(t, got["own"])
		assert.Equal(t, want, got)
	}
}
