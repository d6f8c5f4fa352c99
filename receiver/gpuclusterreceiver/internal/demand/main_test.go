package demand

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The now variable contains the emission time in the tests.
var now = time.Unix(1_800_000_000, 0)

// The everything variable is the Observed value for a cluster in which objects of every kind can be
// read.
var everything = Observed{Pods: true, Nodes: true, Slices: true, Claims: true, Templates: true, TaintRules: true}

func options() Options {
	return Options{IsGPU: gpushare.IsGPU, Drivers: []string{"gpu.nvidia.com"}}
}

// pointLines returns the points of a cluster as sorted lines, with one line per point.
func pointLines(c *Cluster, observed Observed) []string {
	points, _ := c.Points(now, observed, nil)
	var lines []string
	for _, p := range points {
		var attrs []string
		for _, a := range slices.Concat(p.Attributes, p.More) {
			attrs = append(attrs, a.Key+"="+a.Value)
		}
		slices.Sort(attrs)
		value := strconv.FormatInt(p.Int, 10)
		if !p.Metric.Int {
			value = strconv.FormatFloat(p.Double, 'g', -1, 64)
		}
		lines = append(lines, fmt.Sprintf("%+v %s {%s} = %s", p.Place, p.Metric.Name, strings.Join(attrs, ", "), value))
	}
	slices.Sort(lines)
	return lines
}

// The values function returns the values of a metric's cluster-wide points, keyed by the attribute
// values of the points.
func values(c *Cluster, observed Observed, m *signal.Metric) map[string]float64 {
	out := map[string]float64{}
	points, _ := c.Points(now, observed, nil)
	for _, p := range points {
		if p.Metric != m {
			continue
		}
		var attrs []string
		for _, a := range p.Attributes {
			attrs = append(attrs, a.Value)
		}
		out[strings.Join(attrs, " ")] = p.Double + float64(p.Int)
	}
	return out
}
