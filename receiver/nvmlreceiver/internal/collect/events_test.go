package collect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

const interval = 15 * time.Second

// The xids function performs a collection after one interval and returns the XID error samples as
// text, including the number of seconds since the start of the count.
func xids(t *testing.T, c *Collector, m *machine) []string {
	t.Helper()
	var list []string
	for _, p := range next(t, c, m, interval) {
		if p.Metric == signal.HwErrors && (p.Own == "" || strings.HasPrefix(p.Own, signal.ErrorTypeXIDPrefix)) {
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s", p.Device.ID, p.Own))+
				fmt.Sprintf(" = %g in %g", p.Value, m.clock.Sub(time.Unix(0, p.Start)).Seconds()))
		}
	}
	slices.Sort(list)
	return list
}

// The watching function returns a Collector that assumes that the library stays loaded.
func watching(m *machine) *Collector {
	m.clock = time.Unix(1e9, 0)
	return New(Options{Devices: true, AllProcesses: true, Hold: true, Now: m.now})
}

// The happen method simulates XID errors on a board of the machine.
func (m *machine) happen(board int, codes ...uint64) {
	for _, code := range codes {
		m.queue = append(m.queue, nvml.XIDEvent{Device: nvml.Device(m.boards[board]), Instance: nvml.NoInstance, Code: code})
	}
}

func TestXIDErrorsAreCountedSinceABoardIsWatched(t *testing.T) {
	m := &machine{}
	m.board("GPU-1")
	m.board("GPU-2")
	c := watching(m)
	assert.Empty(t, xids(t, c, m), "nothing has been observed")
	assert.Equal(t, []string{"GPU-1 = 0 in 15", "GPU-2 = 0 in 15"}, xids(t, c, m))
	m.happen(0, 31, 31, 43)
	assert.Equal(t, []string{"GPU-1 xid_31 = 2 in 15", "GPU-1 xid_43 = 1 in 15", "GPU-2 = 0 in 30"}, xids(t, c, m))
	m.happen(0, 31)
	assert.Equal(t, []string{"GPU-1 xid_31 = 3 in 30", "GPU-1 xid_43 = 1 in 30", "GPU-2 = 0 in 45"}, xids(t, c, m))
	c.Release(m)
	assert.Zero(t, m.set)
}

func TestInstanceErrorIsAttributedToTheInstance(t *testing.T) {
	m := &machine{}
	m.board("GPU-1", 7, 8)
	c := watching(m)
	xids(t, c, m)
	m.queue = []nvml.XIDEvent{{Instance: 7, Code: 43}, {Instance: 9, Code: 94}, {Instance: nvml.NoInstance, Code: 63}}
	assert.Equal(t, []string{
		"GPU-1 xid_63 = 1 in 15", "GPU-1 xid_94 = 1 in 15", "GPU-1/gi7 xid_43 = 1 in 15", "GPU-1/gi8 = 0 in 15",
	}, xids(t, c, m), "the error of an unknown instance belongs to the board")
}

// On a board with slow calls, the collector first assumes that the instances are the same as before.
// When the collector notices that the board was repartitioned, only the new instances remain.
func TestErrorIsAttributedToTheNewInstanceAfterABoardIsRepartitioned(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2, 3, 4, 5, 6, 7)
	c := watching(m)
	for i := range board.migs {
		m.mig(board, i).slow = time.Second
	}
	xids(t, c, m)
	for i := range board.migs {
		d := m.mig(board, i)
		d.uuid, d.slow = d.uuid+"-new", 0
	}
	xids(t, c, m)
	m.happen(0, 63)
	want := []string{"GPU-1 xid_63 = 1 in 15"}
	for id := range uint32(7) {
		m.queue = append(m.queue, nvml.XIDEvent{Instance: id + 1, Code: 43})
		want = append(want, fmt.Sprintf("GPU-1/gi%d xid_43 = 1 in 15", id+1))
	}
	assert.Equal(t, want, xids(t, c, m))
	for i := range want {
		want[i] = strings.Replace(want[i], "in 15", "in 30", 1)
	}
	assert.Equal(t, want, xids(t, c, m), "the errors are still counted")
}

// XID 79 means that the GPU is no longer accessible. Therefore, all later calls for this GPU fail.
func TestErrorOfALostBoardIsReported(t *testing.T) {
	m := &machine{}
	m.board("GPU-1")
	lost := m.board("GPU-2")
	c := watching(m)
	xids(t, c, m)
	xids(t, c, m)
	m.happen(1, 79)
	lost.fails = nvml.ErrGPULost
	assert.Equal(t, []string{"GPU-1 = 0 in 30", "GPU-2 xid_79 = 1 in 15"}, xids(t, c, m))
	assert.Equal(t, []string{"GPU-1 = 0 in 45"}, xids(t, c, m))
	lost.fails = nil
	xids(t, c, m)
	assert.Equal(t, []string{"GPU-1 = 0 in 75", "GPU-2 = 0 in 15"}, xids(t, c, m), "a board that returns restarts the count")
	assert.Len(t, m.watching, 2, "a board that returns is watched once")
}

func TestMissingSupportForEventsIsNotAProblem(t *testing.T) {
	for name, change := range map[string]func(*machine, *Options){
		"a library without events":                     func(m *machine, _ *Options) { m.noEvents = nvml.ErrFunctionNotFound },
		"an event set that cannot be created":          func(m *machine, _ *Options) { m.noEvents = nvml.ErrUnknown },
		"a board without events":                       func(m *machine, _ *Options) { m.devices[0].unwatched = nvml.ErrNotSupported },
		"missing permission":                           func(m *machine, _ *Options) { m.devices[0].unwatched = nvml.ErrNoPermission },
		"an event set in an unknown state":             func(m *machine, _ *Options) { m.devices[0].unwatched = nvml.ErrUnknown },
		"a library that is closed between collections": func(_ *machine, o *Options) { o.Hold = false },
		"processes alone":                              func(_ *machine, o *Options) { o.Devices = false },
		"errors are disabled":                          func(_ *machine, o *Options) { o.Disabled = map[*signal.Metric]bool{signal.HwErrors: true} },
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{clock: time.Unix(1e9, 0)}
			m.board("GPU-1")
			o := Options{Devices: true, AllProcesses: true, Hold: true, Now: m.now}
			change(m, &o)
			c := New(o)
			for range 3 {
				assert.Empty(t, xids(t, c, m))
				require.NoError(t, c.Problem())
			}
			c.Release(m)
			assert.Zero(t, m.set)
		})
	}
}

func TestBoardThatBreaksTheEventSetDoesNotAffectOthers(t *testing.T) {
	m := &machine{}
	m.board("GPU-1")
	m.board("GPU-2").unwatched = nvml.ErrUnknown
	c := watching(m)
	xids(t, c, m)
	xids(t, c, m)
	assert.Equal(t, []string{"GPU-1 = 0 in 15"}, xids(t, c, m))
}

func TestFailedEventSetIsRecreatedAndCountsContinue(t *testing.T) {
	m := &machine{}
	m.board("GPU-1")
	c := watching(m)
	xids(t, c, m)
	m.happen(0, 31)
	xids(t, c, m)
	m.waiting = nvml.ErrGPULost
	assert.Empty(t, xids(t, c, m), "the board is watched again")
	assert.EqualValues(t, 1, c.Stats().CallsFailed)
	m.waiting = nil
	m.happen(0, 31)
	assert.Equal(t, []string{"GPU-1 xid_31 = 2 in 45"}, xids(t, c, m))
}

func TestImpossibleEventsAreDroppedAndTheNumberOfEventsIsLimited(t *testing.T) {
	m := &machine{}
	m.board("GPU-1")
	c := watching(m)
	xids(t, c, m)
	m.devices = append(m.devices, &device{uuid: "GPU-9"})
	m.queue = []nvml.XIDEvent{{Device: 1, Instance: nvml.NoInstance, Code: 31}}
	m.happen(0, 0, catalogue.MaxCode+1)
	assert.Equal(t, []string{"GPU-1 = 0 in 15"}, xids(t, c, m))
	assert.EqualValues(t, 3, c.Stats().ValuesDropped, "an event of an unknown board, and an event without a code")
	for range maxEvents + 1 {
		m.happen(0, 31)
	}
	assert.Equal(t, []string{fmt.Sprintf("GPU-1 xid_31 = %d in 15", maxEvents)}, xids(t, c, m))
	assert.Equal(t, []string{fmt.Sprintf("GPU-1 xid_31 = %d in 30", maxEvents+1)}, xids(t, c, m))
}
