package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
)

// BenchmarkCentralCollector compares the throughput of a collector on one core and on two cores.
// The collector receives the metrics of 300 nodes. The benchmark alternates between rounds on one
// core and rounds on two cores. For each number of cores, the benchmark reports the fastest round,
// because other load on the machine can only make a round slower.
func BenchmarkCentralCollector(b *testing.B) {
	const k8s = "gpu_k8s: {kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}"
	for _, bm := range []struct{ name, stages string }{
		{"Synthesizer", ""},
		{"Holders", k8s + "}"},
		{"PowerAndUsage", k8s + ", power: {}, usage: {}}"},
		{"Budget", k8s + ", budget: {}}"},
		{"Findings", k8s + "}, gpu_findings: {}"},
		{"Window", k8s + ", power: {}, usage: {}}, gpu_window: {}"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			c := newCentral(b, bm.stages)
			c.round(b, 2) // adds the nodes
			var perSecond [2][]float64
			for range max(b.N, 20) {
				for i := range perSecond {
					perSecond[i] = append(perSecond[i], c.round(b, i+1))
				}
			}
			require.NoError(b, c.list.Shutdown(context.Background()))
			one, two := slices.Max(perSecond[0]), slices.Max(perSecond[1])
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(one, "batches/s-1core")
			b.ReportMetric(two, "batches/s-2cores")
			b.ReportMetric(two/one, "ratio")
		})
	}
}

// central is a collector that scrapes 300 nodes.
type central struct {
	list  *pdatagpu.Stages
	nodes [300]*pdatagpu.Rows
}

func newCentral(b *testing.B, stages string) *central {
	b.Helper()
	list := withStages(b, stages, consumertest.NewNop())
	require.NoError(b, list.Start(context.Background(), componenttest.NewNopHost()))
	c := &central{list: list}
	for n := range c.nodes {
		var text strings.Builder
		for _, name := range boardFields {
			for gpu := range 8 {
				fmt.Fprintf(&text, `%s{gpu="%d",UUID="GPU-%d-%d",device="nvidia%[2]d",modelName="NVIDIA H100 80GB HBM3",Hostname="node-%[3]d",namespace="ml",pod="train-%[3]d-%[2]d",container="main"} 0.5`+"\n",
					name, gpu, n, gpu)
			}
		}
		c.nodes[n] = &pdatagpu.Rows{Sets: exposition.NewParser().Parse([]byte(text.String())).Sets}
	}
	return c
}

// withStages returns the gpu_synthesizer processor with the given stages. If the stages parameter
// is empty, the processor has no stages.
func withStages(t testing.TB, stages string, next consumer.Metrics) *pdatagpu.Stages {
	t.Helper()
	cfg := createDefaultConfig().(*Config)
	text := "{}"
	if stages != "" {
		text = "{stages: {" + stages + "}}"
	}
	retrieved, err := confmap.NewRetrievedFromYAML([]byte(text))
	require.NoError(t, err)
	conf, err := retrieved.AsConf()
	require.NoError(t, err)
	require.NoError(t, conf.Unmarshal(cfg))
	p, err := NewFactory().CreateMetrics(context.Background(), processortest.NewNopSettings(metadata.Type), cfg, next)
	require.NoError(t, err)
	if list, ok := p.(*pdatagpu.Stages); ok {
		return list
	}
	list := pdatagpu.NewStages(next)
	list.Append(metadata.Type.String(), p.(*pdatagpu.Processor))
	return list
}

// boardFields contains the names of all fields in nodeScrape.
var boardFields = func() (names []string) {
	for _, r := range nodeScrape().rows {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	return names
}()

// The round method scrapes every node once, using four concurrent scrapers on the given number of
// cores. The result is the number of scrapes per second.
func (c *central) round(b *testing.B, cores int) float64 {
	b.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	const scrapers = 4
	begin := time.Now()
	var scraping sync.WaitGroup
	for s := range scrapers {
		scraping.Go(func() {
			for n := s; n < len(c.nodes); n += scrapers {
				c.nodes[n].Time = pcommon.Timestamp(begin.UnixNano())
				if err := c.list.Consume(context.Background(), c.nodes[n], pmetric.NewMetrics()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	scraping.Wait()
	return float64(len(c.nodes)) / time.Since(begin).Seconds()
}
