package faults

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// If two agents run on a node at the same time, time must be counted only once. Only one agent can
// open the stored state. The other agent fails to start until the first agent has stopped, and then
// continues the counters.
func TestOnlyOneOfTwoAgentsOnANodeCounts(t *testing.T) {
	t.Parallel()
	e, b := newExporter(t, "node-1"), newBackend(t)
	e.adds(func(int) string { return `,namespace="ml",pod="train-0",container="main"` }, nil)
	s := setting{over: "../../examples/overlays/usage.yaml", set: fast, env: map[string]string{
		"DCGM_ENDPOINT": e.url(), "OTLP_ENDPOINT": b.url(), "STORAGE_DIR": t.TempDir(), "PRICES_FILE": "../../examples/usage/prices.yaml",
	}}
	counts := func(c *collector, since time.Time) {
		processtest.Until(t, "time of containers", func() bool {
			return slices.ContainsFunc(b.all(), func(p point) bool {
				return p.metric == signal.K8sContainerGPUAllocatedTime.Name && p.end.After(since) && p.value > 0
			})
		}, c.Process)
	}
	first := startCollector(t, s)
	counts(first, time.Time{})

	second := startCollector(t, s)
	select {
	case <-second.Ended:
	case <-time.After(processtest.Patience):
		require.Fail(t, "both agents opened the state")
	}
	require.Error(t, second.Err)
	assert.Regexp(t, `storage file \S+: the storage file is in use: timeout`, second.Output.String())
	overlapped := time.Now()
	counts(first, overlapped)
	first.stop(t)

	stopped := time.Now()
	second = startCollector(t, s)
	counts(second, stopped)
	second.stop(t)

	parts := map[string]map[time.Time]float64{} // sums of the counted times, by device and timestamp
	starts, last := map[time.Time]bool{}, map[string]point{}
	all := slices.SortedFunc(slices.Values(b.all()), func(a, b point) int { return cmp.Or(a.end.Compare(b.end), cmp.Compare(a.value, b.value)) })
	for _, p := range all {
		switch p.metric {
		case signal.K8sContainerGPUAllocatedTime.Name, signal.GPUUnallocatedTime.Name, signal.GPUUnobservedTime.Name:
		default:
			continue
		}
		series := p.metric + p.pod + p.device
		assert.GreaterOrEqual(t, p.value, last[series].value, "%s falls", series)
		last[series] = p
		starts[p.start] = true
		if parts[p.device] == nil {
			parts[p.device] = map[time.Time]float64{}
		}
		parts[p.device][p.end] += p.value
	}
	require.Len(t, starts, 1, "all counters start with the first agent")
	require.Len(t, parts, gpus)
	for device, sums := range parts {
		for end, sum := range sums {
			for start := range starts {
				assert.InDelta(t, end.Sub(start).Seconds(), sum, 1e-6, "%s: all time is counted exactly once", device)
			}
		}
	}
}
