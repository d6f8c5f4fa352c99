package powerstage

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// Whatever the storage contains, the processor must start and must emit only finite, nonnegative
// values for power and energy. The processor must also be able to restore the state that it has
// stored.
func FuzzStoredState(f *testing.F) {
	f.Add(`{"version":1,"places":["/n1"]}`,
		`{"version":1,"boards":[{"id":"GPU-1","baselines":{"":{"watts":50,"lowest":1,"quiet":1}}}],
		"energy":[{"device":"GPU-1","pod":"a","watts":1e308,"joules":1e308,"start":1,"last":1}]}`)
	f.Add(`{"version":1,"places":["/n1","/n1",""]}`, `{"version":1,"boards":[{"id":"","baselines":{}}]}`)
	f.Add(`{"version":2}`, `null`)
	f.Add(``, `{"version":1,"energy":[{"device":"GPU-1","pod":"a"}]}`)
	f.Fuzz(func(t *testing.T, places, place string) {
		m := storagetest.NewMemory(map[string]string{"places": places, "place//n1": place})
		p, sink := startOn(t, m, processortest.NewNopSettings(metadata.Type))
		for _, text := range []string{quietBoard, busyAt80, busyAt90, busyAt500} {
			feed(t, p, text)
		}
		for _, md := range sink.AllMetrics() {
			for _, rm := range md.ResourceMetrics().All() {
				for _, sm := range rm.ScopeMetrics().All() {
					for _, metric := range sm.Metrics().All() {
						for _, dp := range points.Of(metric).All() {
							if v := dp.DoubleValue(); math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
								t.Fatalf("%s is %v", metric.Name(), v)
							}
						}
					}
				}
			}
		}
		require.NoError(t, p.Shutdown(t.Context()))
		var stored storedPlace
		require.NoError(t, json.Unmarshal([]byte(m.Values()["place//n1"]), &stored))
		require.NoError(t, stored.valid())
	})
}
