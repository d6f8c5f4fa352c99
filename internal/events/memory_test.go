package events

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// busyNode returns a frame with eight boards. Five containers hold each board, and the tracker
// reads twelve series per board.
func busyNode(n int, at int64) (f *gpudata.Frame, series int) {
	f = &gpudata.Frame{Place: gpudata.Place{Node: fmt.Sprint("node-", n)}, Time: at}
	for i := range 8 {
		d := f.Device(fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", n, i))
		d.Observed, d.HoldersKnown = true, true
		d.Description = gpudata.Description{Name: fmt.Sprint("nvidia", i), Model: "NVIDIA H100 80GB HBM3", Vendor: signal.VendorNVIDIA}
		for k := range 5 {
			d.User(gpudata.Holder{Namespace: "team", Pod: fmt.Sprintf("pod-%d-%d-%d", n, i, k), UID: fmt.Sprintf("6fa459ea-ee8a-3ca4-894e-%06d%03d%03d", n, i, k), Container: "main"}).Holds = true
		}
		for _, s := range []struct{ name, own string }{
			{throttleTime, "power"},
			{throttleTime, "thermal"},
			{throttleTime, "board_limit"},
			{"hw.errors", "xid_31"},
			{"hw.errors", "corrected"},
			{"hw.errors", "uncorrected"},
			{"hw.errors", "pcie_replay"},
			{"hw.errors", "row_remap_correctable"},
			{"hw.errors", "row_remap_uncorrectable"},
			{statusMetric, "ok"},
			{actionMetric, "none"},
			{"hw.gpu.memory.utilization", ""},
		} {
			d.Samples.Add(gpudata.Sample{Metric: metric(s.name), Own: s.own, Value: 1})
			series++
		}
	}
	return f, series
}

func heap() uint64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// The target for 2,000 devices and 10,000 holders is 400 bytes per series. The limits are 10% above
// the current values.
func TestMemoryPerSeriesIsLimited(t *testing.T) {
	for name, test := range map[string]struct {
		holders int // number of stored holders per device
		limit   float64
	}{"without holders": {0, 225}, "with holders": {5, 330}} {
		t.Run(name, func(t *testing.T) {
			set := DefaultSettings()
			set.Holders = test.holders > 0
			tr := New(set)
			before, series := heap(), 0
			for n := range 250 {
				of := 0
				for s := int64(0); s <= 120; s += 15 {
					var f *gpudata.Frame
					f, of = busyNode(n, at(s).UnixNano())
					tr.Frame(f, at(s), nil)
				}
				series += of + 8*test.holders
			}
			tr.Tick(at(int64(time.Hour / time.Second)))
			each := float64(heap()-before) / float64(series)
			runtime.KeepAlive(tr)
			t.Logf("%.0f bytes a series", each)
			assert.Less(t, each, test.limit)
		})
	}
}
