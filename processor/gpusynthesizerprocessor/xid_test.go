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

// The exporter is restarted between the scrapes at 20s and 30s, and code 31 occurs again only
// later. By then, the errors with code 48 have already been counted.
func TestACodeThatReturnsAfterAnExporterRestartDoesNotRepeatOtherErrors(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart of the collector %t", restart), func(t *testing.T) { testReturningCode(t, restart) })
	}
}

func testReturningCode(t *testing.T, restart bool) {
	t.Helper()
	storage := storagetest.NewMemory(nil)
	p, sink := startOn(t, storage, processortest.NewNopSettings(metadata.Type))
	for i, rows := range []string{
		``,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="31"} 4
`,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="48"} 3
`,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="48"} 3
`,
		`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="48"} 3
DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="31"} 1
`,
	} {
		if restart && i == 4 {
			require.NoError(t, p.Shutdown(t.Context()))
			p, sink = startOn(t, storage, processortest.NewNopSettings(metadata.Type))
		}
		sink.Reset()
		feed(t, p, int64(10*(i+1)), rows+`DCGM_FI_DEV_GPU_TEMP{UUID="GPU-1",Hostname="n1"} 40`)
	}
	got := rendered(sink)
	assert.Contains(t, got, "{error.type=xid_48, gpu.event.source=counter, hw.id=GPU-1} = 3 {error}", "the errors are not counted again")
	assert.Contains(t, got, "{error.type=xid_31, gpu.event.source=counter, hw.id=GPU-1} = 5 {error}", "4 before the restart and 1 after it")
}
