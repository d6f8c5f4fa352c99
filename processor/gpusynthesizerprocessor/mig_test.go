package gpusynthesizerprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// A driver restart resets the counters and may bring back an instance of an old layout. The old
// value of this instance does not show that the board's counter is still valid.
func TestABoardCounterIsResetIfAnOldInstanceReturns(t *testing.T) {
	p, sink := startOn(t, storagetest.NewMemory(nil), processortest.NewNopSettings(metadata.Type))
	for i, row := range []string{
		`DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{UUID="GPU-1",Hostname="n1",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"} 0`,
		`DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{UUID="GPU-1",Hostname="n1",GPU_I_ID="2",GPU_I_PROFILE="2g.20gb"} 8`,
		`DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{UUID="GPU-1",Hostname="n1",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"} 0`,
		`DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{UUID="GPU-1",Hostname="n1",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"} 3`,
	} {
		sink.Reset()
		feed(t, p, int64(10*(i+1)), row)
	}
	assert.Contains(t, rendered(sink), "hw.errors {error.type=corrected, hw.id=GPU-1} = 3 {error}")
}

// A scrape of another exporter between two scrapes does not turn a missing row into a reset.
func TestABoardCounterIsNotResetIfAnotherExporterIsScraped(t *testing.T) {
	p, sink := startOn(t, storagetest.NewMemory(nil), processortest.NewNopSettings(metadata.Type))
	consume := func(second int64, url, text string) {
		sink.Reset()
		require.NoError(t, p.ConsumeMetrics(t.Context(), scraped(t, second, url, text).batch))
	}
	const first = `DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{UUID="GPU-1",Hostname="n1",GPU_I_ID="1",GPU_I_PROFILE="1g.10gb"} 5`
	consume(10, urlA, first+"\n"+`DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{UUID="GPU-1",Hostname="n1",GPU_I_ID="2",GPU_I_PROFILE="2g.20gb"} 8`)
	consume(11, urlB, `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n1"} 40`)
	consume(20, urlA, first)
	assert.Contains(t, rendered(sink), "hw.errors {error.type=corrected, hw.id=GPU-1} = 8 {error}")
}
