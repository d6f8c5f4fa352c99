package main

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestTheTableHasRatiosAndTheScalesTargets(t *testing.T) {
	measured := []*figures{
		{cpu: 2, resident: 90, anonymous: 60, peak: 100, sent: 600, start: 0.4},
		{cpu: 10, resident: 120, anonymous: 80, peak: 200, sent: 900, start: 0.5},
		{cpu: 4, resident: 300, anonymous: 240, peak: 300, start: 0.2},
	}
	ten := scale{nodes: 10, cpu: 0.25, memory: 0.5}
	assert.Equal(t, strings.TrimPrefix(`
| | agent | prometheus receiver | Prometheus | agent / receiver | agent / Prometheus | targets |
|---|--:|--:|--:|--:|--:|---|
| CPU, µs per sample | 2 | 10 | 4 | 0.2 | 0.5 | ≤ 0.25, met; ≤ 0.25, **missed** |
| resident memory, MiB | 90 | 120 | 300 | 0.75 | 0.3 | ≤ 0.5, **missed**; ≤ 0.4, met |
| anonymous memory, MiB | 60 | 80 | 240 | 0.75 | 0.25 |  |
| highest resident memory, MiB | 100 | 200 | 300 | 0.5 | 0.333 |  |
| bytes sent per device and window | 600 | 900 |  | 0.667 |  |  |
| start, s | 0.4 | 0.5 | 0.2 | 0.8 | 2 |  |
`, "\n"), table(ten, measured))

	one := table(scale{nodes: 1, cpu: 0.12}, measured)
	assert.Equal(t, 1, strings.Count(one, "≤"), "a single node has no target relative to Prometheus:\n%s", one)
	alone := table(ten, []*figures{measured[0], nil, nil})
	assert.NotContains(t, alone, "≤")
}

func TestScalesAreSelectedByName(t *testing.T) {
	picked, err := pick("10,1")
	require.NoError(t, err)
	require.Len(t, picked, 2)
	assert.Equal(t, 10, picked[0].nodes)
	_, err = pick("10,7")
	assert.EqualError(t, err, `-scales "7": no such scale`)
}

func TestTimesAreShortenedByTheSameFactor(t *testing.T) {
	for _, s := range scales {
		interval, window := s.shortened()
		assert.Equal(t, s.window/s.interval, window/interval, s.name)
		assert.GreaterOrEqual(t, window, time.Second, "%s: the shortest window", s.name)
	}
}

func TestFiguresArePerSampleDeviceAndDueScrape(t *testing.T) {
	s := scale{nodes: 10, mig: 7, interval: 15 * time.Second, window: time.Minute}
	cpu, sent, kept := s.rates(span{windows: 6, cpu: 900 * time.Millisecond, samples: 450_000, scrapes: 216, sent: 6 * 560 * 350})
	assert.InDelta(t, 2, cpu, 1e-12, "microseconds per sample")
	assert.InDelta(t, 350, sent, 1e-9, "bytes per device and window; a node has 56 devices")
	assert.InDelta(t, 0.9, kept, 1e-12, "of 10 nodes times 4 scrapes times 6 windows")
	assert.Equal(t, 80, scale{nodes: 10}.devices(), "unpartitioned GPUs")
}

func TestEveryRecordingRuleIsPromQL(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct{ Record, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(recordingRules(time.Second, 4*time.Second)), &rules))
	require.Len(t, rules.Groups, 1)
	require.Len(t, rules.Groups[0].Rules, 15)
	for _, r := range rules.Groups[0].Rules {
		_, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		assert.NoError(t, err, r.Record)
	}
}
