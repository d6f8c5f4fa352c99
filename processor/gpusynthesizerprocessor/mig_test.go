package gpusynthesizerprocessor

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
