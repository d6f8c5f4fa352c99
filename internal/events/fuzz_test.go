package events

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/stage"
)

// Any stored content is either rejected or restored, and later frames are processed in either case.
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
	tr.Frame(frame(10), at(10), nil)
	text, err := json.Marshal(tr.Store(stage.Key(node)))
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
		tr.Frame(frame(20), at(20), nil)
		empty := &gpudata.Frame{Place: node, Time: at(500).UnixNano()}
		tr.Frame(empty, at(500), nil)
		tr.Flush(at(500 + int64(time.Hour/time.Second)))
		_, err := json.Marshal(tr.Store(stage.Key(node)))
		require.NoError(t, err)
	})
}

// For any frames, clocks, and sample times, there is no panic, and every event has a time, a place,
// and a count. An instance is stored only together with its board. The state can be stored and
// restored.
func FuzzFrames(f *testing.F) {
	metrics := []gpudata.Sample{
		{Metric: metric("hw.errors"), Own: "xid_79"},
		{Metric: metric("hw.errors")},
		{Metric: metric("hw.errors"), Own: "xid_"},
		{Metric: metric(statusMetric), Own: "failed"},
		{Metric: metric(statusMetric), Own: "ok"},
		{Metric: metric(actionMetric), Own: "none"},
		{Metric: metric(throttleTime), Own: "power"},
		{Metric: metric(eventTime), Own: "hw_thermal"},
		{Metric: metric(eventActive), Own: "sw_power_cap"},
		{Metric: metric("hw.gpu.memory.utilization")},
	}
	f.Add([]byte{0, 0, 1, 1, 9, 0, 2, 1, 0x35, 6, 200, 30, 0x92, 3, 1, 250})
	f.Fuzz(func(t *testing.T, in []byte) {
		set := DefaultSettings()
		set.Holders = true
		tr := New(set)
		now, sample := int64(1000), int64(1000)
		check := func(events []Event) {
			for _, e := range events {
				require.Positive(t, e.Count, "%+v", e)
				require.NotZero(t, e.Time, "%+v", e)
				require.NotEmpty(t, e.Body)
				if e.Name != Suppressed {
					require.Equal(t, node, e.Place)
				}
			}
		}
		for ; len(in) >= 4; in = in[4:] {
			fr := &gpudata.Frame{Place: node, Time: at(sample).UnixNano()}
			for bit := range 4 { // two boards, and two instances of the first board
				if in[0]>>bit&1 == 0 {
					continue
				}
				d := fr.Device([]string{"GPU-1", "GPU-2", "GPU-1/gi1", "GPU-1/gi2"}[bit])
				if d.Observed = in[0]>>4&1 == 0; bit > 1 {
					d.Parent, d.Profile = "GPU-1", []string{"1g.10gb", ""}[in[0]>>5&1]
				} else if in[0]>>5&1 == 1 {
					d.Serial = "GPU-1" // in this case, GPU-1 and GPU-2 are two IDs of one board
				}
				s := metrics[int(in[1])%len(metrics)]
				s.Value, s.Ended = float64(in[2])/10, in[1]>>7 == 1
				if in[1]>>6&1 == 1 {
					s.Start = at(sample - int64(in[2])).UnixNano()
				}
				d.Samples.Add(s)
				if d.HoldersKnown = in[0]>>6&1 == 1; d.HoldersKnown && in[0]>>7 == 1 {
					d.User(gpudata.Holder{Namespace: "team", Pod: string('a' + rune(in[2]%3))}).Holds = true
				}
			}
			check(tr.Frame(fr, at(now), nil))
			instances := map[string]profile{}
			for _, k := range placeOf(tr, node).Devices {
				maps.Copy(instances, k.Profiles)
			}
			for id, k := range placeOf(tr, node).Devices {
				if k.Description.Parent != "" && !k.Lost {
					require.Contains(t, instances, id)
				}
			}
			check(tr.Exporter(node, "h", "http://n1:9400/metrics", in[3]%7 != 0, at(sample).UnixNano(), at(now)))
			check(tr.Tick(at(now)))
			step := int64(int8(in[3]))
			now, sample = now+step, sample+step*int64(in[2]%4)
			if in[3]%5 == 0 {
				text, err := json.Marshal(tr.Store(stage.Key(node)))
				require.NoError(t, err)
				var s Stored
				require.NoError(t, json.Unmarshal(text, &s))
				tr = New(set)
				require.NoError(t, tr.Restore(&s))
			}
		}
		check(tr.Flush(at(now)))
	})
}
