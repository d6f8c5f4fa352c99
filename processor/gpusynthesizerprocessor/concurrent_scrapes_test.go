package gpusynthesizerprocessor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
)

// The output of all stages except gpu_window must not depend on whether nodes are scraped at the
// same time or one after another. `make test-long` runs this test with the race detector.
func TestStagesHaveTheSameOutputForConcurrentScrapes(t *testing.T) {
	const nodes, scrapes = 8, 25
	// Each GPU is held by one pod for some time, and then by another pod.
	body := func(node, scrape int) string {
		var text strings.Builder
		for gpu := range 3 {
			labels := fmt.Sprintf(`UUID="GPU-%d",Hostname="n%d",modelName="NVIDIA L4",namespace="ns",pod="p-%d-%d",container="c"`, gpu, node, node, (scrape+gpu)/7)
			for name, value := range map[string]int{
				"DCGM_FI_DEV_POWER_USAGE": 30 + scrape%5*gpu, "DCGM_FI_DEV_GPU_UTIL": scrape % 3 * 40, "DCGM_FI_DEV_FB_USED": 100 * scrape,
				"DCGM_FI_DEV_FB_FREE": 10_000 - 100*scrape, "DCGM_FI_DEV_XID_ERRORS": scrape % 4, "DCGM_FI_DEV_GPU_TEMP": 40, "DCGM_FI_DEV_SM_CLOCK": 1000,
			} {
				fmt.Fprintf(&text, "%s{%s} %d\n", name, labels, value)
			}
		}
		return text.String()
	}
	play := func(together bool) []string {
		sink := &consumertest.MetricsSink{}
		list := withStages(t, "gpu_k8s: {kubernetes: {auth_type: none}, sources: {pod_resources: {enabled: false}, dra: {enabled: false}}, "+
			"power: {idle: {watts: 20}}, budget: {}, usage: {}}, gpu_findings: {}", sink)
		require.NoError(t, list.Start(t.Context(), componenttest.NewNopHost()))
		var scraping sync.WaitGroup
		for n := range nodes {
			scrape := func() {
				parser := exposition.NewParser()
				for s := 1; s <= scrapes; s++ {
					rows := &pdatagpu.Rows{Time: pcommon.Timestamp(15e9 * s), Sets: parser.Parse([]byte(body(n, s))).Sets}
					assert.NoError(t, list.Consume(t.Context(), rows, pmetric.NewMetrics()))
				}
			}
			if together {
				scraping.Go(scrape)
			} else {
				scrape()
			}
		}
		scraping.Wait()
		require.NoError(t, list.Shutdown(context.Background()))
		lines := strings.Split(rendered(sink), "\n")
		slices.Sort(lines)
		return lines
	}
	alone := play(false)
	for _, metric := range []string{"k8s.container.gpu.power", "gpu.memory.attribution.state", "k8s.container.gpu.allocated.time", "gpu.finding", "xid_3"} {
		assert.Contains(t, strings.Join(alone, "\n"), metric)
	}
	assert.Equal(t, alone, play(true))
}
