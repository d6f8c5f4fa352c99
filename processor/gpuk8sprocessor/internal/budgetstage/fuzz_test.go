package budgetstage

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/storagetest"
)

// Whatever the storage holds, the processor starts, and what it stores can be
// read again.
func FuzzStoredState(f *testing.F) {
	f.Add(`{"version":1,"places":["/n1"]}`,
		`{"version":1,"series":[{"device":"GPU-1","pod":"a","last":1,"slots":[{"start":0,"bins":{"800":25}}]}]}`)
	f.Add(`{"version":1,"places":["/n1","/n1",""]}`,
		`{"version":1,"series":[{"device":"GPU-1","last":-9223372036854775808,"slots":[{"start":-9223372036854775808,"bins":{"0":4294967295}},{"start":9223372036854775807,"bins":{"1051":4294967295}}]}]}`)
	f.Add(`{"version":2}`, `null`)
	f.Add(``, `{"version":1,"series":[{"device":""}]}`)
	f.Fuzz(func(t *testing.T, places, place string) {
		m := storagetest.NewMemory(map[string]string{"places": places, "place//n1": place})
		p := startOn(t, m, nop())
		feed(t, p, parse(t, exclusive(time.Hour, "8Gi"), false))
		feed(t, p, parse(t, exclusive(2*time.Hour, "1Gi"), false))
		require.NoError(t, p.shutdown(context.Background()))
		var stored storedPlace
		require.NoError(t, json.Unmarshal([]byte(m.Values()["place//n1"]), &stored))
		require.NoError(t, stored.valid())
	})
}
