package dcgmreceiver

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/dcgmreceiver/internal/metadatatest"
)

// The ages map contains, for each sample in a body, the age that the timestamp of the sample
// indicates. An age of 0 means that the sample has no timestamp.
var ages = map[string]time.Duration{
	"none": 0, "fresh": time.Second, "older": 4 * time.Minute, "too_old": 5*time.Minute + time.Second,
	"ahead": -30 * time.Second, "future": -61 * time.Second,
}

func TestSampleTimestampsAreUsedIfHonored(t *testing.T) {
	for honors, want := range map[bool]map[string]time.Duration{
		false: {"none": 0, "fresh": 0, "older": 0, "too_old": 0, "ahead": 0, "future": 0},
		true:  {"none": 0, "fresh": time.Second, "older": 4 * time.Minute, "ahead": -30 * time.Second},
	} {
		t.Run(fmt.Sprint(honors), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, body := time.Now(), ""
				for name, age := range ages {
					body += name + `{id="0"} 1`
					if age != 0 {
						body += fmt.Sprint(" ", start.Add(-age).UnixMilli())
					}
					body += "\n"
				}
				var n network
				n.listen(t, "npu-node:8082", serve(body))
				f := opened(t, []string{"http://npu-node:8082"}, func(cfg *Config) { cfg.HonorTimestamps = honors })
				f.transport.DialContext = n.dial
				got := map[string]time.Duration{}
				for m, point := range points(f.scrape(t, 0)) {
					if m.Name() != "gpu.exporter.up" {
						got[m.Name()] = start.Sub(point.Timestamp().AsTime())
					} else {
						assert.EqualValues(t, 1, point.IntValue())
						assert.Equal(t, start, point.Timestamp().AsTime().Local())
					}
				}
				assert.Equal(t, want, got)
				if honors {
					metadatatest.AssertEqualReceiverDcgmSkippedLines(t, f.telemetry, []metricdata.DataPoint[int64]{
						{Attributes: attribute.NewSet(attribute.String("reason", "timestamp")), Value: 2},
					}, metricdatatest.IgnoreTimestamp())
				}
			})
		})
	}
}

// Values of a device that the exporter reads one after another get the same timestamp. Values of
// other devices keep their own timestamps. Values that the exporter no longer reads also keep their
// own timestamps.
func TestTimesOfOneRoundAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, body := time.Now().Truncate(time.Millisecond), ""
		for _, row := range []struct {
			series string
			age    time.Duration
		}{
			{`first{id="0"}`, 9 * time.Second},
			{`second{id="0"}`, 5 * time.Second},
			{`third{id="0"}`, 4 * time.Second},
			{`stuck{id="0"}`, 9*time.Second + time.Millisecond},
			{`first{id="1"}`, 3 * time.Second},
		} {
			body += fmt.Sprintln(row.series, 1, start.Add(-row.age).UnixMilli())
		}
		var n network
		n.listen(t, "npu-node:8082", serve(body+"untimed{id=\"0\"} 1\n"))
		f := opened(t, []string{"http://npu-node:8082"}, func(cfg *Config) { cfg.HonorTimestamps = true })
		f.transport.DialContext = n.dial
		var got []string
		for m, point := range points(f.scrape(t, 0)) {
			got = append(got, fmt.Sprint(m.Name(), " ", start.Sub(point.Timestamp().AsTime())))
		}
		assert.ElementsMatch(t, []string{
			"gpu.exporter.up 0s", "first 4s", "second 4s", "third 4s", "stuck 9.001s", "first 3s", "untimed 0s",
		}, got)
	})
}

// An exporter that has only old readings still responds. Therefore, gpu.exporter.up is 1, but the
// batch contains no samples of devices.
func TestExporterWithOutdatedSamplesIsUpAndHasNoSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		n.listen(t, "npu-node:8082", serve("npu_chip_info_power{id=\"0\"} 70 1700000000000\n"))
		f := opened(t, []string{"http://npu-node:8082"}, func(cfg *Config) { cfg.HonorTimestamps = true })
		f.transport.DialContext = n.dial
		var got []string
		for m, point := range points(f.scrape(t, 0)) {
			got = append(got, fmt.Sprint(m.Name(), " ", point.IntValue()))
		}
		assert.Equal(t, []string{"gpu.exporter.up 1"}, got)
		assert.Len(t, f.logs.FilterMessage("Lines of the exporter's response are skipped").All(), 1)
	})
}
