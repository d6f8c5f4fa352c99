//go:build linux && !otelcol_gpu_no_nvml

package nvml

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
)

// The open function opens a stub library that follows the given script.
func open(t *testing.T, stub *nvmltest.Stub, script string) *Library {
	t.Helper()
	stub.Script(t, script)
	l, err := Open(stub.Path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

// The board function opens a stub library that follows the given script, and returns the library
// and its first board.
func board(t *testing.T, stub *nvmltest.Stub, script string) (*Library, Device) {
	t.Helper()
	l := open(t, stub, script)
	d, err := l.Device(0)
	require.NoError(t, err)
	return l, d
}

func TestStructuresAreLaidOutAsTheCCompilerDoes(t *testing.T) {
	var (
		v1      memoryV1
		v2      memoryV2
		field   fieldValue
		degrees temperatureV1
		sample  processSample
		fabric  fabricInfo
		support gpmSupport
		value   gpmMetric
		values  gpmMetrics
		event   eventData
	)
	want := map[string]uintptr{
		"memory_v1":      unsafe.Sizeof(v1),
		"memory_v1.free": unsafe.Offsetof(v1.free), "memory_v1.used": unsafe.Offsetof(v1.used),
		"memory_v2":       unsafe.Sizeof(v2),
		"memory_v2.total": unsafe.Offsetof(v2.total), "memory_v2.reserved": unsafe.Offsetof(v2.reserved),
		"memory_v2.free": unsafe.Offsetof(v2.free), "memory_v2.used": unsafe.Offsetof(v2.used),
		"temperature_v1":        unsafe.Sizeof(degrees),
		"temperature_v1.sensor": unsafe.Offsetof(degrees.sensor), "temperature_v1.celsius": unsafe.Offsetof(degrees.celsius),
		"field_value":          unsafe.Sizeof(field),
		"field_value.scope_id": unsafe.Offsetof(field.scopeID), "field_value.timestamp": unsafe.Offsetof(field.timestamp),
		"field_value.latency": unsafe.Offsetof(field.latency), "field_value.value_type": unsafe.Offsetof(field.valueType),
		"field_value.result": unsafe.Offsetof(field.nvmlReturn), "field_value.value": unsafe.Offsetof(field.value),
		"process_v1":        processInfoV1Size,
		"process_v1.memory": processInfoMemory,
		"process_v2":        processInfoV2Size,
		"process_v2.memory": processInfoMemory, "process_v2.gpu_instance": processInfoGPUInstance,
		"process_v2.compute_instance":   20,
		"process_r535":                  processInfoMaxSize,
		"process_r535.protected_memory": 24,
		"process_sample":                unsafe.Sizeof(sample),
		"process_sample.timestamp":      unsafe.Offsetof(sample.timestamp), "process_sample.sm": unsafe.Offsetof(sample.sm),
		"process_sample.memory": unsafe.Offsetof(sample.memory),
		"fabric_info":           unsafe.Sizeof(fabric),
		"fabric_info.result":    unsafe.Offsetof(fabric.nvmlReturn), "fabric_info.state": unsafe.Offsetof(fabric.state), "fabric_info.health": unsafe.Offsetof(fabric.health),
		"event_data": unsafe.Sizeof(event), "event_data.type": unsafe.Offsetof(event.eventType), "event_data.data": unsafe.Offsetof(event.data),
		"event_data.gpu_instance": unsafe.Offsetof(event.gpuInstance), "event_data.compute_instance": unsafe.Offsetof(event.computeInstance),
		"gpm_support": unsafe.Sizeof(support), "gpm_support.supported": unsafe.Offsetof(support.supported),
		"gpm_metric": unsafe.Sizeof(value), "gpm_metric.result": unsafe.Offsetof(value.nvmlReturn), "gpm_metric.value": unsafe.Offsetof(value.value),
		"gpm_metrics": unsafe.Sizeof(values), "gpm_metrics.count": unsafe.Offsetof(values.count), "gpm_metrics.first": unsafe.Offsetof(values.first),
		"gpm_metrics.second": unsafe.Offsetof(values.second), "gpm_metrics.metrics": unsafe.Offsetof(values.metrics),
		"process_sample.encoder": unsafe.Offsetof(sample.encoder), "process_sample.decoder": unsafe.Offsetof(sample.decoder),
	}
	got := map[string]uintptr{}
	for line := range strings.Lines(nvmltest.Layout(t)) {
		var name string
		var at uintptr
		_, err := fmt.Sscan(line, &name, &at)
		require.NoError(t, err)
		got[name] = at
	}
	assert.Equal(t, want, got)
	assert.EqualValues(t, unsafe.Sizeof(v2)|2<<24, memoryV2Version)
	assert.EqualValues(t, unsafe.Sizeof(fabric)|3<<24, fabricInfoV3Version)
	assert.EqualValues(t, unsafe.Offsetof(fabric.health)+4|2<<24, fabricInfoV2Version)
	assert.EqualValues(t, unsafe.Sizeof(degrees)|1<<24, temperatureV1Version)
}

const h100 = `gpu uuid=GPU-1 name=NVIDIA_H100_80GB_HBM3 minor=3 total=1000 reserved=100 free=600 used=300 ` +
	`util=41 enc=2 dec=3 power=350500 energy=5000000000123 temp=51 sm=1980 mem=2619 reasons=0x4 ` +
	`tx=11 rx=22 gen=5 width=16 violation=7000000000 ecc=4 replays=9
`

func TestQueries(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), h100)
	for q, want := range map[Query]uint64{
		MinorNumber: 3, GPUUtilization: 41, EncoderUtilization: 2, DecoderUtilization: 3,
		PowerUsage: 350500, TotalEnergy: 5000000000123, Temperature: 51, SMClock: 1980, MemoryClock: 2619,
		ClockEventReasons: 4, PCIeTransmit: 11, PCIeReceive: 22, MaxPCIeLinkGeneration: 5, MaxPCIeLinkWidth: 16,
		PowerViolation: 7000000000, ThermalViolation: 7000000001, SyncBoostViolation: 7000000002, BoardLimitViolation: 7000000003,
		CorrectedECC: 4, UncorrectedECC: 5, PCIeReplays: 9, MaxMIGDevices: 8,
	} {
		got, err := l.Query(d, q)
		require.NoError(t, err, "query %d", q)
		assert.Equal(t, want, got, "query %d", q)
	}
	for _, q := range []Query{MIGMode, GPUInstanceID} {
		_, err := l.Query(d, q)
		require.ErrorIs(t, err, ErrNotSupported)
	}
	uuid, err := l.UUID(d)
	require.NoError(t, err)
	assert.Equal(t, "GPU-1", uuid)
	name, err := l.Name(d)
	require.NoError(t, err)
	assert.Equal(t, "NVIDIA H100 80GB HBM3", name)
	m, err := l.Memory(d)
	require.NoError(t, err)
	assert.Equal(t, Memory{Total: 1000, Free: 600, Used: 300}, m)
}

func TestFabricIsQueriedWithASupportedStructure(t *testing.T) {
	stub := nvmltest.Build(t)
	for script, want := range map[string]uint64{
		"fabric=3 fabrichealth=0x55":                 0x55,
		"fabric=3 fabrichealth=0x55 fabricversion=2": 0x55,
	} {
		l, d := board(t, stub, "gpu uuid=GPU-1 "+script+"\n")
		health, err := l.Query(d, FabricHealth)
		require.NoError(t, err, script)
		assert.Equal(t, want, health, script)
	}
	for _, script := range []string{
		"", "fabric=0 fabrichealth=1", "fabric=2 fabrichealth=1", "fabric=3 fabrichealth=1 fabricrc=999", "fabric=3 fabrichealth=1 fabricversion=1",
	} {
		l, d := board(t, stub, "gpu uuid=GPU-1 "+script+"\n")
		_, err := l.Query(d, FabricHealth)
		require.ErrorIs(t, err, ErrNotSupported, script)
	}
}

func TestDriverAndSerialNumber(t *testing.T) {
	stub := nvmltest.Build(t)
	l, d := board(t, stub, "driver version=580.95.05\ngpu uuid=GPU-1 serial=1650723001234\n")
	assert.Equal(t, "580.95.05", l.Driver())
	serial, err := l.Serial(d)
	require.NoError(t, err)
	assert.Equal(t, "1650723001234", serial)

	l, d = board(t, stub, "gpu uuid=GPU-1\nrule fn=nvmlSystemGetDriverVersion rc=999\n")
	assert.Empty(t, l.Driver())
	_, err = l.Serial(d)
	require.ErrorIs(t, err, ErrNotSupported)
}

func TestANumberThatIsNotAvailableIsNotSupported(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), "gpu uuid=GPU-1 util=0xffffffff power=0xfffffffe tx=0xffffffff energy=0xffffffffffffffff reasons=0xffffffff\n")
	for _, q := range []Query{GPUUtilization, PCIeTransmit, TotalEnergy} {
		_, err := l.Query(d, q)
		require.ErrorIs(t, err, ErrNotSupported, "query %d", q)
	}
	for q, want := range map[Query]uint64{PowerUsage: 0xfffffffe, ClockEventReasons: 0xffffffff} {
		got, err := l.Query(d, q)
		require.NoError(t, err)
		assert.Equal(t, want, got, "all ones in another width are a value")
	}
}

func TestMIGDevices(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), `gpu uuid=GPU-1 migmode=1
mig uuid=MIG-a name=NVIDIA_A100_MIG_1g.5gb index=0 gi=7 total=50 free=40 used=9
mig uuid=MIG-b name=NVIDIA_A100_MIG_2g.10gb index=4 gi=3
`)
	mode, err := l.Query(d, MIGMode)
	require.NoError(t, err)
	assert.EqualValues(t, 1, mode)
	var found []string
	for i := range 8 {
		m, err := l.MIGDevice(d, i)
		if i != 0 && i != 4 {
			require.ErrorIs(t, err, ErrNotFound)
			continue
		}
		require.NoError(t, err)
		uuid, err := l.UUID(m)
		require.NoError(t, err)
		gi, err := l.Query(m, GPUInstanceID)
		require.NoError(t, err)
		found = append(found, fmt.Sprint(uuid, " ", gi))
	}
	assert.Equal(t, []string{"MIG-a 7", "MIG-b 3"}, found)
}

// The processes function returns a script that contains n processes, and the expected result of the
// Processes method.
func processes(n int) (script string, want []Process) {
	var b strings.Builder
	b.WriteString("gpu uuid=GPU-1 migmode=1\n")
	for i := range n {
		p := Process{PID: uint32(100 + i), Memory: uint64(i) << 20, GPUInstance: uint32(i % 7)}
		if i%3 == 1 {
			p.Memory = NoValue
		}
		fmt.Fprintf(&b, "proc pid=%d mem=%d gi=%d\n", p.PID, p.Memory, p.GPUInstance)
		want = append(want, p)
	}
	return b.String(), want
}

func TestXIDErrorsAreReadWithoutWaiting(t *testing.T) {
	stub := nvmltest.Build(t)
	l, d := board(t, stub, h100)
	set, err := l.NewEventSet()
	require.NoError(t, err)
	require.NoError(t, l.WatchXIDs(d, set))
	_, err = l.NextXID(set)
	require.ErrorIs(t, err, ErrTimeout)

	stub.Script(t, h100+"xid code=79\nxid code=43 gi=7\n")
	_, err = l.DeviceCount() // This call makes the stub read its script.
	require.NoError(t, err)
	d, err = l.Device(0)
	require.NoError(t, err)
	for _, want := range []XIDEvent{{d, NoInstance, 79}, {d, 7, 43}} {
		e, err := l.NextXID(set)
		require.NoError(t, err)
		assert.Equal(t, want, e)
	}
	_, err = l.NextXID(set)
	require.ErrorIs(t, err, ErrTimeout)
	require.NoError(t, l.FreeEventSet(set))

	l, _ = board(t, nvmltest.Build(t, "-DOLD"), h100)
	_, err = l.NewEventSet()
	require.ErrorIs(t, err, ErrFunctionNotFound)
}

func TestProcessListsOfEveryLayoutAndLength(t *testing.T) {
	for name, flags := range map[string][]string{
		"v3 as documented":  nil,
		"v3 as in R535":     {"-DR535"},
		"without a version": {"-DOLD"},
	} {
		t.Run(name, func(t *testing.T) {
			stub := nvmltest.Build(t, flags...)
			for _, n := range []int{0, 1, 2, listStart, listStart + 1, 500} {
				script, want := processes(n)
				if name == "without a version" {
					for i := range want {
						want[i].GPUInstance = NoInstance
					}
				}
				l, d := board(t, stub, script)
				got, err := l.Processes(d, Compute, nil)
				require.NoError(t, err)
				assert.Equal(t, want, got, "%d processes", n)
				got, err = l.Processes(d, Graphics, got)
				require.NoError(t, err)
				assert.Len(t, got, n, "another list is appended")
			}
		})
	}
}

// If the entries were parsed with the wrong size, the list would contain processes that do not
// exist.
func TestProcessListOfAnUnknownLayoutIsAnError(t *testing.T) {
	script, _ := processes(4)
	l, d := board(t, nvmltest.Build(t, "-DSTRANGE"), script)
	got, err := l.Processes(d, Compute, []Process{{PID: 1}})
	require.ErrorIs(t, err, errProcessLayout)
	assert.Equal(t, []Process{{PID: 1}}, got)
}

func TestProcessesOutsideOfMIGHaveNoInstance(t *testing.T) {
	l, d := board(t, nvmltest.Build(t), "gpu uuid=GPU-1\nproc pid=1 mem=2\nproc pid=2 mem=3 kind=m\n")
	got, err := l.Processes(d, Compute, nil)
	require.NoError(t, err)
	got, err = l.Processes(d, MPSCompute, got)
	require.NoError(t, err)
	assert.Equal(t, []Process{{1, 2, NoInstance}, {2, 3, NoInstance}}, got)
}

func TestProcessUtilization(t *testing.T) {
	var script strings.Builder
	script.WriteString("gpu uuid=GPU-1\nproc pid=1 sm=0\n")
	for i := range 200 {
		fmt.Fprintf(&script, "proc pid=%d sm=%d\n", 10+i, 1+i%100)
	}
	l, d := board(t, nvmltest.Build(t), script.String())
	got, err := l.ProcessUtilization(d, 0, nil)
	require.NoError(t, err)
	require.Len(t, got, 200)
	assert.Equal(t, ProcessSample{PID: 10, Time: 1000000, SM: 1}, got[0])
	assert.Equal(t, ProcessSample{PID: 209, Time: 1000000, SM: 100}, got[199])
	_, err = l.ProcessUtilization(d, 1000000, nil)
	require.ErrorIs(t, err, ErrNotFound)
}

// Older libraries lack some functions. A missing function must affect only the values that need
// this function.
func TestMissingSymbolsOnlyAffectTheirValues(t *testing.T) {
	l, d := board(t, nvmltest.Build(t, "-DOLD"), h100+"proc pid=4 mem=5\n")
	for _, q := range []Query{MIGMode, MaxMIGDevices, GPUInstanceID} {
		_, err := l.Query(d, q)
		require.ErrorIs(t, err, ErrFunctionNotFound)
	}
	require.ErrorIs(t, l.FieldValues(d, []FieldValue{{ID: FieldTotalEnergy}}), ErrFunctionNotFound)
	_, err := l.MIGDevice(d, 0)
	require.ErrorIs(t, err, ErrFunctionNotFound)
	_, err = l.Processes(d, MPSCompute, nil)
	require.ErrorIs(t, err, ErrFunctionNotFound)

	reasons, err := l.Query(d, ClockEventReasons)
	require.NoError(t, err, "the older name is used")
	assert.EqualValues(t, 4, reasons)
	m, err := l.Memory(d)
	require.NoError(t, err)
	assert.Equal(t, Memory{Total: 1000, Free: 600, Used: 400}, m, "the older function counts reserved memory as used")
	energy, err := l.Query(d, TotalEnergy)
	require.NoError(t, err)
	assert.EqualValues(t, 5000000000123, energy)
}

func TestErrorsMatchNVML(t *testing.T) {
	stub := nvmltest.Build(t)
	l := open(t, stub, h100+"rule fn=nvmlDeviceGetPowerUsage rc=15\nrule fn=nvmlDeviceGetName rc=12345\n")
	d, err := l.Device(0)
	require.NoError(t, err)
	_, err = l.Query(d, PowerUsage)
	require.ErrorIs(t, err, ErrGPULost)
	_, err = l.Name(d)
	require.EqualError(t, err, "nvml: error 12345")
	_, err = l.Device(1)
	require.ErrorIs(t, err, ErrInvalidArgument)
	require.EqualError(t, ErrGPULost, "nvml: the GPU is lost")
}

func TestLibrariesThatCannotBeOpened(t *testing.T) {
	t.Run("no file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
		_, err := Open(path)
		require.ErrorIs(t, err, ErrNoLibrary)
		assert.ErrorContains(t, err, path)
	})
	t.Run("not a library", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
		require.NoError(t, os.WriteFile(path, []byte("text"), 0o600))
		_, err := Open(path)
		require.ErrorIs(t, err, ErrNoLibrary)
	})
	t.Run("another library", func(t *testing.T) {
		_, err := Open("libc.so.6")
		require.ErrorIs(t, err, ErrNoLibrary)
	})
	t.Run("the driver is not loaded", func(t *testing.T) {
		stub := nvmltest.Build(t)
		stub.Script(t, "init rc=9\n")
		_, err := Open(stub.Path)
		require.ErrorIs(t, err, ErrDriverNotLoaded)
		stub.Script(t, h100)
		l, err := Open(stub.Path)
		require.NoError(t, err, "the driver is loaded later")
		require.NoError(t, l.Close())
	})
}

func TestTheUsualDirectoriesAreSearched(t *testing.T) {
	stub := nvmltest.Build(t)
	before := searched
	t.Cleanup(func() { searched = before })
	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, libraryName), nil, 0o600))
	searched = []string{t.TempDir(), broken, stub.Dir}
	l, err := Open("")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	stub.Script(t, "init rc=18\n")
	_, err = Open("")
	require.ErrorIs(t, err, ErrVersionMismatch, "has precedence over a file that is not a library")
}

// If the library file is replaced while the library is closed, for example during a driver upgrade,
// the next call to Open must load the new file.
func TestAClosedLibraryIsUnloaded(t *testing.T) {
	stub := nvmltest.Build(t)
	stub.Script(t, h100)
	l, err := Open(stub.Path)
	require.NoError(t, err)
	require.True(t, mapped(t, stub.Path))
	require.NoError(t, l.Close())
	require.False(t, mapped(t, stub.Path))

	old := nvmltest.Build(t, "-DOLD")
	require.NoError(t, os.Rename(old.Path, stub.Path))
	l, d := board(t, stub, h100)
	_, err = l.Query(d, MIGMode)
	require.ErrorIs(t, err, ErrFunctionNotFound)
}

// The mapped function reports whether the file is mapped into the memory of this process.
func mapped(t *testing.T, path string) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return slices.ContainsFunc(strings.Fields(string(text)), func(field string) bool { return field == path })
}
