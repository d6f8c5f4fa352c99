package attribution

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
)

var node1 = gpudata.Place{Node: "n1"}

// heldDevice returns the entry of a frame for a device on node1 that has the given holders. If the
// caller passes no holders, the device's holders are unknown.
func heldDevice(id string, holders ...gpudata.Holder) *gpudata.DeviceFrame {
	d := &gpudata.DeviceFrame{Device: gpudata.NewDevice(node1, id), Observed: true, HoldersKnown: len(holders) > 0}
	d.Parent = exporters.BoardOf(id)
	for _, h := range holders {
		d.AddUser(&gpudata.User{Holder: h, Holds: true})
	}
	return d
}

func podHolder(name, uid, container string) gpudata.Holder {
	return gpudata.Holder{Namespace: "ns", Pod: name, UID: uid, Container: container}
}

// A pod holds its devices until the pod ends, even if a device is missing from a scrape or arrives
// in a separate batch. If one of a pod's devices is missing from the scrape, the device of the
// pod's processes is unknown.
func TestAProcessWithoutADeviceMayBeOnADeviceMissingFromTheScrape(t *testing.T) {
	a, again, nameless := podHolder("a", "uid-a", "c"), podHolder("a", "uid-new", "c"), podHolder("a", "", "c")
	d, b := podHolder("a", "uid-a", "d"), podHolder("b", "uid-b", "c")
	type frame = []*gpudata.DeviceFrame
	only, both := frame{heldDevice("GPU-1", a)}, frame{heldDevice("GPU-1", a), heldDevice("GPU-2", a)}
	const hold, soon, later = 2 * time.Minute, time.Minute, 3 * time.Minute
	for name, tc := range map[string]struct {
		frames []frame
		every  time.Duration
		want   string // want is the device of the process, or empty if the device is unknown.
	}{
		"one device":                      {[]frame{only}, soon, "GPU-1"},
		"two":                             {[]frame{both}, soon, ""},
		"one of two is missing":           {[]frame{both, only}, soon, ""},
		"for long":                        {[]frame{both, only, only, only}, later, ""},
		"for hours":                       {[]frame{both, only, only, only}, 50 * time.Minute, ""},
		"each in a separate batch":        {[]frame{{heldDevice("GPU-2", a)}, only}, 0, ""},
		"another container's is missing":  {[]frame{{heldDevice("GPU-1", a), heldDevice("GPU-2", d)}, only}, soon, ""},
		"another pod's is missing":        {[]frame{{heldDevice("GPU-1", a), heldDevice("GPU-2", b)}, only}, soon, "GPU-1"},
		"another pod held it earlier":     {[]frame{both, {heldDevice("GPU-1", a), heldDevice("GPU-2", b)}, only}, soon, "GPU-1"},
		"its holders were unknown":        {[]frame{both, {heldDevice("GPU-1", a), heldDevice("GPU-2")}, only}, soon, ""},
		"a new pod with the same name":    {[]frame{both, {heldDevice("GPU-1", again)}, {heldDevice("GPU-1", again)}}, later, "GPU-1"},
		"a neighbor holds both":           {[]frame{{heldDevice("GPU-1", b), heldDevice("GPU-2", a, b)}, {heldDevice("GPU-1", again, b)}}, later, "GPU-1"},
		"pods without UIDs":               {[]frame{{heldDevice("GPU-1", nameless), heldDevice("GPU-2", nameless)}, {heldDevice("GPU-1", nameless)}}, later, "GPU-1"},
		"a board that lost its instances": {[]frame{{heldDevice("GPU-1/gi1", a), heldDevice("GPU-1/gi2", a)}, only}, soon, "GPU-1"},
		"a board that gets instances":     {[]frame{only, {heldDevice("GPU-1/gi1", a)}}, soon, "GPU-1/gi1"},
		"one of two instances is missing": {[]frame{{heldDevice("GPU-1/gi1", a), heldDevice("GPU-1/gi2", a)}, {heldDevice("GPU-1/gi1", a)}}, soon, ""},
		"a deleted instance returns":      {[]frame{{heldDevice("GPU-1/gi1", a)}, only, {heldDevice("GPU-1/gi1", a)}}, soon, "GPU-1/gi1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlacement(hold)
			now := time.Unix(10_000, 0)
			for _, devices := range tc.frames {
				p.StoreFrame(now, &gpudata.Frame{Place: node1, Devices: devices})
				now = now.Add(tc.every)
			}
			at, ok := p.FindDevice(&gpudata.Unplaced{Process: gpudata.Process{PID: "7", Holder: gpudata.Holder{Namespace: "ns", Pod: "a"}}})
			assert.Equal(t, tc.want != "", ok)
			assert.Equal(t, tc.want, at.ID)
		})
	}
}

// Frames can arrive out of order, for example after an agent sends a batch again.
func TestALateFrameDoesNotReplaceNewerHolders(t *testing.T) {
	a, b := podHolder("a", "uid-a", "c"), podHolder("b", "uid-b", "c")
	type frame struct {
		time    int64 // The time is in seconds.
		devices []*gpudata.DeviceFrame
	}
	one := func(d ...*gpudata.DeviceFrame) []*gpudata.DeviceFrame { return d }
	swapped := one(heldDevice("GPU-1", b), heldDevice("GPU-2", a))
	for name, tc := range map[string]struct {
		frames []frame
		want   string // want is the device of the process of pod a, or empty if the device is unknown.
	}{
		"in order": {[]frame{{100, one(heldDevice("GPU-1", a), heldDevice("GPU-2", b))}, {130, swapped}}, "GPU-2"},
		"late":     {[]frame{{130, swapped}, {100, one(heldDevice("GPU-1", a), heldDevice("GPU-2", b))}}, "GPU-2"},
		"late, but the newer holders are unknown": {
			[]frame{{130, one(heldDevice("GPU-1"), heldDevice("GPU-2"))}, {100, one(heldDevice("GPU-1", a), heldDevice("GPU-2", b))}}, "GPU-1",
		},
		"late, with another device": {[]frame{{130, one(heldDevice("GPU-2", b))}, {100, one(heldDevice("GPU-1", a))}}, "GPU-1"},
		"late, before the board was partitioned": {
			[]frame{{130, one(heldDevice("GPU-1/gi1", a), heldDevice("GPU-1/gi2", b))}, {100, one(heldDevice("GPU-1", a))}}, "GPU-1/gi1",
		},
		"a clock that was set back": {[]frame{{1000, swapped}, {100, one(heldDevice("GPU-1", a), heldDevice("GPU-2", b))}}, "GPU-1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPlacement(2 * time.Minute)
			for _, f := range tc.frames {
				p.StoreFrame(time.Unix(10_000, 0), &gpudata.Frame{Place: node1, Time: f.time * int64(time.Second), Devices: f.devices})
			}
			at, _ := p.FindDevice(&gpudata.Unplaced{Process: gpudata.Process{PID: "7", Holder: gpudata.Holder{Namespace: "ns", Pod: "a"}}})
			assert.Equal(t, tc.want, at.ID)
		})
	}
}

// The frame contains one board with two instances, and two boards without instances.
func TestAProcessIsPlacedByTheAttributesOfItsExporter(t *testing.T) {
	a, b, c := podHolder("a", "uid-a", "c"), podHolder("b", "uid-b", "c"), podHolder("c", "uid-c", "c")
	gi1, gi2 := heldDevice("GPU-1/gi1", a), heldDevice("GPU-1/gi2", a, b)
	gi1.MIGUUID, gi2.MIGUUID = "MIG-1", "MIG-2"
	gi1.Name = "nvidia0" // gi2 has no name
	board1, board2, board3 := heldDevice("GPU-1"), heldDevice("GPU-2", b), heldDevice("GPU-3", c)
	board1.Name, board2.Name, board3.Name = "nvidia0", "nvidia1", "nvidia2"
	p := NewPlacement(time.Minute)
	p.StoreFrame(time.Unix(1000, 0), &gpudata.Frame{Place: node1, Devices: []*gpudata.DeviceFrame{board1, gi1, gi2, board2, board3}})
	in := func(pod string) gpudata.Holder { return gpudata.Holder{Namespace: "ns", Pod: pod} }
	for name, tc := range map[string]struct {
		named  gpudata.NamedDevice
		holder gpudata.Holder
		want   string
		as     gpudata.Holder
	}{
		"a board":                                           {gpudata.NamedDevice{Board: "GPU-2"}, gpudata.Holder{}, "GPU-2", gpudata.Holder{}},
		"a board, with any holder":                          {gpudata.NamedDevice{Board: "GPU-2"}, in("x"), "GPU-2", in("x")},
		"a board by its number":                             {gpudata.NamedDevice{Name: "nvidia2"}, in("c"), "GPU-3", c},
		"a board that is in no frame":                       {gpudata.NamedDevice{Board: "GPU-9"}, in("x"), "GPU-9", in("x")},
		"a MIG device":                                      {gpudata.NamedDevice{MIGUUID: "MIG-2"}, in("b"), "GPU-1/gi2", b},
		"a MIG device that is in no frame":                  {gpudata.NamedDevice{MIGUUID: "MIG-9"}, in("b"), "", gpudata.Holder{}},
		"an unknown number":                                 {gpudata.NamedDevice{Name: "nvidia9"}, in("c"), "", gpudata.Holder{}},
		"the board of the container's only instance":        {gpudata.NamedDevice{Board: "GPU-1"}, in("b"), "GPU-1/gi2", b},
		"the board number of the container's only instance": {gpudata.NamedDevice{Name: "nvidia0"}, in("b"), "GPU-1/gi2", b},
		"the board of several held instances":               {gpudata.NamedDevice{Board: "GPU-1"}, in("a"), "", gpudata.Holder{}},
		"the board of instances without that holder":        {gpudata.NamedDevice{Board: "GPU-1"}, in("c"), "", gpudata.Holder{}},
		"the board of instances, without a container":       {gpudata.NamedDevice{Name: "nvidia0"}, gpudata.Holder{}, "", gpudata.Holder{}},
		"nothing, and one held device":                      {gpudata.NamedDevice{}, in("c"), "GPU-3", c},
		"nothing, and two held devices":                     {gpudata.NamedDevice{}, in("b"), "", gpudata.Holder{}},
		"nothing, and no held device":                       {gpudata.NamedDevice{}, in("x"), "", gpudata.Holder{}},
		"nothing, without a container":                      {gpudata.NamedDevice{}, gpudata.Holder{}, "", gpudata.Holder{}},
	} {
		t.Run(name, func(t *testing.T) {
			at, ok := p.FindDevice(&gpudata.Unplaced{Process: gpudata.Process{PID: "7", Holder: tc.holder}, Named: tc.named})
			assert.Equal(t, tc.want != "", ok)
			assert.Equal(t, tc.want, at.ID)
			assert.Equal(t, tc.as, at.Holder)
		})
	}
}

func TestOnANodeWithOneBoardEveryProcessIsOnIt(t *testing.T) {
	p := NewPlacement(time.Minute)
	_, ok := p.FindDevice(&gpudata.Unplaced{})
	assert.False(t, ok, "no device is known")
	p.StoreFrame(time.Unix(1000, 0), &gpudata.Frame{Place: node1, Devices: []*gpudata.DeviceFrame{heldDevice("GPU-1", podHolder("a", "uid-a", "c"))}})
	for _, h := range []gpudata.Holder{{}, {Namespace: "ns", Pod: "x"}} {
		at, ok := p.FindDevice(&gpudata.Unplaced{Process: gpudata.Process{Holder: h}})
		assert.True(t, ok)
		assert.Equal(t, Placed{ID: "GPU-1", Holder: h}, at)
	}
}

// HAMi's monitor reports the holder of a device but does not describe the device.
func TestAFrameThatDoesNotDescribeADeviceKeepsItsDescription(t *testing.T) {
	p := NewPlacement(time.Minute)
	full, bare := heldDevice("GPU-1"), heldDevice("GPU-1", podHolder("a", "", "c"))
	full.Name, full.Model, bare.Observed = "nvidia0", "NVIDIA H100", false
	for _, d := range []*gpudata.DeviceFrame{full, bare} {
		p.StoreFrame(time.Unix(1000, 0), &gpudata.Frame{Place: node1, Devices: []*gpudata.DeviceFrame{d}})
	}
	at, ok := p.FindDevice(&gpudata.Unplaced{Named: gpudata.NamedDevice{Name: "nvidia0"}})
	assert.True(t, ok)
	assert.Equal(t, gpudata.Description{Name: "nvidia0", Model: "NVIDIA H100"}, at.Description)
}
