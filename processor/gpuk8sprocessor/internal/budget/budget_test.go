package budget

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/catalogue/exporters"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpushare"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/presets"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

var n1 = gpudata.Place{Node: "n1"}

var tolerance = Tolerance{Process: 512 * mi, Ratio: 0.05}

// uses is a holder that uses so much; none is one whose usage is not known.
func uses(bytes int64) *User { return &User{Holds: true, Used: bytes, Origin: Reported} }

func none() *User { return &User{Holds: true} }

func TestReasons(t *testing.T) {
	device := func(used int64, users ...*User) *Device {
		return &Device{ID: "GPU-1", Used: used, Limit: 16 * gi, Free: Unknown, Known: true, Users: users}
	}
	with := func(d *Device, f func(*Device)) *Device {
		f(d)
		return d
	}
	seen := func(bytes int64) *User { return &User{Used: bytes, Origin: Observed} }
	for name, tt := range map[string]struct {
		device *Device
		want   Reason
	}{
		"nobody on an empty device":                        {device(0), AddsUp},
		"nobody, and what a driver takes":                  {device(400 * mi), AddsUp},
		"nobody on a used device":                          {device(5 * gi), Unexplained},
		"exactly":                                          {device(6*gi, uses(2*gi), uses(4*gi)), AddsUp},
		"CUDA contexts of two":                             {device(6*gi, uses(2*gi), uses(3*gi)), AddsUp},
		"a context was not counted (HAMi 35122 of 36336)":  {with(device(36336*mi, uses(35122*mi)), func(d *Device) { d.Limit = 80 * gi }), AddsUp},
		"more than contexts":                               {device(6*gi, uses(2*gi), uses(2*gi)), Unexplained},
		"many processes have many contexts":                {with(device(6*gi, uses(2*gi), uses(2*gi)), func(d *Device) { d.Processes = 4 }), AddsUp},
		"processes of the host explain use too":            {with(device(6*gi, uses(2*gi)), func(d *Device) { d.Other = 4 * gi }), AddsUp},
		"one is not known":                                 {device(6*gi, uses(6*gi), none()), UsageMissing},
		"nobody tells who holds it":                        {with(device(0), func(d *Device) { d.Known = false }), HoldersUnknown},
		"the device does not tell":                         {device(Unknown, uses(gi)), DeviceUnknown},
		"all zero on a used device":                        {device(5*gi, uses(0), uses(0)), FalseZero},
		"all zero on a device that is as good as empty":    {device(500*mi, uses(0), uses(0)), AddsUp},
		"one zero beside the one who uses it":              {device(5*gi, uses(0), uses(5*gi)), AddsUp},
		"zero and unknown":                                 {device(5*gi, uses(0), none()), UsageMissing},
		"zeros, and the host's processes explain it":       {with(device(5*gi, uses(0)), func(d *Device) { d.Other = 5 * gi }), AddsUp},
		"a number was impossible":                          {with(device(5*gi, uses(5*gi)), func(d *Device) { d.Impossible = true }), AboveDevice},
		"the device is above itself":                       {device(17*gi, uses(16*gi)), AboveDevice},
		"the sum is above the device's use":                {device(6*gi, uses(5*gi), uses(5*gi)), SumAboveDevice},
		"the sum is a little above, samples differ":        {device(6*gi, uses(3*gi), uses(3*gi+700*mi)), AddsUp},
		"the sum is above the device's size":               {device(16*gi, uses(9*gi), uses(8*gi)), SumAboveDevice},
		"the sum is above its size, its use is not told":   {device(Unknown, uses(9*gi), uses(8*gi)), SumAboveDevice},
		"it adds up without those who do not hold it":      {device(6*gi, uses(6*gi), seen(4*gi)), DeadSlots},
		"it does not, also without them":                   {device(6*gi, uses(9*gi), seen(4*gi)), SumAboveDevice},
		"who uses it without holding it adds up":           {device(6*gi, uses(2*gi), seen(4*gi)), AddsUp},
		"what was told is too old":                         {with(device(6*gi, none()), func(d *Device) { d.Stale = true }), StaleSource},
		"too old, but the device is as good as empty":      {with(device(300*mi, none()), func(d *Device) { d.Stale = true }), UsageMissing},
		"too old, and the device does not tell what it is": {with(device(Unknown, none()), func(d *Device) { d.Stale = true }), StaleSource},
		"the size is not known":                            {with(device(6*gi, uses(6*gi)), func(d *Device) { d.Limit = Unknown }), AddsUp},
		"the size is not known, 17 TB":                     {with(device(6*gi, uses(17*1024*gi)), func(d *Device) { d.Limit = Unknown }), SumAboveDevice},
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

func TestTheBestSourceThatHasABudgetCounts(t *testing.T) {
	declares := func(b gpushare.Budget) func(*User) {
		return func(u *User) { u.Declared = append(u.Declared, b) }
	}
	sources := []struct { // best first
		source gpushare.BudgetSource
		bytes  int64
		has    func(*User)
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
		u := &User{Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: "c"}, Holds: true, Declarations: true}
		for _, s := range sources[i:] {
			s.has(u)
		}
		d := &Device{ID: "GPU-1", Limit: 16 * gi, Users: []*User{u}}
		(&Place{Devices: []*Device{d}}).Declare(MPSBudget{Limit: 10 * gi})
		assert.Equal(t, want.source, u.Source)
		assert.Equal(t, want.bytes, u.Budget, want.source)
	}
}

func TestABudgetOfAPodIsSharedByItsContainers(t *testing.T) {
	user := func(pod, name string, declared ...gpushare.Budget) *User {
		return &User{Holder: gpudata.Holder{Namespace: "ns", Pod: pod, Container: name}, Holds: true, Declarations: true, Declared: declared}
	}
	perDevice := gpushare.Budget{Source: gpushare.BudgetKoordinatorAllocation, Minor: 1, Devices: 1, MemoryBytes: 4 * gi}
	perPod := gpushare.Budget{Source: gpushare.BudgetAnnotation, Minor: -1, MemoryBytes: 6 * gi}
	a, b, other := user("p", "a", perDevice, perPod), user("p", "b", perDevice, perPod), user("q", "a")
	again := user("p", "a", perDevice, perPod)
	p := &Place{Devices: []*Device{
		{ID: "GPU-1", Name: "nvidia1", Limit: 16 * gi, Users: []*User{a, b, other}},
		{ID: "GPU-2", Name: "nvidia2", Limit: 16 * gi, Users: []*User{again}},
	}}
	p.Declare(MPSBudget{})
	assert.Equal(t, []int64{2 * gi, 2 * gi, 0}, []int64{a.Budget, b.Budget, other.Budget}, "the device's budget by two")
	assert.EqualValues(t, 2*gi, again.Budget, "the other device is not named: the pod's budget by three")
}

func TestWhatAPodDeclaresBeyondAContainersOwnIsForTheOthers(t *testing.T) {
	perPod := gpushare.Budget{Source: gpushare.BudgetAnnotation, Minor: -1, MemoryBytes: 6 * gi}
	own := gpushare.Budget{Source: gpushare.BudgetAnnotation, Container: "own", Minor: -1, MemoryBytes: 1 * gi}
	for name, tc := range map[string]struct {
		perPod int64
		users  []string
		want   []int64
	}{
		"one other":                       {6 * gi, []string{"own", "a"}, []int64{1 * gi, 5 * gi}},
		"two others":                      {6 * gi, []string{"own", "a", "b"}, []int64{1 * gi, 5 * gi / 2, 5 * gi / 2}},
		"no other":                        {6 * gi, []string{"own"}, []int64{1 * gi}},
		"its container is not on the GPU": {6 * gi, []string{"a"}, []int64{6 * gi}},
		"nothing is left":                 {1 * gi, []string{"own", "a"}, []int64{1 * gi, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			perPod.MemoryBytes = tc.perPod
			d := &Device{ID: "GPU-1", Limit: 16 * gi}
			for _, container := range tc.users {
				d.Users = append(d.Users, &User{
					Holder: gpudata.Holder{Namespace: "ns", Pod: "p", Container: container}, Holds: true,
					Declarations: true, Declared: []gpushare.Budget{own, perPod},
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

// Whatever is told, the numbers of a device fit each other, and a sum that cannot
// be is never valid.
func TestTheNumbersOfADeviceFitEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.OneOf(rapid.Int64Range(0, 20*gi), rapid.SampledFrom([]int64{0, gi, 16 * gi, 17 * 1024 * gi}))
		d := &Device{
			Used:  rapid.OneOf(bytes, rapid.Just(int64(Unknown))).Draw(t, "used"),
			Limit: rapid.SampledFrom([]int64{Unknown, 16 * gi}).Draw(t, "limit"), Free: Unknown,
			Known: rapid.Bool().Draw(t, "known"), Labelled: rapid.Bool().Draw(t, "labelled"),
			Stale: rapid.Bool().Draw(t, "stale"), Other: rapid.Int64Range(0, gi).Draw(t, "other"),
		}
		var budgeted, all, declared int64
		for range rapid.IntRange(0, 5).Draw(t, "users") {
			u := &User{
				Holds: rapid.Bool().Draw(t, "holder"), Declarations: true,
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
			case d.Used == Unknown || !d.Known || d.Stale && d.Used > 20*gi:
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

func TestABookIsBoundedAndForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBook(time.Minute, 3)
	key := FrameKey{From: "x"}
	add := func(t int64, slot string) bool {
		return b.AddRow(key, presets.Process, t, now, presets.Row{Slot: slot}, 1)
	}
	process := func(t int64, pid string) bool {
		return b.AddProcess(n1, t, now, Process{Device: "GPU-1", PID: pid})
	}
	assert.True(t, add(1, "a"))
	assert.True(t, add(1, "b"))
	assert.True(t, process(1, "1"))
	assert.False(t, add(1, "c"), "full")
	assert.False(t, process(1, "2"), "full")
	assert.True(t, add(1, "a"), "is kept already")
	assert.True(t, add(2, "c"), "the next scrape replaces the last")
	assert.True(t, add(1, "late"), "older than what is known")
	assert.True(t, process(2, "2"))
	assert.Equal(t, 2, b.rows)
	assert.True(t, b.AddCount(n1, 2, now, "GPU-1", 1))
	assert.False(t, b.AddCount(n1, 2, now, "GPU-2", 0), "full")
	assert.True(t, b.AddCount(n1, 1, now, "GPU-2", 0), "older than what is known")
	assert.Equal(t, 3, b.rows)
	now = now.Add(time.Minute + 1)
	assert.True(t, process(1, "3"), "a clock was set back")
	now = now.Add(-time.Minute - 1)
	assert.Equal(t, 2, b.rows)
	b.Sweep(now.Add(retention))
	assert.Equal(t, 2, b.rows)
	b.Sweep(now.Add(retention + time.Hour))
	assert.Zero(t, b.rows)
}

// Who names ever new places leaves no more behind than one who names processes.
func TestABookKeepsAsManyPlacesAsRows(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBook(time.Minute, 1)
	for i, from := range []string{"n1", "n2", "n3"} {
		first := i == 0
		assert.Equal(t, first, b.AddRow(FrameKey{From: from}, presets.Process, 1, now, presets.Row{}, 1), from)
	}
	assert.Len(t, b.frames, 1)
	b = NewBook(time.Minute, 1)
	for i, node := range []string{"n1", "n2", "n3"} {
		first := i == 0
		assert.Equal(t, first, b.AddProcess(gpudata.Place{Node: node}, 1, now, Process{Device: "GPU-1", PID: "1"}), node)
		assert.False(t, b.AddCount(gpudata.Place{Node: node}, 1, now, "GPU-1", 1), node)
	}
	assert.Len(t, b.lists, 1)
}

// A process of a pod that only its UID is known of may be that of a holder that only
// the name is known of: none such is at zero.
func TestAPodThatIsKnownByItsUIDAloneMayBeOneThatIsKnownByName(t *testing.T) {
	for name, want := range map[string]Origin{"uid-b": Unlisted, "": None} {
		now := time.Unix(1000, 0)
		b := NewBook(time.Minute, 10)
		for pid, uid := range map[string]string{"1": "uid-a", "2": "uid-c"} {
			require.True(t, b.AddProcess(n1, 1, now, Process{Device: "GPU-1", PID: pid, Holder: gpudata.Holder{UID: uid}, Used: gi}))
		}
		require.True(t, b.AddCount(n1, 1, now, "GPU-1", 2))
		holder := &User{Holds: true, Holder: gpudata.Holder{Namespace: "ns", Pod: "b", UID: name}}
		d := &Device{ID: "GPU-1", Used: 2 * gi, Limit: 16 * gi, Users: []*User{
			{Holds: true, Holder: gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a"}}, holder,
		}}
		b.Fill(&Place{Place: n1, Time: 1, Devices: []*Device{d}}, now)
		assert.Equal(t, Observed, d.Users[0].Origin)
		assert.Equal(t, want, holder.Origin, name)
	}
}

func TestAnInstanceThatIsMadeAnewHasItsNewestUUID(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, newest := range []string{"MIG-a", "MIG-b"} {
		b := NewBook(time.Minute, 10)
		for _, uuid := range []string{"MIG-a", "MIG-b", newest} {
			now = now.Add(time.Second)
			require.True(t, b.AddRow(FrameKey{}, presets.MIGInfo, 1, now, presets.Row{MIGUUID: uuid, GPU: "GPU-1", Instance: "1"}, 1))
		}
		d := &Device{ID: "GPU-1/gi1", Board: "GPU-1"}
		b.Fill(&Place{Place: n1, Time: 1, Devices: []*Device{d}}, now)
		assert.Equal(t, newest, d.MIGUUID)
	}
}

func TestAProcessOfAnUnknownContainerIsNotTakenForThatOfAnother(t *testing.T) {
	now := time.Unix(1000, 0)
	for range 20 { // the order of processes is another one each time
		b := NewBook(time.Minute, 10)
		for pid, name := range map[string]string{"1": "a", "2": ""} {
			c := gpudata.Holder{Namespace: "ns", Pod: "p", UID: "uid-p", Container: name}
			require.True(t, b.AddProcess(n1, 1, now, Process{Device: "GPU-1", PID: pid, Holder: c, Used: gi}))
		}
		d := &Device{ID: "GPU-1", Used: 2 * gi, Limit: 16 * gi}
		b.Fill(&Place{Place: n1, Time: 1, Devices: []*Device{d}}, now)
		var used []string
		for _, u := range d.Users {
			used = append(used, fmt.Sprintf("%q %d", u.Container, u.Used/gi))
		}
		assert.Equal(t, []string{`"" 1`, `"a" 1`}, used)
	}
}

// A budget that names no device is not for one that the container was not given,
// though its processes are there.
func TestABudgetIsForWhatItsContainerWasGiven(t *testing.T) {
	now := time.Unix(1000, 0)
	c := gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}
	declared := func(b gpushare.Budget) []gpushare.Budget {
		b.Minor, b.MemoryBytes = -1, 6*gi
		return []gpushare.Budget{b}
	}
	ofPod := declared(gpushare.Budget{Source: gpushare.BudgetAnnotation})
	for name, tc := range map[string]struct {
		declared []gpushare.Budget // nil: an exporter tells
		holder   bool
		want     []int64
	}{
		"of a pod":                       {ofPod, true, []int64{6 * gi, 0}},
		"of a pod that was given none":   {ofPod, false, []int64{3 * gi, 3 * gi}},
		"of a container":                 {declared(gpushare.Budget{Source: gpushare.BudgetResource, Container: "c"}), true, []int64{6 * gi, 0}},
		"of a container, of each device": {declared(gpushare.Budget{Source: gpushare.BudgetKoordinator, Container: "c", Devices: 1}), true, []int64{6 * gi, 0}},
		"that an exporter tells":         {nil, true, []int64{6 * gi, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(time.Minute, 10)
			for _, id := range []string{"GPU-1", "GPU-2"} {
				require.True(t, b.AddProcess(n1, 1, now, Process{Device: id, PID: "1", Holder: c, Used: gi}))
			}
			if tc.declared == nil {
				require.True(t, b.AddRow(FrameKey{}, presets.Budget, 1, now, presets.Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "a", Container: "c"}}, 6*gi))
			}
			p := &Place{Place: n1, Time: 1, Devices: []*Device{
				{ID: "GPU-1", Used: gi, Limit: 16 * gi, Users: []*User{{Holder: c, Holds: tc.holder}}},
				{ID: "GPU-2", Used: gi, Limit: 16 * gi},
			}}
			b.Fill(p, now)
			for _, d := range p.Devices {
				require.Len(t, d.Users, 1)
				d.Users[0].Declarations, d.Users[0].Declared = true, tc.declared
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

// A pod holds its devices until it ends, also those that drop out of a scrape or come in
// a batch of their own.
func TestARowWithoutADeviceMayBeOfOneThatDropsOutOfTheScrape(t *testing.T) {
	pod := func(name, uid, container string) gpudata.Holder {
		return gpudata.Holder{Namespace: "ns", Pod: name, UID: uid, Container: container}
	}
	a, again, nameless := pod("a", "uid-a", "c"), pod("a", "uid-new", "c"), pod("a", "", "c")
	d, b := pod("a", "uid-a", "d"), pod("b", "uid-b", "c")
	device := func(id string, holders ...gpudata.Holder) *Device {
		d := &Device{ID: id, Used: 9 * gi, Limit: 16 * gi}
		d.Board = exporters.BoardOf(id)
		for _, c := range holders {
			d.Users = append(d.Users, &User{Holder: c, Holds: true})
		}
		return d
	}
	only := device("GPU-1", a)
	both := []*Device{only, device("GPU-2", a)}
	const minute, long = time.Minute, retention + time.Second
	for name, tc := range map[string]struct {
		scrapes [][]*Device // a's first container is the first user of the last one's first device
		every   time.Duration
		origin  Origin
	}{
		"one device":                          {[][]*Device{{only}}, minute, Observed},
		"two":                                 {[][]*Device{both}, minute, None},
		"of two one drops out":                {[][]*Device{both, {only}}, minute, None},
		"for hours":                           {[][]*Device{both, {only}, {only}, {only}}, retention, None},
		"after hours":                         {[][]*Device{both, both, both, {only}}, retention, None},
		"each in a batch of its own":          {[][]*Device{{device("GPU-2", a)}, {only}}, 0, None},
		"all drop out for long":               {[][]*Device{both, {only}}, long, Observed},
		"another container's drops out":       {[][]*Device{{only, device("GPU-2", d)}, {only}}, minute, None},
		"another pod's drops out":             {[][]*Device{{only, device("GPU-2", b)}, {only}}, minute, Observed},
		"it is another pod's before":          {[][]*Device{both, {only, device("GPU-2", b)}, {only}}, minute, Observed},
		"it is nobody's before":               {[][]*Device{both, {only, device("GPU-2")}, {only}}, minute, None},
		"the pod begins anew":                 {[][]*Device{both, {device("GPU-1", again)}}, minute, Observed},
		"beside a neighbour of both":          {[][]*Device{{device("GPU-1", b), device("GPU-2", a, b)}, {device("GPU-1", again, b)}}, minute, Observed},
		"pods without UIDs":                   {[][]*Device{{device("GPU-1", nameless), device("GPU-2", nameless)}, {device("GPU-1", nameless)}}, minute, Observed},
		"instances of a board that is whole":  {[][]*Device{{device("GPU-1/gi1", a), device("GPU-1/gi2", a)}, {only}}, minute, Observed},
		"the board that is cut":               {[][]*Device{{only}, {device("GPU-1/gi1", a)}}, minute, Observed},
		"of two instances one drops out":      {[][]*Device{{device("GPU-1/gi1", a), device("GPU-1/gi2", a)}, {device("GPU-1/gi1", a)}}, minute, None},
		"an instance that is no more returns": {[][]*Device{{device("GPU-1/gi1", a)}, {only}, {device("GPU-1/gi1", a)}}, minute, Observed},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBook(time.Minute, 10)
			now := time.Unix(1000, 0)
			var user *User
			for _, devices := range tc.scrapes {
				row := presets.Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "a"}}
				require.True(t, b.AddRow(FrameKey{}, presets.Pod, now.UnixNano(), now, row, 9*gi))
				p := &Place{Place: n1, Time: now.UnixNano()}
				for _, d := range devices {
					fresh := *d
					fresh.Users = nil
					for _, u := range d.Users {
						fresh.Users = append(fresh.Users, &User{Holder: u.Holder, Holds: true})
					}
					p.Devices = append(p.Devices, &fresh)
				}
				b.Fill(p, now)
				user = p.Devices[0].Users[0]
				b.Sweep(now)
				now = now.Add(tc.every)
			}
			assert.Equal(t, tc.origin, user.Origin)
		})
	}
}

// What of a budget is for the device that is not there nobody could say who asks how
// much room its pod has on all of them.
func TestABudgetStaysWithTheDevicesThatAreThere(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBook(time.Minute, 10)
	c := gpudata.Holder{Namespace: "ns", Pod: "a", UID: "uid-a", Container: "c"}
	device := func(id string) *Device {
		return &Device{ID: id, Used: gi, Limit: 16 * gi, Users: []*User{{
			Holder: c, Holds: true, Declarations: true, Declared: []gpushare.Budget{
				{Source: gpushare.BudgetResource, Container: "c", Minor: -1, MemoryBytes: 8 * gi},
			},
		}}}
	}
	require.True(t, b.AddRow(FrameKey{}, presets.Pod, now.UnixNano(), now, presets.Row{Holder: gpudata.Holder{Namespace: "ns", Pod: "a"}}, gi))
	for i, devices := range [][]*Device{{device("GPU-1"), device("GPU-2")}, {device("GPU-1")}} {
		p := &Place{Place: n1, Time: now.UnixNano(), Devices: devices}
		b.Fill(p, now)
		p.Declare(MPSBudget{})
		assert.Equal(t, []int64{4 * gi, 8 * gi}[i], p.Devices[0].Users[0].Budget)
	}
}

func TestABookForgetsWhoHeldDevices(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBook(time.Minute, 2)
	b.Fill(&Place{Place: n1, Devices: []*Device{{ID: "GPU-1", Users: []*User{{Holds: true, Holder: gpudata.Holder{UID: "uid"}}}}}}, now)
	require.Empty(t, b.held, "nobody's rows to tell apart")
	require.True(t, b.AddRow(FrameKey{}, presets.Pod, 0, now, presets.Row{Holder: gpudata.Holder{Pod: "a"}}, gi))
	for i, id := range []string{"GPU-1", "GPU-2", "GPU-3"} {
		holder := &User{Holds: true, Holder: gpudata.Holder{UID: "uid-" + id}}
		refused := b.Fill(&Place{Place: n1, Time: int64(i), Devices: []*Device{{ID: id, Users: []*User{holder}}}}, now)
		assert.Equal(t, max(i-1, 0), refused)
		assert.Len(t, b.held[n1], min(i+1, 2), "bounded")
	}
	b.Sweep(now.Add(retention))
	assert.NotEmpty(t, b.held)
	b.Sweep(now.Add(retention + time.Second))
	assert.Empty(t, b.held)
	assert.Zero(t, b.holders)
}
