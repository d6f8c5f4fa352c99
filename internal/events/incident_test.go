package events

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/dcgm"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

// faults contains a tracker for nodes with XIDs, and the incidents that the tracker has returned.
type faults struct {
	*Tracker
	counts map[string]map[string]float64 // by device and error.type
	got    []string
}

func newFaults(set Settings) *faults {
	return &faults{Tracker: New(set), counts: map[string]map[string]float64{}}
}

// see sends a frame with GPU-1 and GPU-2 and additional XIDs. Each XID has the format device:code.
func (x *faults) see(s int64, xids ...string) {
	f := &gpudata.Frame{Place: node, Host: "h", Time: at(s).UnixNano()}
	for _, o := range xids {
		var device, code string
		_, err := fmt.Sscanf(o, "%5s:%s", &device, &code)
		if err != nil {
			panic(err)
		}
		x.counts[device]["xid_"+code]++
	}
	for _, id := range []string{"GPU-1", "GPU-2"} {
		d := f.Device(id)
		d.Observed = true
		if x.counts[id] == nil {
			x.counts[id] = map[string]float64{"xid_13": 0, "xid_31": 0, "xid_45": 0, "xid_79": 0, "xid_95": 0, "xid_999": 0}
		}
		for own, n := range x.counts[id] {
			d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: own, Value: n})
		}
	}
	x.note(x.Tick(at(s)))
	x.note(x.Frame(f, at(s), nil))
}

func (x *faults) note(events []Event) {
	for _, e := range events {
		if e.Name == XIDIncident {
			x.got = append(x.got, fmt.Sprintf("%ds %v %v %s x%d %.0fs %s", e.Time/1e9-epoch, e.Lists[AttrCodes], e.Lists[AttrDevices],
				e.Texts[AttrAction], e.Count, e.Numbers[AttrDuration], [...]string{"INFO", "WARN", "ERROR"}[e.Severity]))
		}
	}
}

func TestXIDsOfOneFaultAreOneIncident(t *testing.T) {
	x := newFaults(DefaultSettings())
	x.see(0)
	x.see(10, "GPU-2:31", "GPU-1:79")
	x.see(100, "GPU-1:45", "GPU-1:79")
	x.see(270, "GPU-1:13") // 10 s before the incident would end
	for s := int64(280); s < 450; s += 10 {
		x.see(s)
	}
	assert.Empty(t, x.got)
	x.see(450)
	assert.Equal(t, []string{"270s [13 31 45 79] [GPU-1 GPU-2] reboot_node x5 260s ERROR"}, x.got)
}

func TestThreeMinutesWithoutAnXIDEndAnIncident(t *testing.T) {
	x := newFaults(DefaultSettings())
	x.see(0)
	x.see(10, "GPU-1:31")
	x.see(190, "GPU-1:999")
	x.see(200)
	assert.Equal(t, []string{"10s [31] [GPU-1] restart_app x1 0s WARN"}, x.got)
	x.note(x.Tick(at(370)))
	assert.Equal(t, "190s [999] [GPU-1]  x1 0s WARN", x.got[1])
}

// Queued frames all arrive at the same time.
func TestAnIncidentEndsByTheTimeOfSamples(t *testing.T) {
	x := newFaults(DefaultSettings())
	x.see(0)
	for _, s := range []int64{10, 500, 510} {
		f := &gpudata.Frame{Place: node, Time: at(s).UnixNano()}
		d := f.Device("GPU-1")
		d.Observed = true
		x.counts["GPU-1"]["xid_31"]++
		d.Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "xid_31", Value: x.counts["GPU-1"]["xid_31"]})
		x.note(x.Frame(f, at(1000), nil))
	}
	x.note(x.Tick(at(1180)))
	assert.Equal(t, []string{"10s [31] [GPU-1] restart_app x1 0s WARN", "510s [31] [GPU-1] restart_app x2 10s WARN"}, x.got)
}

func TestAnIncidentSurvivesARestartAndIsReturnedOnce(t *testing.T) {
	x := newFaults(DefaultSettings())
	x.see(0)
	x.see(10, "GPU-1:31")
	x.Tracker = restarted(t, x.Tracker)
	x.see(60, "GPU-2:95")
	x.Tracker = restarted(t, x.Tracker)
	x.note(x.Tick(at(240)))
	x.Tracker = restarted(t, x.Tracker)
	x.note(x.Flush(at(2000)))
	assert.Equal(t, []string{"60s [31 95] [GPU-1 GPU-2] reset_gpu x2 50s ERROR"}, x.got)
}

func TestAnIncidentThatIsOpenAtTheEndIsReturnedThen(t *testing.T) {
	x := newFaults(DefaultSettings())
	x.see(0)
	x.see(10, "GPU-1:31")
	x.note(x.Flush(at(20)))
	assert.Equal(t, []string{"10s [31] [GPU-1] restart_app x1 0s WARN"}, x.got)
}

// An incident includes events that were suppressed or merged.
func TestAnIncidentCountsAllOfItsEvents(t *testing.T) {
	set := DefaultSettings()
	set.MaxPerMinute = 2
	x := newFaults(set)
	x.see(0)
	for s := int64(10); s < 30; s++ {
		x.see(s, "GPU-1:31", "GPU-1:45", "GPU-2:13")
	}
	x.note(x.Tick(at(210)))
	assert.Equal(t, []string{"29s [13 31 45] [GPU-1 GPU-2] workflow x60 19s WARN"}, x.got)
}

func TestXIDsOfTwoNodesAreTwoIncidents(t *testing.T) {
	tr := New(DefaultSettings())
	var got []Event
	for s := int64(0); s < 20; s += 10 {
		for _, name := range []string{"n2", "n1"} {
			f := errorsAt(s, 0, 0)
			f.Place.Node = name
			f.Devices[0].Samples.Add(gpudata.Sample{Metric: metric("hw.errors"), Own: "xid_31", Value: float64(s)})
			tr.Frame(f, at(s), nil)
		}
	}
	for _, e := range tr.Tick(at(190)) {
		if e.Name == XIDIncident {
			got = append(got, e)
		}
	}
	require.Len(t, got, 2)
	assert.Equal(t, []string{"n1", "n2"}, []string{got[0].Place.Node, got[1].Place.Node})
	assert.Equal(t, "Node n1: 10 XID errors (31) on 1 devices within 0 s. Strongest action: restart_app.", got[0].Body)
	assert.Empty(t, got[0].Device)
}

func TestEveryActionOfTheCatalogueHasARank(t *testing.T) {
	for _, x := range dcgm.XIDs() {
		assert.Contains(t, actions, x.Action.String())
	}
	order := []string{"reboot_node", "reset_gpu", "workflow", "none"}
	assert.True(t, slices.IsSortedFunc(order, func(a, b string) int { return slices.Index(actions, a) - slices.Index(actions, b) }))
	assert.Equal(t, "reset_gpu", stronger("none", "reset_gpu"))
	assert.Equal(t, "reset_gpu", stronger("reset_gpu", ""))
}
