package dratest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// Charged contains the seconds that were charged to each holder of a device, in board equivalents,
// and the unallocated and unobserved seconds of each board.
type Charged struct {
	seconds map[holding]float64
	// The board field contains the unallocated and unobserved seconds, keyed by metric name and by
	// the board's hw.id.
	board map[string]map[string]float64
}

type holding struct {
	Holder
	device string
}

// NewCharged returns an empty Charged.
func NewCharged() *Charged {
	return &Charged{seconds: map[holding]float64{}, board: map[string]map[string]float64{
		signal.GPUUnallocatedTime.Name: {}, signal.GPUUnobservedTime.Name: {},
	}}
}

// Charge charges an interval to the devices' holders at the end of the interval. The devices
// parameter contains all instances and all boards without instances, keyed by hw.id. The boards
// parameter contains the hw.id of every board.
func (c *Charged) Charge(devices map[string]Verdict, boards []string, passed time.Duration) {
	nobody, cut := map[string]float64{}, map[string]float64{} // slices, in sevenths of the board
	for id, v := range devices {
		share := v.Slices / 7 * passed.Seconds()
		cut[v.Board] += v.Slices
		switch {
		case !v.Known:
			c.board[signal.GPUUnobservedTime.Name][v.Board] += share
		case len(v.Holders) == 0:
			nobody[v.Board] += v.Slices
		}
		for _, h := range v.Holders {
			c.seconds[holding{h, id}] += share / float64(len(v.Holders))
		}
	}
	for _, b := range boards { // slices that are not part of an instance have no holder
		c.board[signal.GPUUnallocatedTime.Name][b] += (7 - cut[b] + nobody[b]) / 7 * passed.Seconds()
	}
}

// Miss charges an interval without samples as unobserved.
func (c *Charged) Miss(boards []string, passed time.Duration) {
	for _, b := range boards {
		c.board[signal.GPUUnobservedTime.Name][b] += passed.Seconds()
	}
}

// Differences lists the values that differ between c and got by more than one billionth.
func (c *Charged) Differences(got *Charged) (out []string) {
	add := func(what string, want, got float64) {
		if math.Abs(want-got) > 1e-9*max(1, want) {
			out = append(out, fmt.Sprintf("%s: %g s, want %g s", what, got, want))
		}
	}
	for s, v := range c.seconds {
		add(fmt.Sprint(s), v, got.seconds[s])
	}
	for s, v := range got.seconds {
		if _, known := c.seconds[s]; !known {
			add(fmt.Sprint(s), 0, v)
		}
	}
	for name, boards := range c.board {
		for id, v := range boards {
			add(name+" of "+id, v, got.board[name][id])
		}
	}
	slices.Sort(out)
	return out
}

// Counters adds up the increases in usage counters.
type Counters struct {
	Charged
	last map[string]counterValue
}

type counterValue struct {
	start pcommon.Timestamp
	value float64
}

// NewCounters returns Counters in which all sums are zero.
func NewCounters() *Counters { return &Counters{*NewCharged(), map[string]counterValue{}} }

// Read adds the amounts by which the usage counters in md have increased since the previous call.
func (c *Counters) Read(md pmetric.Metrics) {
	for p := range points.All(md) {
		name, id := p.Metric.Name(), valueOf(p.Attributes(), signal.HardwareID)
		total := c.board[name]
		if name != signal.K8sContainerGPUAllocatedTime.Name && total == nil {
			continue
		}
		key := name + id + valueOf(p.Attributes(), signal.UsageEstimated) + pointtest.Text(p.Resource.Attributes())
		increase, start := points.Value(p.NumberDataPoint), p.StartTimestamp()
		v := counterValue{start, increase}
		if last := c.last[key]; last.start == start {
			increase -= last.value
		}
		c.last[key] = v
		if total != nil {
			total[id] += increase
			continue
		}
		resource := p.Resource.Attributes()
		c.seconds[holding{Holder{
			Namespace: valueOf(resource, signal.K8sNamespaceName), Pod: valueOf(resource, signal.K8sPodName),
			UID: valueOf(resource, signal.K8sPodUID), Container: valueOf(resource, signal.K8sContainerName),
		}, id}] += increase
	}
}

func valueOf(attributes pcommon.Map, key string) string {
	v, ok := attributes.Get(key)
	if !ok {
		return ""
	}
	return v.AsString()
}
