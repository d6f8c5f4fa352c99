package budget

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

var n1 = gpudata.Place{Node: "n1"}

var gpu1, gpu2 = gpudata.NewDevice(n1, "GPU-1"), gpudata.NewDevice(n1, "GPU-2")

// deviceFrame returns the entry of a frame for the device with the given ID.
func deviceFrame(id string) *gpudata.DeviceFrame {
	return &gpudata.DeviceFrame{Device: gpudata.NewDevice(n1, id)}
}

var tolerance = Tolerance{Process: 512 * mi, Ratio: 0.05}

// uses returns a user that holds a device and whose usage is the given number of bytes.
func uses(bytes int64) *User { return &User{Holds: true, Used: bytes, Origin: Reported} }

// unknownUsage returns a user that holds a device and whose usage is unknown.
func unknownUsage() *User { return &User{Holds: true} }

func TestReasons(t *testing.T) {
	device := func(used int64, users ...*User) *Device {
		return &Device{ID: "GPU-1", Used: used, Limit: 16 * gi, Free: Unknown, HoldersKnown: true, Users: users}
	}
	with := func(d *Device, f func(*Device)) *Device {
		f(d)
		return d
	}
	observed := func(bytes int64) *User { return &User{Used: bytes, Origin: Observed} }
	for name, tt := range map[string]struct {
		device *Device
		want   Reason
	}{
		"no holder, an empty device":                   {device(0), AddsUp},
		"no holder, and the driver's own memory":       {device(400 * mi), AddsUp},
		"no holder, a used device":                     {device(5 * gi), Unexplained},
		"exactly":                                      {device(6*gi, uses(2*gi), uses(4*gi)), AddsUp},
		"two CUDA contexts":                            {device(6*gi, uses(2*gi), uses(3*gi)), AddsUp},
		"an uncounted context (HAMi 35122 of 36336)":   {with(device(36336*mi, uses(35122*mi)), func(d *Device) { d.Limit = 80 * gi }), AddsUp},
		"more than the CUDA contexts":                  {device(6*gi, uses(2*gi), uses(2*gi)), Unexplained},
		"many processes with many contexts":            {with(device(6*gi, uses(2*gi), uses(2*gi)), func(d *Device) { d.Processes = 4 }), AddsUp},
		"processes of the host":                        {with(device(6*gi, uses(2*gi)), func(d *Device) { d.Other = 4 * gi }), AddsUp},
		"one unknown usage":                            {device(6*gi, uses(6*gi), unknownUsage()), UsageMissing},
		"unknown holders":                              {with(device(0), func(d *Device) { d.HoldersKnown = false }), HoldersUnknown},
		"an unknown usage of the device":               {device(Unknown, uses(gi)), DeviceUnknown},
		"only zeros on a used device":                  {device(5*gi, uses(0), uses(0)), FalseZero},
		"only zeros on an almost empty device":         {device(500*mi, uses(0), uses(0)), AddsUp},
		"one zero and one user":                        {device(5*gi, uses(0), uses(5*gi)), AddsUp},
		"zero and unknown":                             {device(5*gi, uses(0), unknownUsage()), UsageMissing},
		"zeros, and processes of the host":             {with(device(5*gi, uses(0)), func(d *Device) { d.Other = 5 * gi }), AddsUp},
		"an impossible number":                         {with(device(5*gi, uses(5*gi)), func(d *Device) { d.Impossible = true }), AboveDevice},
		"the device's usage is above its size":         {device(17*gi, uses(16*gi)), AboveDevice},
		"the sum is above the device's usage":          {device(6*gi, uses(5*gi), uses(5*gi)), SumAboveDevice},
		"the sum is slightly above the device's usage": {device(6*gi, uses(3*gi), uses(3*gi+700*mi)), AddsUp},
		"the sum is above the device's size":           {device(16*gi, uses(9*gi), uses(8*gi)), SumAboveDevice},
		"the sum is above the size, unknown usage":     {device(Unknown, uses(9*gi), uses(8*gi)), SumAboveDevice},
		"the sum of only the holders adds up":          {device(6*gi, uses(6*gi), observed(4*gi)), DeadSlots},
		"the sum of only the holders is too high":      {device(6*gi, uses(9*gi), observed(4*gi)), SumAboveDevice},
		"a holder and another user":                    {device(6*gi, uses(2*gi), observed(4*gi)), AddsUp},
		"stale usage":                                  {with(device(6*gi, unknownUsage()), func(d *Device) { d.Stale = true }), StaleSource},
		"stale usage on an almost empty device":        {with(device(300*mi, unknownUsage()), func(d *Device) { d.Stale = true }), UsageMissing},
		"stale usage, unknown usage of the device":     {with(device(Unknown, unknownUsage()), func(d *Device) { d.Stale = true }), StaleSource},
		"an unknown size":                              {with(device(6*gi, uses(6*gi)), func(d *Device) { d.Limit = Unknown }), AddsUp},
		"an unknown size, 17 TB":                       {with(device(6*gi, uses(17*1024*gi)), func(d *Device) { d.Limit = Unknown }), SumAboveDevice},
	} {
		t.Run(name, func(t *testing.T) {
			tt.device.Reconcile(tolerance)
			assert.Equal(t, tt.want.String(), tt.device.Reason.String())
		})
	}
}

func TestEveryReasonHasOneState(t *testing.T) {
	want := map[State][]Reason{}
	for r := range NumReasons {
		want[r.State()] = append(want[r.State()], r)
	}
	assert.Equal(t, map[State][]Reason{
		Valid:   {AddsUp},
		Partial: {HoldersUnknown, DeviceUnknown, UsageMissing, Unexplained},
		Invalid: {FalseZero, AboveDevice, SumAboveDevice, DeadSlots, StaleSource},
	}, want)
}

func TestTheBestSourceWithABudgetApplies(t *testing.T) {
	declares := func(b gpushare.Budget) func(*User) {
		return func(u *User) { u.Declared = append(u.Declared, b) }
	}
	sources := []struct { // best first
		source gpushare.BudgetSource
		bytes  int64
		addTo  func(*User)
	}{
		{gpushare.BudgetKoordinatorAllocation, 1 * gi, declares(gpushare.Budget{Source: gpushare.BudgetKoordinatorAllocation, UUID: "GPU-1", Minor: -1, Devices: 1, MemoryBytes: 1 * gi})},
		{gpushare.BudgetHAMiAllocation, 2 * gi, declares(gpushare.Budget{Source: gpushare.BudgetHAMiAllocation, Container: "c", UUID: "GPU-1", Minor: -1, Devices: 1, MemoryBytes: 2 * gi})},
		{gpushare.BudgetDRA, 3 * gi, func(u *User) { u.Claims = []Claim{{"c", 3 * gi}} }},
		{gpushare.BudgetKoordinator, 4 * gi, declares(gpushare.Budget{Source: gpushare.BudgetKoordinator, Container: "c", Minor: -1, Devices: 1, MemoryRatio: 0.25})},
		{gpushare.BudgetHAMi, 5 * gi, declares(gpushare.Budget{Source: gpushare.BudgetHAMi, Container: "c", Minor: -1, Devices: 1, MemoryBytes: 5 * gi})},
		{gpushare.BudgetKAI, 6 * gi, func(u *User) {
			b := gpushare.Budget{Source: gpushare.BudgetKAI, Container: "c", Minor: -1, Devices: 1, MemoryBytes: 6 * gi}
			u.Declared = append(u.Declared, b, b)
		}},
		{gpushare.BudgetResource, 7 * gi, declares(gpushare.Budget{Source: gpushare.BudgetResource, Container: "c", Minor: -1, MemoryBytes: 7 * gi})},
		{gpushare.BudgetAnnotation, 8 * gi, declares(gpushare.Budget{Source: gpushare.BudgetAnnotation, Minor: -1, MemoryBytes: 8 * gi})},
		{gpushare.BudgetExporter, 9 * gi, func(u *User) { u.Exported = 9 * gi }},
		{gpushare.BudgetMPS, 10 * gi, func(u *User) { u.MPS = true }},
		{gpushare.BudgetWholeGPU, 16 * gi, func(u *User) { u.Exclusive = true }},
	}
	for i, want := range sources {
		u := &User{Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: "c"}, Holds: true, DeclarationsKnown: true}
		for _, s := range sources[i:] {
			s.addTo(u)
		}
		d := &Device{ID: "GPU-1", Limit: 16 * gi, Users: []*User{u}}
		(&Place{Devices: []*Device{d}}).Declare(MPSBudget{Limit: 10 * gi})
		assert.Equal(t, want.source, u.Source)
		assert.Equal(t, want.bytes, u.Budget, want.source)
	}
}

func TestABudgetOfAPodIsSharedByItsContainers(t *testing.T) {
	user := func(pod, name string, declared ...gpushare.Budget) *User {
		return &User{Holder: gpudata.Holder{Namespace: "ns", Pod: pod, Container: name}, Holds: true, DeclarationsKnown: true, Declared: declared}
	}
	perDevice := gpushare.Budget{Source: gpushare.BudgetKoordinatorAllocation, Minor: 1, Devices: 1, MemoryBytes: 4 * gi}
	perPod := gpushare.Budget{Source: gpushare.BudgetAnnotation, Minor: -1, MemoryBytes: 6 * gi}
	a, b, other := user("p", "a", perDevice, perPod), user("p", "b", perDevice, perPod), user("q", "a")
	otherDevice := user("p", "a", perDevice, perPod)
	p := &Place{Devices: []*Device{
		{ID: "GPU-1", Name: "nvidia1", Limit: 16 * gi, Users: []*User{a, b, other}},
		{ID: "GPU-2", Name: "nvidia2", Limit: 16 * gi, Users: []*User{otherDevice}},
	}}
	p.Declare(MPSBudget{})
	assert.Equal(t, []int64{2 * gi, 2 * gi, 0}, []int64{a.Budget, b.Budget, other.Budget}, "the device's budget, divided by two containers")
	assert.EqualValues(t, 2*gi, otherDevice.Budget, "the budget names only the first device; the other one gets the pod's budget, divided by three")
}

func TestContainersWithoutABudgetShareTheRestOfThePodsBudget(t *testing.T) {
	perPod := gpushare.Budget{Source: gpushare.BudgetAnnotation, Minor: -1, MemoryBytes: 6 * gi}
	own := gpushare.Budget{Source: gpushare.BudgetAnnotation, Container: "own", Minor: -1, MemoryBytes: 1 * gi}
	for name, tc := range map[string]struct {
		perPod int64
		users  []string
		want   []int64
	}{
		"one other":  {6 * gi, []string{"own", "a"}, []int64{1 * gi, 5 * gi}},
		"two others": {6 * gi, []string{"own", "a", "b"}, []int64{1 * gi, 5 * gi / 2, 5 * gi / 2}},
		"no other":   {6 * gi, []string{"own"}, []int64{1 * gi}},
		"the container with a budget is not on the GPU": {6 * gi, []string{"a"}, []int64{6 * gi}},
		"no budget remains":                             {1 * gi, []string{"own", "a"}, []int64{1 * gi, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			perPod.MemoryBytes = tc.perPod
			d := &Device{ID: "GPU-1", Limit: 16 * gi}
			for _, container := range tc.users {
				d.Users = append(d.Users, &User{
					Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: container}, Holds: true,
					DeclarationsKnown: true, Declared: []gpushare.Budget{own, perPod},
				})
			}
			(&Place{Devices: []*Device{d}}).Declare(MPSBudget{})
			var budgets []int64
			for _, u := range d.Users {
				budgets = append(budgets, u.Budget)
			}
			assert.Equal(t, tc.want, budgets)
		})
	}
}

// For any input, the values of a device are consistent with each other, and a device with an
// impossible sum never has the Valid state.
func TestTheNumbersOfADeviceAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.OneOf(rapid.Int64Range(0, 20*gi), rapid.SampledFrom([]int64{0, gi, 16 * gi, 17 * 1024 * gi}))
		d := &Device{
			Used:  rapid.OneOf(bytes, rapid.Just(int64(Unknown))).Draw(t, "used"),
			Limit: rapid.SampledFrom([]int64{Unknown, 16 * gi}).Draw(t, "limit"), Free: Unknown,
			HoldersKnown: rapid.Bool().Draw(t, "known"), HoldersFromLabels: rapid.Bool().Draw(t, "labeled"),
			Stale: rapid.Bool().Draw(t, "stale"), Other: rapid.Int64Range(0, gi).Draw(t, "other"),
		}
		var budgeted, all, declared int64
		for range rapid.IntRange(0, 5).Draw(t, "users") {
			u := &User{
				Holds: rapid.Bool().Draw(t, "holder"), DeclarationsKnown: true,
				Origin: Origin(rapid.IntRange(0, int(Unlisted)).Draw(t, "origin")),
				Budget: rapid.SampledFrom([]int64{0, gi, 3000 * mi}).Draw(t, "budget"),
			}
			if u.Origin != None && u.Origin != Unlisted {
				u.Used = bytes.Draw(t, "used")
			}
			all += u.Used
			declared += u.Budget
			if u.Budget > 0 {
				budgeted += u.Used
			}
			d.Users = append(d.Users, u)
		}
		d.Reconcile(tolerance)
		first := d.Result
		if d.Declared != Unknown && d.Declared != declared {
			t.Fatalf("declared %d of %d", d.Declared, declared)
		}
		if d.Unbudgeted != Unknown && d.Unbudgeted+budgeted != all {
			t.Fatalf("unbudgeted %d + budgeted %d is not %d", d.Unbudgeted, budgeted, all)
		}
		if d.Reason == AddsUp {
			switch {
			case d.Limit > 0 && float64(all) > aboveDevice*float64(d.Limit):
				t.Fatalf("valid with %d on a device of %d", all, d.Limit)
			case d.Used == Unknown || !d.HoldersKnown || d.Stale && d.Used > 20*gi:
				t.Fatalf("valid without %+v", d)
			case float64(all+d.Other-d.Used) > float64(tolerance.Process)+tolerance.Ratio*float64(d.Used):
				t.Fatalf("valid with %d of %d", all, d.Used)
			}
		}
		rand.Shuffle(len(d.Users), func(i, j int) { d.Users[i], d.Users[j] = d.Users[j], d.Users[i] })
		d.Reconcile(tolerance)
		if d.Result != first {
			t.Fatalf("%+v, and in another order %+v", first, d.Result)
		}
	})
}

func TestABookIsLimitedAndDropsOldRows(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBook(time.Minute, NewLimits(3))
	stated := func(t int64, pod string) bool {
		return b.AddStated(gpu1, t, now, gpudata.Holder{Namespace: "ns", Pod: pod}, 1, Unknown)
	}
	budget := func(pod string) bool {
		return b.AddStated(gpu1, 2, now, gpudata.Holder{Pod: pod}, Unknown, 1)
	}
	assert.True(t, stated(1, "a"))
	assert.True(t, stated(1, "b"))
	assert.True(t, stated(1, "c"))
	assert.False(t, stated(1, "d"), "full")
	assert.True(t, stated(1, "a"), "the value is already stored")
	assert.True(t, stated(2, "d"), "newer values replace the stored values")
	assert.True(t, stated(1, "late"), "older than the stored values")
	assert.Equal(t, 1, b.limits.rows.Used())
	assert.True(t, budget("a"))
	assert.True(t, budget("b"))
	assert.False(t, budget("c"), "the book is also full of budgets")
	now = now.Add(time.Minute + 1)
	assert.True(t, stated(1, "e"), "the clock was set back")
	assert.Equal(t, 3, b.limits.rows.Used())
	b.Sweep(now)
	assert.Equal(t, 1, b.limits.rows.Used(), "a budget is deleted with its source")
	b.Sweep(now.Add(retention + time.Hour))
	assert.Zero(t, b.limits.rows.Used())
	assert.Empty(t, b.stated)
}

// The limit also applies if every scrape contains new devices.
func TestABookKeepsAtMostMaxRowsDevices(t *testing.T) {
	now := time.Unix(1000, 0)
	stated := NewBook(time.Minute, NewLimits(1))
	for i, node := range []string{"n1", "n2", "n3"} {
		d := gpudata.NewDevice(gpudata.Place{Node: node}, "GPU-1")
		assert.Equal(t, i == 0, stated.AddStated(d, 1, now, gpudata.Holder{Pod: "a"}, 1, Unknown), node)
	}
	assert.Len(t, stated.stated, 1)
}

// If a source sends a process list every 10 s, the list becomes stale after 20 s, even if max_age
// is longer than 20 s.
func TestAListAppliesForTwoIntervalsOfItsSource(t *testing.T) {
	now := time.Unix(1000, 0)
	const second = int64(time.Second)
	for name, tc := range map[string]struct {
		lists []int64 // in seconds
		want  map[int64]bool
	}{
		"the interval is unknown":      {[]int64{100}, map[int64]bool{101: true, 160: true, 161: false}},
		"every 10 s":                   {[]int64{90, 100}, map[int64]bool{101: true, 120: true, 121: false, 80: true, 79: false}},
		"every 50 s, max_age is lower": {[]int64{50, 100}, map[int64]bool{160: true, 161: false}},
		"every 10 s, then 20 s":        {[]int64{70, 80, 100}, map[int64]bool{140: true, 141: false}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(time.Minute, NewLimits(10))
			h := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
			list := &gpudata.ProcessList{}
			for _, at := range tc.lists {
				if list.Time != 0 {
					list.Interval = at*second - list.Time
				}
				list.Time = at * second
				require.True(t, b.AddStated(gpu2, at*second, now, h, gi, Unknown))
			}
			for at, fresh := range tc.want {
				devices := []*Device{
					{ID: "GPU-1", Frame: deviceFrame("GPU-1"), Users: []*User{{Holder: h, Holds: true}}, Listed: []Process{{Holder: h, Used: gi}}},
					{ID: "GPU-2", Frame: deviceFrame("GPU-2"), Users: []*User{{Holder: h, Holds: true}}},
				}
				devices[0].Frame.ProcessList = list
				b.Fill(&Place{Place: n1, Time: at * second, Devices: devices})
				for _, d := range devices {
					assert.Equal(t, fresh, d.Users[0].Origin == Observed, "%s at %d s", d.ID, at)
					assert.Equal(t, !fresh, d.Stale, "%s at %d s", d.ID, at)
				}
			}
		})
	}
}

// HAMi's monitor reports the budget of a container. HAMi's scheduler reports the memory that is
// reserved for the pod. The reserved memory and the budget have different timestamps.
func TestExportersStateBudgetsOfContainersAndPods(t *testing.T) {
	now := time.Unix(1000, 0)
	holder := func(container string) gpudata.Holder {
		return gpudata.Holder{Namespace: "ns", Pod: "a", Container: container}
	}
	b := NewBook(time.Minute, NewLimits(10))
	require.True(t, b.AddStated(gpu1, 10, now, holder("main"), Unknown, 3*gi), "the monitor's value")
	require.True(t, b.AddStated(gpu1, 11, now, holder(""), Unknown, 4*gi), "the scheduler's value")
	require.True(t, b.AddStated(gpu1, 12, now, gpudata.Holder{Namespace: "ns", Pod: "b"}, Unknown, 5*gi), "the budget of another pod")
	d := &Device{ID: "GPU-1", Frame: deviceFrame("GPU-1")}
	for _, container := range []string{"main", "side", "init"} {
		d.Users = append(d.Users, &User{Holder: holder(container), Holds: true, DeclarationsKnown: true})
	}
	p := &Place{Place: n1, Time: 13, Devices: []*Device{d}}
	b.Fill(p)
	p.Declare(MPSBudget{})
	var budgets []int64
	for _, u := range d.Users {
		budgets = append(budgets, u.Budget/gi)
	}
	assert.Equal(t, []int64{3, 2, 2}, budgets, "the containers without a budget share the pod's budget")
}

// setList sets the process list of d to a complete list that contains the given processes.
func setList(d *Device, processes ...Process) {
	d.Listed = processes
	d.Frame.ProcessList = &gpudata.ProcessList{Time: 1, Counted: true, Count: len(processes), Processes: make([]gpudata.ListedProcess, len(processes))}
}

// Sometimes a process is known only by the UID of its pod, and a holder is known only by the name
// of its pod. The process and the holder could be in the same pod, so the usage of the holder must
// not be reported as zero.
func TestAPodWithOnlyAUIDMayBeAPodWithOnlyAName(t *testing.T) {
	for name, want := range map[string]Origin{"uid-b": Unlisted, "": None} {
		b := NewBook(time.Minute, NewLimits(10))
		holder := &User{Holds: true, Holder: gpudata.Holder{Namespace: "ns", Pod: "b", UID: name}}
		d := &Device{ID: "GPU-1", Frame: deviceFrame("GPU-1"), Used: 2 * gi, Limit: 16 * gi, Users: []*User{
			{Holds: true, Holder: gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a"}}, holder,
		}}
		setList(d, Process{gpudata.Holder{UID: "uid-a"}, gi}, Process{gpudata.Holder{UID: "uid-c"}, gi})
		b.Fill(&Place{Place: n1, Time: 1, Devices: []*Device{d}})
		assert.Equal(t, Observed, d.Users[0].Origin)
		assert.Equal(t, want, holder.Origin, name)
	}
}

func TestAProcessOfAnUnknownContainerIsNotAttributedToAnotherContainer(t *testing.T) {
	in := func(container string) Process {
		return Process{gpudata.Holder{Namespace: "ns", Pod: "p", UID: "uid-p", Container: container}, gi}
	}
	for _, processes := range [][]Process{{in("a"), in("")}, {in(""), in("a")}} {
		b := NewBook(time.Minute, NewLimits(10))
		d := &Device{ID: "GPU-1", Frame: deviceFrame("GPU-1"), Used: 2 * gi, Limit: 16 * gi}
		setList(d, processes...)
		b.Fill(&Place{Place: n1, Time: 1, Devices: []*Device{d}})
		var used []string
		for _, u := range d.Users {
			used = append(used, fmt.Sprintf("%q %d", u.Container, u.Used/gi))
		}
		assert.Equal(t, []string{`"" 1`, `"a" 1`}, used)
	}
}

// A budget that names no device applies only to the devices that are allocated to the container. A
// budget that names no device does not apply to other devices on which the container runs
// processes.
func TestABudgetAppliesToTheDevicesAllocatedToItsContainer(t *testing.T) {
	c := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	declared := func(b gpushare.Budget) []gpushare.Budget {
		b.Minor, b.MemoryBytes = -1, 6*gi
		return []gpushare.Budget{b}
	}
	ofPod := declared(gpushare.Budget{Source: gpushare.BudgetAnnotation})
	for name, tc := range map[string]struct {
		declared []gpushare.Budget
		holder   bool
		want     []int64
	}{
		"a pod's budget": {ofPod, true, []int64{6 * gi, 0}},
		"a pod's budget, and no allocated device": {ofPod, false, []int64{3 * gi, 3 * gi}},
		"a container's budget":                    {declared(gpushare.Budget{Source: gpushare.BudgetResource, Container: "c"}), true, []int64{6 * gi, 0}},
		"a container's budget for each device":    {declared(gpushare.Budget{Source: gpushare.BudgetKoordinator, Container: "c", Devices: 1}), true, []int64{6 * gi, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(time.Minute, NewLimits(10))
			p := &Place{Place: n1, Time: 1, Devices: []*Device{
				{ID: "GPU-1", Frame: deviceFrame("GPU-1"), Used: gi, Limit: 16 * gi, Users: []*User{{Holder: c, Holds: tc.holder}}},
				{ID: "GPU-2", Frame: deviceFrame("GPU-2"), Used: gi, Limit: 16 * gi},
			}}
			for _, d := range p.Devices {
				setList(d, Process{c, gi})
			}
			b.Fill(p)
			for _, d := range p.Devices {
				require.Len(t, d.Users, 1)
				d.Users[0].DeclarationsKnown, d.Users[0].Declared = true, tc.declared
			}
			p.Declare(MPSBudget{})
			var budgets []int64
			for _, d := range p.Devices {
				budgets = append(budgets, d.Users[0].Budget)
			}
			assert.Equal(t, tc.want, budgets)
		})
	}
}

func TestABookKeepsTheNewestMemoryOfADevice(t *testing.T) {
	type memory struct{ used, limit, free int64 }
	const u = Unknown
	now := time.Unix(1000, 0)
	b := NewBook(time.Minute, NewLimits(10))
	for _, step := range []struct {
		name        string
		time        int64 // The time is in seconds.
		frame, want memory
		stored      bool
	}{
		{"no memory yet", 100, memory{u, u, u}, memory{u, u, u}, false},
		{"a limit without usage", 100, memory{u, 16, u}, memory{u, 16, u}, false},
		{"usage without a limit", 110, memory{5, u, 10}, memory{5, 16, 10}, false},
		{"a frame without memory", 120, memory{u, u, u}, memory{5, 16, 10}, true},
		{"usage without free memory", 130, memory{6, 16, u}, memory{6, 16, u}, false},
		{"a late frame", 115, memory{4, 16, 11}, memory{4, 16, 11}, false},
		{"after the late frame", 140, memory{u, u, u}, memory{6, 16, u}, true},
		{"a frame within max_age", 190, memory{u, u, u}, memory{6, 16, u}, true},
		{"a frame after max_age", 191, memory{u, u, u}, memory{u, u, u}, false},
	} {
		d := &Device{Frame: deviceFrame("GPU-1"), Used: step.frame.used, Limit: step.frame.limit, Free: step.frame.free}
		b.UpdateMemory(d, step.time*int64(time.Second), now)
		assert.Equal(t, step.want, memory{d.Used, d.Limit, d.Free}, step.name)
		assert.Equal(t, step.stored, d.UsedStored, step.name)
	}

	now = now.Add(time.Minute + 1)
	d := &Device{Frame: deviceFrame("GPU-1"), Used: 7, Limit: 16, Free: 8}
	b.UpdateMemory(d, 20*int64(time.Second), now)
	d = &Device{Frame: deviceFrame("GPU-1"), Used: Unknown, Limit: Unknown, Free: Unknown}
	b.UpdateMemory(d, 30*int64(time.Second), now)
	assert.EqualValues(t, 7, d.Used, "the clock was set back")
}

// Lists of two sources, and late frames, alternate between times.
func TestTheUsageOfEachTimeIsSentOnce(t *testing.T) {
	b := NewBook(time.Minute, NewLimits(10))
	d := &Device{Frame: deviceFrame("GPU-1")}
	sent := func(at int64, pod string) bool {
		d.UsedAt = at
		return b.MarkSent(d, &User{Holder: gpudata.Holder{Namespace: "ns", Pod: pod}}, time.Unix(1000, 0))
	}
	assert.True(t, sent(20, "a"))
	assert.True(t, sent(10, "a"), "an older list that arrives later")
	assert.True(t, sent(10, "b"))
	assert.False(t, sent(20, "a"))
	assert.False(t, sent(10, "b"))
	for at := range int64(10) {
		assert.True(t, sent(30+at, "a"))
		assert.False(t, sent(30+at, "a"))
	}
	assert.Len(t, b.memory[d.Frame.Device].sent, maxSent)
}
