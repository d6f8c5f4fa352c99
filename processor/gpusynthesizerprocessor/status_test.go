package gpusynthesizerprocessor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// A board of an exporter that was down is not a lost board, even if another exporter of the node
// was up. A board that was missing from its own exporter's scrapes was lost.
func TestAFailedBoardIsNotResetByADowntimeOfItsExporter(t *testing.T) {
	for name, c := range map[string]struct {
		down bool // from 30s to 150s, the exporter of GPU-1 is down; otherwise, GPU-1 is missing
		want string
	}{
		"the exporter was down": {true, "hw.status {hw.id=GPU-1, hw.state=failed} = 1 1"},
		"the board was lost":    {false, "hw.status {hw.id=GPU-1, hw.state=ok} = 1 1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, sink := startOn(t, storagetest.NewMemory(nil), processortest.NewNopSettings(metadata.Type))
			consume := func(second int64, url, text string) {
				require.NoError(t, p.ConsumeMetrics(t.Context(), scraped(t, second, url, text).batch))
			}
			for second := int64(10); second <= 160; second += 10 {
				consume(second+1, urlB, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-3",Hostname="n"} 40`)
				missing := second >= 30 && second < 160
				if missing && c.down {
					continue
				}
				text := `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-2",Hostname="n"} 40`
				if !missing {
					total := 0
					if second > 10 {
						total = 1
					}
					text += fmt.Sprintf(`
DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n",xid="79"} %d`, total)
				}
				sink.Reset()
				consume(second, urlA, text)
			}
			assert.Contains(t, rendered(sink), c.want)
		})
	}
}
