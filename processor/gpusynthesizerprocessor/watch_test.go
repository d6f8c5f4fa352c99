package gpusynthesizerprocessor

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// The logged function returns the log entries at level warn or higher for a sequence of scrapes.
func logged(t *testing.T, config string, scrapes ...scrape) []observer.LoggedEntry {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	set := processortest.NewNopSettings(metadata.Type)
	set.Logger = zap.New(core)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600))
	p, _ := newTestProcessor(t, dir, set)
	for _, s := range scrapes {
		require.NoError(t, p.ConsumeMetrics(context.Background(), onPoints(s)))
	}
	return logs.All()
}

func TestDevicesBeyondTheLimitAreLoggedOnce(t *testing.T) {
	const body = "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 30\nDCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-2\"} 30"
	logs := logged(t, "max_devices: 1", scrape{10, parse(t, body)}, scrape{20, parse(t, body)})
	if assert.Len(t, logs, 1) {
		assert.Contains(t, logs[0].Message, "max_devices of 1 is reached: new devices are refused")
	}
	assert.Empty(t, logged(t, "max_devices: 2", scrape{10, parse(t, body)}, scrape{20, parse(t, body)}))
}

func TestRowsWithoutAUUIDAreLoggedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want int
	}{
		"relabeling removed UUID": {`DCGM_FI_DEV_GPU_TEMP{gpu="0",device="nvidia0"} 30`, 1},
		"rows of links":           {`DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES{nvlink="3"} 100`, 0},
		"rows of other metrics":   {`DCGM_FI_NEW{gpu="0"} 100`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			logs := logged(t, "", scrape{10, parse(t, tt.body)}, scrape{20, parse(t, tt.body)})
			if assert.Len(t, logs, tt.want) && tt.want > 0 {
				assert.Contains(t, logs[0].Message, "do not have the label UUID")
			}
		})
	}
	for _, file := range expositiontest.DCGMRecordings(t) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, entry := range logged(t, "", scrape{10, parse(t, string(text))}) {
			assert.NotContains(t, entry.Message, "UUID", file)
		}
	}
}

func TestASplitScrapeIsLoggedOnce(t *testing.T) {
	const (
		one   = "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 30\nDCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-2\"} 30"
		other = "DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\"} 30\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-2\"} 30"
		third = "DCGM_FI_DEV_FB_USED{UUID=\"GPU-3\"} 30"
		pods1 = "DCGM_FI_DEV_GPU_TEMP{UUID=\"GPU-1\"} 30\nDCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",namespace=\"n\",pod=\"a\"} 30"
		pods2 = "DCGM_FI_DEV_FB_USED{UUID=\"GPU-1\",namespace=\"n\",pod=\"b\"} 30\nDCGM_FI_DEV_GPU_UTIL{UUID=\"GPU-1\"} 30"
	)
	for name, tt := range map[string]struct {
		bodies []string // one body per batch
		times  []int64
		want   int
	}{
		"fields of one time in two batches":                                {[]string{one, other, one, other}, []int64{10, 10, 20, 20}, 1},
		"fields of one time in two batches, with another batch in between": {[]string{one, third, other}, []int64{10, 10, 10}, 1},
		"rows of one field in two batches":                                 {[]string{pods1, pods2}, []int64{10, 10}, 1},
		"devices of one time in two batches":                               {[]string{one, third, one, third}, []int64{10, 10, 20, 20}, 0},
		"complete scrapes":                                                 {[]string{one + "\n" + other, one + "\n" + other}, []int64{10, 20}, 0},
		"the same scrape twice":                                            {[]string{one, one}, []int64{10, 10}, 0},
		"different fields at different times":                              {[]string{one, other, one, other}, []int64{10, 15, 20, 25}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var scrapes []scrape
			for i, body := range tt.bodies {
				scrapes = append(scrapes, scrape{tt.times[i], parse(t, body)})
			}
			logs := logged(t, "", scrapes...)
			if assert.Len(t, logs, tt.want) && tt.want > 0 {
				assert.Contains(t, logs[0].Message, "the fields of one device and time are in several batches, so samples are computed from only a part of them. Usually, gpu_synthesizer is after batch")
			}
		})
	}
}
