package gpusynthesizerprocessor

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpusynthesizerprocessor/internal/synth"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// Whatever the storage contains, the processor must start, its output must follow the output
// contract, and the processor must be able to read the state that it stores.
func FuzzStoredState(f *testing.F) {
	const scraped = `DCGM_FI_DEV_XID_ERRORS{UUID="GPU-1",Hostname="n1"} 31
DCGM_EXP_XID_ERRORS_TOTAL{UUID="GPU-2",Hostname="n1",GPU_I_ID="7",xid="31"} 4
DCGM_EXP_XID_ERRORS_COUNT{UUID="GPU-3",Hostname="n1",xid="79"} 2`
	for _, text := range []string{
		``, `null`, `{"version":1}`, `{"version":1,"devices":null}`,
		`{"version":1,"devices":[{"host":"n1","node":"n1","board":"GPU-1","source":1,"last":79,"since":5,"codes":[{"code":79,"start":1,"count":9223372036854775807}]}]}`,
		`{"version":1,"devices":[{"host":"n1","node":"n1","board":"GPU-2","instance":"7","source":3,"since":5,"totals":{"31":1e308},"codes":[{"code":31,"start":9223372036854775807,"count":3}]}]}`,
		`{"version":1,"devices":[{"host":"n1","node":"n1","board":"GPU-3","source":2,"since":5,"counts":{"79":0.5}}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m := storagetest.NewMemory(map[string]string{stateOfAllKey: string(text), "places": `{"version":1,"places":["n1/n1"]}`, nodeKey: string(text)})
		p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		feed(t, p, 10, scraped)
		feed(t, p, afterRestart, scraped)
		for _, md := range sink.AllMetrics() {
			checkContract(t, md)
		}
		require.NotZero(t, m.Writes())
		var stored synth.State
		require.NoError(t, json.Unmarshal([]byte(m.Values()[nodeKey]), &stored))
		require.NoError(t, synth.New(synth.Options{MaxDevices: 1000}).Restore(&stored, afterRestart), "%v", stored)
	})
}
