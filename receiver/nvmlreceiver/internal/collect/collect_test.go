package collect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
)

// The machine type is a fake Library for a simulated machine. A device handle is an index into the
// devices slice.
type machine struct {
	boards  []int
	devices []*device
	clock   time.Time
	countRC error
	driver  string
	// The counters map contains the GPM samples that have not been freed.
	counters map[nvml.GPMSample]*counters
	// The mixed field is true if GPMValues was called with samples of two different devices, or
	// with two samples in the wrong order.
	mixed bool
	// The made field is the number of times that a GPM sample was created or read.
	made int
	events
}

// The events type contains the event set of a machine (0 if there is none), the watched boards, and
// the pending events.
type events struct {
	noEvents error // The error that NewEventSet returns.
	waiting  error // The error that NextXID returns.
	set      nvml.EventSet
	watching []nvml.Device
	queue    []nvml.XIDEvent
}

// The counters type contains the source of a GPM sample, and the number of the reading.
type counters struct {
	device   string
	instance uint32
	read     int
}

// device is a board or a MIG device of a simulated machine.
type device struct {
	uuid, name  string
	serial      string // empty if the library does not return a serial number
	numbers     map[nvml.Query]uint64
	fields      map[nvml.FieldID]float64 // nil if the library does not support fields
	links       map[nvml.FieldID]map[uint32]float64
	memory      *nvml.Memory
	migs        map[int]int // keyed by index
	processes   [nvml.NumProcessKinds][]nvml.Process
	samples     []nvml.ProcessSample
	fails       error                         // The error that every call returns.
	nameFails   error                         // The error that Name returns.
	failsIn     map[any]error                 // The errors that calls return, keyed by Query or ProcessKind.
	slow        time.Duration                 // The duration of a call for the identity or memory.
	memoryReads int                           // How many calls have read the memory.
	identified  int                           // How many calls have read the GPU instance ID.
	board       int                           // How many calls have read values that only boards have.
	after       []uint64                      // The times that were passed to ProcessUtilization.
	gpmFails    map[uint32]error              // The errors that ReadGPMSample returns, keyed by instance.
	unwatched   error                         // The error that WatchXIDs returns for the device.
	gpm         map[uint32]map[uint32]float64 // The GPM values, keyed by instance; nil if the board does not support GPM.
}

func (m *machine) add(d *device) int {
	m.devices = append(m.devices, d)
	return len(m.devices) - 1
}

// The board method adds a board to the machine. If instances are given, the board is in MIG mode,
// and each instance has one MIG device. The first instance has the MIG device with index 0, the
// second instance has the MIG device with index 1, and so on.
func (m *machine) board(uuid string, instances ...uint64) *device {
	d := &device{uuid: uuid, name: "NVIDIA A100", memory: &nvml.Memory{Total: 100, Free: 50, Used: 40}, numbers: map[nvml.Query]uint64{}}
	m.boards = append(m.boards, m.add(d))
	if len(instances) > 0 {
		d.numbers[nvml.MIGMode] = 1
		d.numbers[nvml.MaxMIGDevices] = 7
		d.migs = map[int]int{}
	}
	for i, id := range instances {
		d.migs[i] = m.add(&device{
			uuid: fmt.Sprintf("MIG-%s-%d", uuid, id), name: "NVIDIA A100 MIG 1g.5gb",
			numbers: map[nvml.Query]uint64{nvml.GPUInstanceID: id},
			memory:  &nvml.Memory{Total: 10, Free: 5, Used: 4},
		})
	}
	return d
}

// The mig method returns the MIG device with the given index on a board.
func (m *machine) mig(board *device, index int) *device { return m.devices[board.migs[index]] }

func (m *machine) now() time.Time { return m.clock }

func (m *machine) DeviceCount() (int, error) { return len(m.boards), m.countRC }

func (m *machine) Device(index int) (nvml.Device, error) {
	return nvml.Device(m.boards[index]), m.devices[m.boards[index]].fails
}

func (m *machine) MIGDevice(board nvml.Device, index int) (nvml.Device, error) {
	d := m.devices[board]
	if handle, ok := d.migs[index]; ok {
		return nvml.Device(handle), d.fails
	}
	return 0, nvml.ErrNotFound
}

func (m *machine) UUID(h nvml.Device) (string, error) {
	d := m.devices[h]
	m.clock = m.clock.Add(d.slow)
	return d.uuid, d.fails
}

func (m *machine) Name(h nvml.Device) (string, error) {
	d := m.devices[h]
	m.clock = m.clock.Add(d.slow)
	if d.nameFails != nil {
		return "", d.nameFails
	}
	return d.name, d.fails
}

func (m *machine) Driver() string { return m.driver }

func (m *machine) Serial(h nvml.Device) (string, error) {
	d := m.devices[h]
	d.board++
	if d.serial == "" {
		return "", nvml.ErrNotSupported
	}
	return d.serial, d.fails
}

func (m *machine) Query(h nvml.Device, q nvml.Query) (uint64, error) {
	d := m.devices[h]
	if q == nvml.GPUInstanceID {
		m.clock = m.clock.Add(d.slow)
		d.identified++
	} else {
		d.board++
	}
	if err := d.failsIn[q]; err != nil {
		return 0, err
	}
	v, ok := d.numbers[q]
	if !ok {
		return 0, nvml.ErrNotSupported
	}
	return v, d.fails
}

func (m *machine) Memory(h nvml.Device) (nvml.Memory, error) {
	d := m.devices[h]
	d.memoryReads++
	m.clock = m.clock.Add(d.slow)
	if d.memory == nil {
		return nvml.Memory{}, nvml.ErrNotSupported
	}
	return *d.memory, d.fails
}

func (m *machine) FieldValues(h nvml.Device, values []nvml.FieldValue) error {
	d := m.devices[h]
	d.board++
	if d.fails != nil {
		return d.fails
	}
	if d.fields == nil {
		return nvml.ErrFunctionNotFound
	}
	for i := range values {
		v := &values[i]
		if v.Value, v.OK = d.fields[v.ID]; !v.OK {
			v.Value, v.OK = d.links[v.ID][v.Link]
		}
	}
	return nil
}

func (m *machine) Processes(h nvml.Device, kind nvml.ProcessKind, list []nvml.Process) ([]nvml.Process, error) {
	d := m.devices[h]
	if err := d.failsIn[kind]; err != nil {
		return list, err
	}
	if d.fails != nil {
		return list, d.fails
	}
	return append(list, d.processes[kind]...), nil
}

func (m *machine) ProcessUtilization(h nvml.Device, after uint64, list []nvml.ProcessSample) ([]nvml.ProcessSample, error) {
	d := m.devices[h]
	d.board++
	d.after = append(d.after, after)
	found := false
	for _, s := range d.samples {
		if s.Time > after {
			list, found = append(list, s), true
		}
	}
	if !found {
		return list, nvml.ErrNotFound
	}
	return list, d.fails
}

func (m *machine) GPMSupported(h nvml.Device) (bool, error) {
	d := m.devices[h]
	return d.gpm != nil, d.fails
}

func (m *machine) NewGPMSample() (nvml.GPMSample, error) {
	if m.counters == nil {
		m.counters = map[nvml.GPMSample]*counters{}
	}
	m.made++
	s := nvml.GPMSample(m.made)
	m.counters[s] = &counters{}
	return s, nil
}

func (m *machine) FreeGPMSample(s nvml.GPMSample) error {
	if m.counters[s] == nil {
		panic("a sample is freed twice")
	}
	delete(m.counters, s)
	return nil
}

func (m *machine) ReadGPMSample(h nvml.Device, instance uint32, s nvml.GPMSample) error {
	d := m.devices[h]
	if err := cmp.Or(d.fails, d.gpmFails[instance]); err != nil {
		return err
	}
	m.made++
	*m.counters[s] = counters{d.uuid, instance, m.made}
	return nil
}

func (m *machine) GPMValues(first, second nvml.GPMSample, values []nvml.GPMValue) error {
	a, b := m.counters[first], m.counters[second]
	if a.read == 0 || a.read >= b.read || a.device != b.device || a.instance != b.instance {
		m.mixed = true
		return nvml.ErrInvalidArgument
	}
	for _, d := range m.devices {
		for i := range values {
			if d.uuid == b.device {
				values[i].Value, values[i].OK = d.gpm[b.instance][values[i].ID]
			}
		}
	}
	return nil
}

func (m *machine) NewEventSet() (nvml.EventSet, error) {
	if m.set != 0 {
		panic("a second set of events")
	}
	if m.noEvents == nil {
		m.set = 1
	}
	return m.set, m.noEvents
}

func (m *machine) FreeEventSet(s nvml.EventSet) error {
	if s != m.set {
		panic("a set is freed twice")
	}
	m.set, m.watching, m.queue = 0, nil, nil
	return nil
}

func (m *machine) WatchXIDs(board nvml.Device, s nvml.EventSet) error {
	if s != m.set {
		panic("no such set")
	}
	if err := cmp.Or(m.devices[board].fails, m.devices[board].unwatched); err != nil {
		return err
	}
	m.watching = append(m.watching, board)
	return nil
}

func (m *machine) NextXID(s nvml.EventSet) (nvml.XIDEvent, error) {
	switch {
	case s != m.set:
		panic("no such set")
	case m.waiting != nil:
		return nvml.XIDEvent{}, m.waiting
	case len(m.queue) == 0:
		return nvml.XIDEvent{}, nvml.ErrTimeout
	}
	e := m.queue[0]
	m.queue = m.queue[1:]
	return e, nil
}

func collector(m *machine) *Collector {
	return New(Options{Devices: true, Processes: true, AllProcesses: true, Now: m.now})
}

// The collected function performs a collection and returns the points of one metric as text.
func collected(t *testing.T, c *Collector, m *machine, metric *signal.Metric) []string {
	t.Helper()
	points, err := c.Collect(m)
	require.NoError(t, err)
	return rendered(points, metric)
}

func rendered(points []Point, metric *signal.Metric) []string {
	var list []string
	for _, p := range points {
		if p.Metric == metric {
			text := p.Device.ID
			if p.PID != 0 {
				text += fmt.Sprint(" pid ", p.PID)
			}
			list = append(list, fmt.Sprintf("%s = %g", text, p.Value))
		}
	}
	slices.Sort(list)
	return list
}

// Values that only boards have must not be queried for a MIG device, because some libraries would
// return the board's value.
func TestOnlySupportedValuesOfAMIGDeviceAreQueried(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2)
	m.mig(board, 0).processes[nvml.Compute] = []nvml.Process{{PID: 1, Memory: 1}}
	board.failsIn = map[any]error{nvml.Compute: nvml.ErrNoPermission, nvml.Graphics: nvml.ErrNoPermission, nvml.MPSCompute: nvml.ErrNoPermission}
	assert.Equal(t, []string{"GPU-1/gi1 = 4", "GPU-1/gi2 = 4"}, collected(t, collector(m), m, signal.HwGPUMemoryUsage))
	for i := range 2 {
		assert.Zero(t, m.mig(board, i).board)
		assert.Equal(t, 1, m.mig(board, i).memoryReads, "memory")
	}
	assert.NotZero(t, board.board)
	assert.Zero(t, board.memoryReads, "memory is measured for the instances")
}

// Only boards have a serial number, because it is printed on the board's label. All devices have
// the same driver.
func TestDevicesHaveTheirDriverAndBoardsTheirSerialNumber(t *testing.T) {
	m := &machine{driver: "590.48.01"}
	board := m.board("GPU-1", 7)
	board.serial = "1650723001234"
	m.board("GPU-2")
	c := collector(m)
	devices := func() map[string]string {
		points, err := c.Collect(m)
		require.NoError(t, err)
		require.NoError(t, c.Problem(), "a board without a serial number is not a problem")
		found := map[string]string{}
		for _, p := range points {
			found[p.Device.ID] = p.Device.Driver + " " + p.Device.Serial
		}
		return found
	}
	board.numbers[nvml.PowerUsage] = 1
	want := map[string]string{"GPU-1": "590.48.01 1650723001234", "GPU-1/gi7": "590.48.01 ", "GPU-2": "590.48.01 "}
	assert.Equal(t, want, devices())

	serial := board.serial
	board.serial = ""
	assert.Equal(t, want, devices(), "one failed call does not change the series")
	board.serial = serial

	m.driver = "595.71.05"
	want = map[string]string{"GPU-1": "595.71.05 1650723001234", "GPU-1/gi7": "595.71.05 ", "GPU-2": "595.71.05 "}
	assert.Equal(t, want, devices(), "an upgrade")
	m.driver = ""
	want = map[string]string{"GPU-1": " 1650723001234", "GPU-1/gi7": " ", "GPU-2": " "}
	assert.Equal(t, want, devices(), "a library that does not return it")
}

// errorsOfLinks performs a collection and returns the values of the NVLink error samples, keyed by
// error type.
func errorsOfLinks(t *testing.T, c *Collector, m *machine) map[string]float64 {
	t.Helper()
	points, err := c.Collect(m)
	require.NoError(t, err)
	got := map[string]float64{}
	for _, p := range points {
		if p.Metric == signal.HwErrors {
			got[p.Own] = p.Value
		}
	}
	return got
}

func TestNVLinkErrorsAreReadIfTheGenerationSupportsThem(t *testing.T) {
	ampere := map[nvml.FieldID]float64{
		nvml.FieldNVLinkCount: 3, nvml.FieldNVLinkReplay: 5, nvml.FieldNVLinkRecovery: 6, nvml.FieldNVLinkCRCFlit: 7, nvml.FieldNVLinkCRCData: 8,
	}
	links := map[nvml.FieldID]float64{nvml.FieldNVLinkCount: 3}
	hopper := map[nvml.FieldID]map[uint32]float64{
		nvml.FieldNVLinkErrorReplay:   {0: 1, 1: 2, 2: 3},
		nvml.FieldNVLinkErrorRecovery: {0: 10, 1: 0, 2: 30},
		nvml.FieldNVLinkErrorCRC:      {0: 100, 1: 200, 2: 300},
	}
	blackwell := map[nvml.FieldID]map[uint32]float64{nvml.FieldNVLinkRecoveryEvents: {0: 4, 1: 0, 2: 5}}
	both := maps.Clone(hopper)
	maps.Copy(both, blackwell)
	for name, tt := range map[string]struct {
		fields  map[nvml.FieldID]float64
		links   map[nvml.FieldID]map[uint32]float64
		want    map[string]float64
		dropped int64
	}{
		"totals over all links":                   {ampere, nil, map[string]float64{"nvlink_replay": 5, "nvlink_recovery": 6, "nvlink_crc": 15}, 0},
		"totals in addition to counters per link": {ampere, hopper, map[string]float64{"nvlink_replay": 5, "nvlink_recovery": 6, "nvlink_crc": 15}, 0},
		"Hopper counts per link":                  {links, hopper, map[string]float64{"nvlink_replay": 6, "nvlink_recovery": 40, "nvlink_crc": 600}, 0},
		"Blackwell counts recoveries":             {links, blackwell, map[string]float64{"nvlink_recovery": 9}, 0},
		"the newer of two counters":               {links, both, map[string]float64{"nvlink_replay": 6, "nvlink_recovery": 9, "nvlink_crc": 600}, 0},
		"a link that does not exist is ignored":   {links, map[nvml.FieldID]map[uint32]float64{nvml.FieldNVLinkErrorReplay: {0: 1, 2: 3, 3: 1000}}, map[string]float64{"nvlink_replay": 4}, 0},
		"no link responds":                        {links, nil, map[string]float64{}, 0},
		"a board without NVLink":                  {map[nvml.FieldID]float64{nvml.FieldNVLinkCount: 0}, hopper, map[string]float64{}, 0},
		"an unknown number of links":              {map[nvml.FieldID]float64{}, hopper, map[string]float64{}, 0},
		"more links than maxLinks":                {map[nvml.FieldID]float64{nvml.FieldNVLinkCount: 1e6}, hopper, map[string]float64{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			board := m.board("GPU-1")
			board.fields, board.links = tt.fields, tt.links
			c := collector(m)
			assert.Equal(t, tt.want, errorsOfLinks(t, c, m))
			assert.Equal(t, tt.dropped, c.Stats().ValuesDropped)
		})
	}
}

// A decrease in the counter would look like a reset, so backends would count the remaining value
// again.
func TestNVLinkErrorsDoNotDecreaseWhenALinkFails(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1")
	counts := map[uint32]float64{0: 100, 1: 20, 2: 3}
	board.fields = map[nvml.FieldID]float64{nvml.FieldNVLinkCount: 3}
	board.links = map[nvml.FieldID]map[uint32]float64{nvml.FieldNVLinkErrorCRC: counts}
	c := collector(m)
	want := func(crc float64) map[string]float64 { return map[string]float64{"nvlink_crc": crc} }
	assert.Equal(t, want(123), errorsOfLinks(t, c, m))

	delete(counts, 1)
	counts[2] = 5
	assert.Equal(t, want(125), errorsOfLinks(t, c, m), "the other links are still counted")
	counts[1] = 21
	assert.Equal(t, want(126), errorsOfLinks(t, c, m), "it has returned")
	counts[0], counts[1], counts[2] = 0, 0, 1
	assert.Equal(t, want(1), errorsOfLinks(t, c, m), "all links were reset")

	clear(counts)
	assert.Empty(t, errorsOfLinks(t, c, m), "no link responds: no sample")
	counts[0] = 7
	m.driver = "595.71.05"
	assert.Equal(t, want(7), errorsOfLinks(t, c, m), "another driver restarts the count")
}

func TestChangedTopologyIsDetected(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2)
	c := collector(m)
	assert.Equal(t, []string{"GPU-1/gi1 = 4", "GPU-1/gi2 = 4"}, collected(t, c, m, signal.HwGPUMemoryUsage))

	board.migs = map[int]int{4: m.add(&device{
		uuid: "MIG-new", name: "NVIDIA A100 MIG 3g.20gb",
		numbers: map[nvml.Query]uint64{nvml.GPUInstanceID: 2}, memory: &nvml.Memory{Used: 7, Free: 1},
	})}
	points, err := c.Collect(m)
	require.NoError(t, err)
	assert.Equal(t, []string{"GPU-1/gi2 = 7"}, rendered(points, signal.HwGPUMemoryUsage))
	assert.Equal(t, Device{ID: "GPU-1/gi2", Description: gpudata.Description{
		Parent: "GPU-1", Model: "NVIDIA A100", Vendor: "NVIDIA", Instance: "2", Profile: "3g.20gb", MIGUUID: "MIG-new",
	}}, *points[0].Device)

	board.numbers[nvml.MIGMode] = 0
	assert.Equal(t, []string{"GPU-1 = 40"}, collected(t, c, m, signal.HwGPUMemoryUsage))

	m.boards = nil
	points, err = c.Collect(m)
	require.NoError(t, err)
	assert.Empty(t, points)
	assert.Empty(t, c.current, "the state of missing devices is deleted")
}

// When an instance is deleted and created again, some drivers assign a new UUID and others do not.
func TestRecreatedInstanceWithTheSameUUIDHasItsNewProfile(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1)
	c := collector(m)
	points, err := c.Collect(m)
	require.NoError(t, err)
	before := points[0].Device
	points, err = c.Collect(m)
	require.NoError(t, err)
	assert.Same(t, before, points[0].Device, "nothing changed")
	m.mig(board, 0).name = "NVIDIA A100 MIG 2g.10gb"
	points, err = c.Collect(m)
	require.NoError(t, err)
	assert.Equal(t, "2g.10gb", points[0].Device.Profile)
}

func TestProfiles(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-80GB MIG 1g.10gb":      "1g.10gb",
		"NVIDIA A100-SXM4-80GB MIG 1g.10gb+me":   "1g.10gb+me",
		"NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb":   "3g.20gb",
		"NVIDIA H100 80GB HBM3 MIG 7g.80gb":      "7g.80gb",
		"NVIDIA H100 80GB HBM3":                  "",
		"NVIDIA H100 80GB HBM3 MIG something.xx": "",
		"":                                       "",
	} {
		assert.Equal(t, want, profile(name), name)
	}
}

func TestOneIdleInstancePerCollectionIsReadIfCallsAreSlow(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2, 3, 4)
	board.processes[nvml.Compute] = []nvml.Process{{PID: 9, Memory: 1, GPUInstance: 3}}
	for i := range 4 {
		m.mig(board, i).slow = 11 * time.Millisecond
	}
	c := collector(m)
	var memoryReads [][]string
	for range 5 {
		memoryReads = append(memoryReads, collected(t, c, m, signal.HwGPUMemoryUsage))
		assert.Equal(t, []string{"GPU-1/gi1 = 10", "GPU-1/gi2 = 10", "GPU-1/gi3 = 10", "GPU-1/gi4 = 10"},
			rendered(c.points, signal.HwGPUMemoryLimit), "the size of an instance does not change")
		assert.Equal(t, []string{"GPU-1 = 1", "GPU-1/gi1 = 0", "GPU-1/gi2 = 0", "GPU-1/gi3 = 1", "GPU-1/gi4 = 0"},
			rendered(c.points, signal.GPUProcessCount))
	}
	assert.Equal(t, [][]string{
		{"GPU-1/gi1 = 4", "GPU-1/gi2 = 4", "GPU-1/gi3 = 4", "GPU-1/gi4 = 4"}, // by then, every instance has been read once
		{"GPU-1/gi1 = 4", "GPU-1/gi3 = 4"},
		{"GPU-1/gi2 = 4", "GPU-1/gi3 = 4"},
		{"GPU-1/gi3 = 4", "GPU-1/gi4 = 4"},
		{"GPU-1/gi1 = 4", "GPU-1/gi3 = 4"},
	}, memoryReads, "the busy instance is always read")
	assert.EqualValues(t, 2, c.Stats().InstancesSkipped)
	assert.Equal(t, []int{3, 2, 5, 2}, []int{
		m.mig(board, 0).identified, m.mig(board, 1).identified, m.mig(board, 2).identified, m.mig(board, 3).identified,
	}, "the identity of skipped instances is not read")

	for i := range 4 {
		m.mig(board, i).slow = time.Millisecond
	}
	_ = collected(t, c, m, signal.HwGPUMemoryUsage)
	assert.Len(t, collected(t, c, m, signal.HwGPUMemoryUsage), 4, "the calls are fast again")
	assert.Zero(t, c.Stats().InstancesSkipped)
}

// If a board with slow calls is repartitioned into n instances, the old identities must disappear
// within n collections. The old identities must disappear for any partitioning, even if the indexes
// of the MIG devices do not change.
func TestRepartitionedBoardIsDetected(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{}
		board := m.board("GPU-1", rapid.SliceOfNDistinct(rapid.Uint64Range(1, 7), 1, 7, rapid.ID).Draw(rt, "instances")...)
		names := rapid.SampledFrom([]string{"NVIDIA A100 MIG 1g.5gb", "NVIDIA A100 MIG 1c.2g.10gb", "NVIDIA A100 MIG 2g.10gb"})
		cut := func(index int, id uint64) {
			board.migs[index] = m.add(&device{
				uuid: fmt.Sprint("MIG-", id), name: names.Draw(rt, "name"), slow: time.Second,
				numbers: map[nvml.Query]uint64{nvml.GPUInstanceID: id}, memory: &nvml.Memory{Total: 10, Free: 5, Used: 4},
			})
		}
		for index := range board.migs {
			cut(index, m.mig(board, index).numbers[nvml.GPUInstanceID])
		}
		work := func() {
			board.processes[nvml.Compute] = nil
			for pid := range rapid.IntRange(0, 2).Draw(rt, "processes") {
				on := m.mig(board, rapid.SampledFrom(slices.Sorted(maps.Keys(board.migs))).Draw(rt, "on"))
				board.processes[nvml.Compute] = append(board.processes[nvml.Compute],
					nvml.Process{PID: uint32(pid + 1), Memory: 1, GPUInstance: uint32(on.numbers[nvml.GPUInstanceID])})
			}
		}
		c := collector(m)
		for range rapid.IntRange(1, 20).Draw(rt, "before") {
			work()
			_, err := c.Collect(m)
			require.NoError(rt, err)
		}
		indices := slices.Sorted(maps.Keys(board.migs))
		for i, id := range rapid.SliceOfNDistinct(rapid.Uint64Range(1, 7), len(indices), len(indices), rapid.ID).Draw(rt, "anew") {
			cut(indices[i], id)
		}
		for i := range indices {
			work()
			points, err := c.Collect(m)
			require.NoError(rt, err)
			if i == len(indices)-1 {
				want := map[string]string{}
				for _, index := range indices {
					d := m.mig(board, index)
					want[fmt.Sprint("GPU-1/gi", d.numbers[nvml.GPUInstanceID])] = d.uuid + " " + profile(d.name)
				}
				got := map[string]string{}
				for _, p := range points {
					if p.Device.Parent != "" {
						got[p.Device.ID] = p.Device.MIGUUID + " " + p.Device.Profile
					}
				}
				require.Equal(rt, want, got)
			}
		}
	})
}

// A process without an ID cannot be told apart from other processes, and its samples would look like
// samples of the device.
func TestProcessWithoutAnIDIsDropped(t *testing.T) {
	m := &machine{}
	processes := []nvml.Process{{PID: 0, Memory: 5, GPUInstance: 7}, {PID: 9, Memory: 1, GPUInstance: 7}}
	m.board("GPU-1").processes[nvml.Compute] = processes
	m.board("GPU-2", 7).processes[nvml.Compute] = processes
	c := collector(m)
	assert.Equal(t, []string{"GPU-1 pid 9 = 1", "GPU-2/gi7 pid 9 = 1"}, collected(t, c, m, signal.ProcessGPUMemoryUsage))
	assert.EqualValues(t, 2, c.Stats().ValuesDropped)
	assert.Empty(t, rendered(c.points, signal.GPUProcessCount), "the number of processes is unknown")
}

func TestProcessOnAnUnknownInstanceRevealsANewLayout(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2, 3)
	for i := range 3 {
		m.mig(board, i).slow = time.Second
	}
	c := collector(m)
	_ = collected(t, c, m, signal.HwGPUMemoryUsage)
	m.mig(board, 2).numbers[nvml.GPUInstanceID] = 9
	assert.Equal(t, []string{"GPU-1/gi1 = 4"}, collected(t, c, m, signal.HwGPUMemoryUsage))
	board.processes[nvml.Compute] = []nvml.Process{{PID: 9, Memory: 1, GPUInstance: 9}}
	assert.Equal(t, []string{"GPU-1/gi2 = 4", "GPU-1/gi9 = 4"}, collected(t, c, m, signal.HwGPUMemoryUsage))
}

func TestCacheOfALostBoardOrDriverIsDeleted(t *testing.T) {
	for name, lose := range map[string]func(*machine, *device, *Collector){
		"the driver is lost": func(m *machine, _ *device, c *Collector) {
			m.countRC = nvml.ErrUninitialized
			_, err := c.Collect(m)
			require.Error(t, err)
			m.countRC = nil
		},
		"the driver is lost during a collection": func(m *machine, board *device, c *Collector) {
			board.failsIn = map[any]error{nvml.PowerUsage: nvml.ErrDriverNotLoaded}
			_, err := c.Collect(m)
			require.Error(t, err)
			board.failsIn = nil
		},
		"the library cannot be loaded": func(_ *machine, _ *device, c *Collector) { c.Forget() },
		"the board is lost": func(m *machine, board *device, c *Collector) {
			board.failsIn = map[any]error{nvml.PowerUsage: nvml.ErrGPULost}
			_, err := c.Collect(m)
			require.NoError(t, err)
			board.failsIn = nil
		},
		"the board leaves MIG mode for a time": func(m *machine, board *device, c *Collector) {
			board.numbers[nvml.MIGMode] = 0
			_, err := c.Collect(m)
			require.NoError(t, err)
			board.numbers[nvml.MIGMode] = 1
		},
		"its mode cannot be read": func(m *machine, board *device, c *Collector) {
			board.failsIn = map[any]error{nvml.MIGMode: nvml.ErrUnknown}
			_, err := c.Collect(m)
			require.NoError(t, err)
			board.failsIn = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			board := m.board("GPU-1", 1, 2, 3)
			for i := range 3 {
				m.mig(board, i).slow = time.Second
			}
			c := collector(m)
			_ = collected(t, c, m, signal.HwGPUMemoryUsage)
			lose(m, board, c)
			m.mig(board, 2).numbers[nvml.GPUInstanceID] = 9
			points, err := c.Collect(m)
			require.NoError(t, err)
			assert.Contains(t, rendered(points, signal.GPUProcessCount), "GPU-1/gi9 = 0")
		})
	}
}

func TestProcessesAreCountedIfAllAreListed(t *testing.T) {
	twice := [nvml.NumProcessKinds][]nvml.Process{nvml.Compute: {{PID: 1, Memory: 1}, {PID: 2, Memory: 1}}, nvml.Graphics: {{PID: 1, Memory: 1}}}
	onInstances := [nvml.NumProcessKinds][]nvml.Process{nvml.Compute: {
		{PID: 1, Memory: 1, GPUInstance: 1}, {PID: 1, Memory: 1, GPUInstance: 2}, {PID: 2, Memory: nvml.NoValue, GPUInstance: 2},
	}}
	noRight := map[any]error{nvml.Compute: nvml.ErrNoPermission, nvml.Graphics: nvml.ErrNoPermission, nvml.MPSCompute: nvml.ErrNoPermission}
	for name, tt := range map[string]struct {
		instances []uint64
		processes [nvml.NumProcessKinds][]nvml.Process
		change    func(m *machine, board *device, o *Options)
		want      []string
	}{
		"nobody":                 {want: []string{"GPU-1 = 0"}},
		"a process in two lists": {processes: twice, want: []string{"GPU-1 = 2"}},
		"without the device":     {change: func(_ *machine, _ *device, o *Options) { o.Devices = false }, want: []string{"GPU-1 = 0"}},
		"processes are disabled": {change: func(_ *machine, _ *device, o *Options) {
			o.Processes = false
		}},
		"not all processes of the host are visible": {processes: twice, change: func(_ *machine, _ *device, o *Options) { o.AllProcesses = false }},
		"a library without MPS": {change: func(_ *machine, board *device, _ *Options) {
			board.failsIn = map[any]error{nvml.MPSCompute: nvml.ErrFunctionNotFound}
		}, want: []string{"GPU-1 = 0"}},
		"a list that fails": {processes: twice, change: func(_ *machine, board *device, _ *Options) {
			board.failsIn = map[any]error{nvml.Graphics: nvml.ErrUnknown}
		}},
		"a board that does not list processes": {change: func(_ *machine, board *device, _ *Options) {
			board.failsIn = map[any]error{nvml.Compute: nvml.ErrNotSupported}
		}},
		"instances": {instances: []uint64{1, 2, 3}, processes: onInstances, want: []string{
			"GPU-1 = 2", "GPU-1/gi1 = 1", "GPU-1/gi2 = 2", "GPU-1/gi3 = 0",
		}},
		"instances, without permission to list the board": {
			instances: []uint64{1, 2}, change: func(m *machine, board *device, _ *Options) {
				board.failsIn = noRight
				m.mig(board, 0).processes = twice
			}, want: []string{"GPU-1 = 2", "GPU-1/gi1 = 2", "GPU-1/gi2 = 0"},
		},
		"an instance that does not list processes": {
			instances: []uint64{1, 2}, change: func(m *machine, board *device, _ *Options) {
				board.failsIn = noRight
				m.mig(board, 0).failsIn = map[any]error{nvml.Compute: nvml.ErrUnknown}
			}, want: []string{"GPU-1/gi2 = 0"},
		},
		"compute instances of one GPU instance": {
			instances: []uint64{1, 1, 2}, change: func(m *machine, board *device, _ *Options) {
				board.failsIn = noRight
				m.mig(board, 1).processes = twice
			}, want: []string{"GPU-1 = 2", "GPU-1/gi1 = 2", "GPU-1/gi2 = 0"},
		},
		"a compute instance that does not list processes": {
			instances: []uint64{1, 1, 2}, change: func(m *machine, board *device, _ *Options) {
				board.failsIn = noRight
				m.mig(board, 1).failsIn = map[any]error{nvml.Compute: nvml.ErrUnknown}
			}, want: []string{"GPU-1/gi2 = 0"},
		},
		"a MIG device whose instance is unknown": {
			instances: []uint64{1, 2}, change: func(m *machine, board *device, _ *Options) {
				board.failsIn = noRight
				m.mig(board, 0).failsIn = map[any]error{nvml.GPUInstanceID: nvml.ErrUnknown}
			},
		},
		"MIG mode without instances": {instances: []uint64{1}, change: func(_ *machine, board *device, _ *Options) {
			board.migs = nil
			board.failsIn = noRight
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			board := m.board("GPU-1", tt.instances...)
			board.processes = tt.processes
			o := Options{Devices: true, Processes: true, AllProcesses: true, Now: m.now}
			if tt.change != nil {
				tt.change(m, board, &o)
			}
			assert.Equal(t, tt.want, collected(t, New(o), m, signal.GPUProcessCount))
		})
	}
}

func TestBoardWithoutAUniqueUUIDHasNoSamples(t *testing.T) {
	m := &machine{}
	m.board("")
	m.board("GPU-1")
	m.board("GPU-1")
	c := collector(m)
	assert.Equal(t, []string{"GPU-1 = 40"}, collected(t, c, m, signal.HwGPUMemoryUsage))
	assert.EqualValues(t, 2, c.Stats().ValuesDropped)
}

func TestAnInstanceWhoseProcessesAreUnknownIsNotIdle(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2)
	board.failsIn = map[any]error{nvml.Compute: nvml.ErrNoPermission, nvml.Graphics: nvml.ErrNoPermission, nvml.MPSCompute: nvml.ErrNoPermission}
	unlisted, idle := m.mig(board, 0), m.mig(board, 1)
	unlisted.failsIn = map[any]error{nvml.Compute: nvml.ErrUnknown}
	unlisted.slow, idle.slow = time.Second, time.Second
	c := collector(m)
	for range 4 {
		_ = collected(t, c, m, signal.HwGPUMemoryUsage)
	}
	assert.Equal(t, 4, unlisted.memoryReads)
}

func TestNoInstanceIsIdleIfProcessesCannotBeListed(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1, 2)
	for _, d := range []*device{board, m.mig(board, 0), m.mig(board, 1)} {
		d.slow = time.Second
		d.failsIn = map[any]error{nvml.Compute: nvml.ErrNoPermission, nvml.Graphics: nvml.ErrNoPermission, nvml.MPSCompute: nvml.ErrNoPermission}
	}
	c := collector(m)
	for range 3 {
		assert.Len(t, collected(t, c, m, signal.HwGPUMemoryUsage), 2)
	}
	require.ErrorIs(t, c.Problem(), nvml.ErrNoPermission)
}

func TestAProcessWithoutAValueDoesNotAffectOthers(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1")
	board.processes = [nvml.NumProcessKinds][]nvml.Process{
		nvml.Compute:    {{PID: 1, Memory: 10}, {PID: 2, Memory: nvml.NoValue}, {PID: 3, Memory: nvml.NoValue}, {PID: 4, Memory: 40}},
		nvml.Graphics:   {{PID: 3, Memory: 30}, {PID: 4, Memory: 40}, {PID: 5, Memory: nvml.NoValue}},
		nvml.MPSCompute: {{PID: 4, Memory: nvml.NoValue}},
	}
	board.samples = []nvml.ProcessSample{{PID: 2, Time: 5, SM: 50}}
	c := collector(m)
	points, err := c.Collect(m)
	require.NoError(t, err)
	assert.Equal(t, []string{"GPU-1 pid 1 = 10", "GPU-1 pid 3 = 30", "GPU-1 pid 4 = 40"}, rendered(points, signal.ProcessGPUMemoryUsage))
	assert.Equal(t, []string{
		"GPU-1 pid 1 = 0", "GPU-1 pid 2 = 0.5", "GPU-1 pid 3 = 0", "GPU-1 pid 4 = 0", "GPU-1 pid 5 = 0",
	}, rendered(points, signal.ProcessGPUUtilization))
	assert.Zero(t, c.Stats().ValuesDropped, "a missing value is not implausible")
}

func TestUtilizationIsTheMeanOverTheSampleTimesSinceTheLastCollection(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1")
	board.processes[nvml.Compute] = []nvml.Process{{PID: 1, Memory: 1}, {PID: 77, Memory: 1}}
	board.samples = []nvml.ProcessSample{{PID: 1, Time: 10, SM: 20}, {PID: 1, Time: 20, SM: 40}, {PID: 77, Time: 30, SM: 90}}
	c := collector(m)
	assert.Equal(t, []string{"GPU-1 pid 1 = 0.20000000000000004", "GPU-1 pid 77 = 0.3"}, collected(t, c, m, signal.ProcessGPUUtilization))
	board.samples = append(board.samples, nvml.ProcessSample{PID: 1, Time: 40, SM: 80})
	assert.Equal(t, []string{"GPU-1 pid 1 = 0.8", "GPU-1 pid 77 = 0"}, collected(t, c, m, signal.ProcessGPUUtilization))
	assert.Equal(t, []string{"GPU-1 pid 1 = 0", "GPU-1 pid 77 = 0"}, collected(t, c, m, signal.ProcessGPUUtilization), "observed, and idle")
	assert.Equal(t, []uint64{0, 30, 40}, board.after)

	board.samples = append(board.samples, nvml.ProcessSample{PID: 1, Time: 50, SM: 4294967295})
	assert.Equal(t, []string{"GPU-1 pid 77 = 0"}, collected(t, c, m, signal.ProcessGPUUtilization), "an invalid entry is not an observation")
	assert.EqualValues(t, 1, c.Stats().ValuesDropped)

	board.samples = append(board.samples,
		nvml.ProcessSample{PID: 1, Time: 60, SM: 50}, nvml.ProcessSample{PID: 1, Time: 70, SM: 4294967295},
		nvml.ProcessSample{PID: 77, Time: 70, SM: 30}, nvml.ProcessSample{PID: 77, Time: 70, SM: 20})
	assert.Equal(t, []string{"GPU-1 pid 1 = 0.5", "GPU-1 pid 77 = 0.15"}, collected(t, c, m, signal.ProcessGPUUtilization),
		"a time with an invalid entry is skipped only for that process; of two entries for one time, the higher one is used")
}

// If a process is active in one of ten sample periods, its utilization must be one tenth of the
// utilization of a process that is always active. The utilization must be accurate, because power
// and GPU time are divided among processes in proportion to their utilization.
func TestAProcessThatIsRarelyActiveHasALowUtilization(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{}
		board := m.board("GPU-1")
		board.processes[nvml.Compute] = []nvml.Process{{PID: 1}, {PID: 2}}
		times := rapid.IntRange(1, 40).Draw(rt, "sample times")
		active := rapid.IntRange(1, times).Draw(rt, "times at which 2 is active")
		for i := range times {
			board.samples = append(board.samples, nvml.ProcessSample{PID: 1, Time: uint64(i + 1), SM: 50})
			if i < active {
				board.samples = append(board.samples, nvml.ProcessSample{PID: 2, Time: uint64(i + 1), SM: 50})
			}
		}
		points, err := collector(m).Collect(m)
		require.NoError(rt, err)
		got := map[uint32]float64{}
		for _, p := range points {
			if p.Metric == signal.ProcessGPUUtilization {
				got[p.PID] = p.Value
			}
		}
		assert.InDelta(rt, 0.5, got[1], 1e-9)
		assert.InDelta(rt, 0.5*float64(active)/float64(times), got[2], 1e-9)
	})
}

func TestALostDriverEndsTheCollection(t *testing.T) {
	for _, code := range []nvml.ResultError{nvml.ErrUninitialized, nvml.ErrDriverNotLoaded, nvml.ErrVersionMismatch} {
		m := &machine{}
		m.board("GPU-1")
		m.board("GPU-2").failsIn = map[any]error{nvml.PowerUsage: code}
		points, err := collector(m).Collect(m)
		require.ErrorIs(t, err, code)
		assert.ErrorContains(t, err, "GPU-2")
		assert.Empty(t, points)
	}
	m := &machine{countRC: nvml.ErrUnknown}
	_, err := collector(m).Collect(m)
	require.ErrorIs(t, err, nvml.ErrUnknown)
}

func TestLostBoardIsNotQueriedFurther(t *testing.T) {
	m := &machine{}
	lost := m.board("GPU-1")
	lost.failsIn = map[any]error{nvml.PowerUsage: nvml.ErrGPULost}
	m.board("GPU-2")
	c := collector(m)
	assert.Equal(t, []string{"GPU-2 = 40"}, collected(t, c, m, signal.HwGPUMemoryUsage))
	assert.Zero(t, lost.memoryReads)
	require.ErrorIs(t, c.Problem(), nvml.ErrGPULost)
	assert.EqualValues(t, 1, c.Stats().CallsFailed)

	lost.failsIn = nil
	assert.Equal(t, []string{"GPU-1 = 40", "GPU-2 = 40"}, collected(t, c, m, signal.HwGPUMemoryUsage), "it has returned")
	require.NoError(t, c.Problem())
}

// If the topology is unknown, samples are omitted. For example, a board that may be in MIG mode is
// not treated as unpartitioned.
func TestUnknownTopologyIsNotAssumed(t *testing.T) {
	m := &machine{}
	board := m.board("GPU-1", 1)
	c := collector(m)
	for _, q := range []nvml.Query{nvml.MIGMode, nvml.MaxMIGDevices} {
		board.failsIn = map[any]error{q: nvml.ErrUnknown}
		assert.Empty(t, collected(t, c, m, signal.HwGPUMemoryUsage))
		require.ErrorIs(t, c.Problem(), nvml.ErrUnknown)
	}
	board.failsIn = nil
	m.mig(board, 0).failsIn = map[any]error{nvml.GPUInstanceID: nvml.ErrUnknown}
	assert.Empty(t, collected(t, c, m, signal.HwGPUMemoryUsage))
}

// For any topology and any faults, each series must have at most one point, all values must be in
// range, and each process must be on a device of the correct board.
func TestRandomTopologiesAndFaults(t *testing.T) {
	faults := rapid.SampledFrom([]error{
		nil, nil, nil, nvml.ErrNotSupported, nvml.ErrNoPermission, nvml.ErrGPULost, nvml.ErrUnknown, nvml.ErrFunctionNotFound,
	})
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{}
		for i := range rapid.IntRange(0, 3).Draw(rt, "boards") {
			// MIG devices with the same instance ID share an instance
			ids := rapid.SliceOfN(rapid.Uint64Range(0, 4), 0, 5).Draw(rt, "instances")
			b := m.board(fmt.Sprint("GPU-", i), ids...)
			b.numbers[nvml.GPUUtilization] = rapid.Uint64Range(0, 150).Draw(rt, "utilization")
			b.numbers[nvml.PowerUsage] = rapid.Uint64().Draw(rt, "power")
			b.fails = faults.Draw(rt, "fault")
			for kind := range nvml.NumProcessKinds {
				for range rapid.IntRange(0, 4).Draw(rt, "processes") {
					p := nvml.Process{
						PID:         rapid.Uint32Range(1, 5).Draw(rt, "pid"),
						Memory:      rapid.OneOf(rapid.Just(nvml.NoValue), rapid.Uint64()).Draw(rt, "memory"),
						GPUInstance: rapid.OneOf(rapid.Just(nvml.NoInstance), rapid.Uint32Range(0, 4)).Draw(rt, "instance"),
					}
					b.processes[kind] = append(b.processes[kind], p)
					b.samples = append(b.samples, nvml.ProcessSample{PID: p.PID, Time: 1, SM: rapid.Uint32Range(0, 200).Draw(rt, "sm")})
				}
			}
			for index := range ids {
				m.mig(b, index).fails = faults.Draw(rt, "fault of an instance")
			}
		}
		c := collector(m)
		for range 2 {
			points, err := c.Collect(m)
			require.NoError(rt, err)
			seen := map[string]bool{}
			for _, p := range points {
				key := fmt.Sprint(p.Metric.Name, p.Device.ID, p.Own, p.PID)
				assert.False(rt, seen[key], key)
				seen[key] = true
				assert.GreaterOrEqual(rt, p.Value, 0.0)
				if p.Metric.Unit == "1" {
					assert.LessOrEqual(rt, p.Value, 1.0)
				}
			}
		}
	})
}
