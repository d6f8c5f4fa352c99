package events

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// Whatever the storage holds, it is refused or used, and frames go on.
func FuzzRestore(f *testing.F) {
	set := DefaultSettings()
	set.Holders = true
	frame := func(s int64) *gpudata.Frame {
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed, d.HoldersKnown = true, true
		d.User(gpudata.Holder{Namespace: "team", Pod: "a"}).Holds = true
		for name, own := range map[string]string{"hw.errors": "xid_31", "hw.status": "failed", throttleTime: "power", "hw.gpu.memory.utilization": ""} {
			d.Samples.Add(gpudata.Sample{Metric: metric(name), Own: own, Value: 1})
		}
		return f
	}
	tr := New(set)
	tr.Exporter(node, "h", "http://n1:9400/metrics", false, at(5).UnixNano(), at(5))
	tr.Frame(frame(10), at(10))
	text, err := json.Marshal(tr.Store(node))
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"known":{"Devices":{"GPU-1":{"Errors":{"xid_31":null},"States":{"hw.status":null},"Throttles":{"power":null},"Profiles":{"x":{}}}}},"folds":[{"name":"gpu.xid"}]}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		var s Stored
		if json.Unmarshal(stored, &s) != nil {
			return
		}
		tr := New(set)
		if tr.Restore(&s) != nil {
			return
		}
		tr.Exporter(node, "h", "http://n1:9400/metrics", true, at(15).UnixNano(), at(15))
		tr.Frame(frame(20), at(20))
		empty := &gpudata.Frame{Place: node, Time: at(500).UnixNano()}
		tr.Frame(empty, at(500))
		tr.Flush(at(500 + int64(time.Hour/time.Second)))
		_, err := json.Marshal(tr.Store(node))
		require.NoError(t, err)
	})
}
