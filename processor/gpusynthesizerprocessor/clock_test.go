package gpusynthesizerprocessor

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

const oneXID = "{error.type=xid_31, gpu.event.source=counter, hw.id=GPU-1} = %d {error}"

func xidTotal(n int) string {
	return fmt.Sprintf(`DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-1",Hostname="n1",xid="31"} %d`, n)
}

// Samples that are older than one before are late, as out of a queue. Where nothing
// newer came for minutes a clock was set back, and waiting for it to come round again
// would leave out an hour of errors.
func TestXIDsAreCountedOnAfterAClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, 3600, xidTotal(4))
		feed(t, p, 3630, xidTotal(5))
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+" since 3600s", 1))
		for n := range int64(12) { // an hour back, and another error
			time.Sleep(30 * time.Second)
			feed(t, p, 60+30*n, xidTotal(6))
		}
		sink.Reset()
		time.Sleep(30 * time.Second)
		feed(t, p, 420, xidTotal(6))
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+"\n", 2), "a start in the future is none")
		sink.Reset()
		feed(t, p, 450, xidTotal(7))
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+"\n", 3))
	})
}

func TestALateScrapeCountsNoXIDAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := storagetest.NewMemory(nil)
		p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, 3600, xidTotal(4))
		for n := range int64(20) {
			feed(t, p, 3630+30*n, xidTotal(5))
			feed(t, p, 60+30*n, xidTotal(3))
			time.Sleep(30 * time.Second)
		}
		sink.Reset()
		feed(t, p, 4230, xidTotal(5))
		assert.Contains(t, rendered(sink), fmt.Sprintf(oneXID+" since 3600s", 1))
	})
}
