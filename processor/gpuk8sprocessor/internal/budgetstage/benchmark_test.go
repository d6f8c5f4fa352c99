package budgetstage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// BenchmarkProcess measures the processing of one scrape from a node with 8 GPUs and four tenants
// per GPU. The measured time includes the time for copying the batch.
func BenchmarkProcess(b *testing.B) {
	two := shared("10s", "8Gi", "3Gi", "3Gi")
	four := two + strings.NewReplacer("@a", "@c", "@b", "@d").Replace(two)
	var lines strings.Builder
	for i := range 8 {
		lines.WriteString(strings.ReplaceAll(four, "GPU-1", fmt.Sprintf("GPU-%d", i)))
	}
	cfg := defaults()
	cfg.Sources.MPS.Replicas = 4
	p := newTestProcessor(b, cfg, nop(), componenttest.NewNopHost(), nil)
	scrape := parse(b, strings.ReplaceAll(lines.String(), "time_slicing", "mps"), false)
	b.ReportAllocs()
	for b.Loop() {
		md := pmetric.NewMetrics()
		scrape.CopyTo(md)
		_, err := p.processMetrics(context.Background(), md)
		require.NoError(b, err)
	}
}
