//go:build linux && !otelcol_gpu_no_nvml

package nvmlreceiver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata/pdatagpu"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/nvmltest"
)

// onStub returns a receiver that uses a stub library.
func onStub(tb testing.TB, stub *nvmltest.Stub, script string) *fixture {
	tb.Helper()
	stub.Script(tb, script)
	return newFixture(tb, func(cfg *Config) { cfg.LibraryPath = stub.Path })
}

// The names method returns the number of points in the last batch for each metric.
func (f *fixture) names() map[string]int {
	all := f.sink.AllMetrics()
	names := map[string]int{}
	for _, rm := range all[len(all)-1].ResourceMetrics().All() {
		for _, m := range rm.ScopeMetrics().At(0).Metrics().All() {
			dps, _ := numberPoints(m)
			names[m.Name()] += dps.Len()
		}
	}
	return names
}

// The receiver runs on a machine that initially has no driver. Then the driver is installed,
// unloaded, and upgraded.
func TestOutcomesFromAMachineWithoutADriverToAnUpgrade(t *testing.T) {
	stub := nvmltest.Build(t)
	f := onStub(t, stub, "")
	library := stub.Path + ".away"
	require.NoError(t, os.Rename(stub.Path, library))
	assert.Equal(t, outcomeNoLibrary, f.collect(t.Context()), "no driver")

	require.NoError(t, os.Rename(library, stub.Path))
	stub.Script(t, "init rc=9\n")
	assert.Equal(t, outcomeInitFailed, f.collect(t.Context()), "the driver's module is not loaded")

	stub.Script(t, "gpu uuid=GPU-1 power=1000\ngpu uuid=GPU-2 power=2000\n")
	assert.Equal(t, outcomeOK, f.collect(t.Context()))
	assert.Equal(t, map[string]int{"hw.power": 2, "gpu.process.count": 2}, f.names())

	stub.Script(t, "gpu uuid=GPU-1 power=1000\ngpu uuid=GPU-2 power=2000\nrule fn=* gpu=1 rc=15\n")
	assert.Equal(t, outcomePartial, f.collect(t.Context()), "one board is lost")
	assert.Equal(t, map[string]int{"hw.power": 1, "gpu.process.count": 1}, f.names())

	stub.Script(t, "gpu uuid=GPU-1 power=1000\nrule fn=* rc=9 after=4\n")
	assert.Equal(t, outcomeDriverLost, f.collect(t.Context()), "the driver is unloaded during a collection")

	stub.Script(t, "init rc=18\n")
	assert.Equal(t, outcomeInitFailed, f.collect(t.Context()), "the version of the driver differs from the library's")

	require.NoError(t, os.Rename(nvmltest.Build(t, "-DOLD").Path, stub.Path))
	stub.Script(t, "gpu uuid=GPU-1 power=1000 energy=5000\n")
	assert.Equal(t, outcomeOK, f.collect(t.Context()), "the library has the driver's version again")
	assert.Equal(t, map[string]int{"hw.power": 1, "hw.energy": 1, "gpu.process.count": 1}, f.names())
	assert.Len(t, f.sink.AllMetrics(), 3, "nothing is logged without a driver")
}

// The receiver keeps running, because only the child process that tries the library crashes.
func TestCrashingLibraryMakesTheReceiverDormant(t *testing.T) {
	for _, hold := range holdModes {
		for _, how := range []string{"segv", "abort"} {
			stub := nvmltest.Build(t)
			f := onStub(t, stub, "init crash="+how+"\n")
			f.cfg.Hold = hold
			assert.Equal(t, []outcome{outcomeCrashed, outcomeCrashed}, []outcome{f.collect(t.Context()), f.collect(t.Context())})
			assert.Equal(t, map[string]int64{"crashed": 2}, f.outcomeCounts(t))
			assert.Equal(t, 1, f.logs.Len(), "logged once")
			assert.Empty(t, f.sink.AllMetrics())
			stub.Script(t, "gpu uuid=GPU-1 power=1000\n")
			assert.Equal(t, outcomeOK, f.collect(t.Context()))
			require.NoError(t, f.release())
		}
	}
}

// The counted function returns the number of calls to each library function since the call to
// Record.
func counted(t *testing.T, stub *nvmltest.Stub) map[string]int {
	t.Helper()
	calls := map[string]int{}
	for _, fn := range stub.Calls(t) {
		calls[fn]++
	}
	return calls
}

func TestHoldDeterminesWhenTheLibraryIsClosed(t *testing.T) {
	const (
		well    = "gpu uuid=GPU-1 power=1000\n"
		fails   = well + "rule fn=nvmlDeviceGetPowerUsage rc=4\n"
		missing = well + "rule fn=nvmlDeviceGetUUID rc=9\n"
	)
	stub := nvmltest.Build(t)
	for hold, want := range map[string][]bool{
		HoldAlways:          {true, true, true, false, true},
		HoldBetweenFailures: {true, true, false, false, true},
		HoldNever:           {false, false, false, false, false},
	} {
		t.Run(hold, func(t *testing.T) {
			f := onStub(t, stub, well)
			f.cfg.Hold = hold
			for i, script := range []string{well, well, fails, missing, well} {
				stub.Script(t, script)
				outcome := f.collect(t.Context())
				assert.Equal(t, []string{"ok", "ok", "partial", "driver_lost", "ok"}[i], outcome.name)
				assert.Equal(t, want[i], f.openLib != nil, "collection %d", i)
			}
			require.NoError(t, f.release())
		})
	}
}

func TestShutdownClosesTheLibraryThatIsHeld(t *testing.T) {
	stub := nvmltest.Build(t)
	stub.Script(t, "gpu uuid=GPU-1 power=1000\ngpm id=2 value=50\n")
	f := newFixture(t, func(cfg *Config) { cfg.LibraryPath, cfg.Hold = stub.Path, HoldAlways })
	require.Equal(t, outcomeOK, f.collect(t.Context()))
	require.NotNil(t, f.openLib)
	fds := count(t, "/proc/self/fd")
	stub.Record(t)
	require.NoError(t, f.Start(t.Context(), f.host))
	require.NoError(t, f.Shutdown(t.Context()))
	assert.Nil(t, f.openLib)
	assert.Equal(t, 1, counted(t, stub)["nvmlGpmSampleFree"], "the board's samples")
	assert.Less(t, count(t, "/proc/self/fd"), fds)
}

// In each collection, the performance counters of a device are copied once and compared with the
// previous copy.
func TestGPMCalls(t *testing.T) {
	stub := nvmltest.Build(t)
	stub.Script(t, "gpu uuid=GPU-1\ngpm id=2 value=50\ngpu uuid=GPU-2\n")
	f := newFixture(t, func(cfg *Config) { cfg.LibraryPath, cfg.Hold = stub.Path, HoldAlways })
	compared := func() map[string]int {
		stub.Record(t)
		require.Eventually(t, func() bool {
			f.collect(t.Context())
			return counted(t, stub)["nvmlGpmMetricsGet"] > 0
		}, 5*time.Second, time.Millisecond, "the driver updates its counters periodically")
		return counted(t, stub)
	}
	compared() // the first two collections create the two samples
	calls := compared()
	for fn, want := range map[string]int{"nvmlGpmSampleAlloc": 0, "nvmlGpmSampleGet": 1, "nvmlGpmMetricsGet": 1} {
		assert.Equal(t, want, calls[fn], fn)
	}
	require.NoError(t, f.release())
}

func TestOnlyEnabledMetricsAreQueried(t *testing.T) {
	const script = "gpu uuid=GPU-1 name=X minor=0 power=1000 tx=1 rx=2 reasons=0\nproc pid=1 mem=2\n"
	asked := func(t *testing.T, change func(*Config)) string {
		t.Helper()
		stub := nvmltest.Build(t)
		stub.Script(t, script)
		stub.Record(t)
		f := newFixture(t, func(cfg *Config) {
			cfg.LibraryPath = stub.Path
			change(cfg)
		})
		require.Equal(t, outcomeOK, f.collect(t.Context()))
		return strings.Join(stub.Calls(t), " ")
	}
	all := asked(t, func(*Config) {})
	assert.Contains(t, all, "nvmlDeviceGetPcieThroughput")
	assert.Contains(t, all, "nvmlDeviceGetProcessUtilization")
	assert.NotContains(t, asked(t, func(cfg *Config) {
		cfg.Metrics = componenthelper.Metrics{"gpu.pcie.throughput": {Enabled: new(false)}, "gpu.pcie.utilization": {Enabled: new(false)}}
	}), "PcieThroughput")
	assert.NotContains(t, asked(t, func(cfg *Config) {
		cfg.Metrics = componenthelper.Metrics{}
		for _, m := range processMetrics {
			cfg.Metrics[m.Name] = componenthelper.MetricSwitch{Enabled: new(false)}
		}
	}), "Process")
	assert.Equal(t, "nvmlSystemGetDriverVersion nvmlDeviceGetCount_v2 nvmlDeviceGetHandleByIndex_v2 nvmlDeviceGetUUID nvmlDeviceGetName "+
		"nvmlDeviceGetMinorNumber nvmlDeviceGetSerial nvmlDeviceGetMigMode nvmlDeviceGetComputeRunningProcesses_v3 "+
		"nvmlDeviceGetGraphicsRunningProcesses_v3 nvmlDeviceGetMPSComputeRunningProcesses_v3 nvmlDeviceGetProcessUtilization",
		asked(t, func(cfg *Config) { cfg.ProcessesOnly = true }))
}

func TestSlowCallsOfIdleInstancesAreSkipped(t *testing.T) {
	script, proc := node(t, 1, 7, 1)
	stub := nvmltest.Build(t)
	stub.Script(t, script+"rule fn=nvmlDeviceGetMemoryInfo_v2 mig=1 ms=10\nrule fn=nvmlDeviceGetUUID mig=1 ms=10\n"+
		"rule fn=nvmlDeviceGetName mig=1 ms=10\nrule fn=nvmlDeviceGetGpuInstanceId mig=1 ms=10\n")
	f := newFixture(t, func(cfg *Config) { cfg.LibraryPath, cfg.ProcRoot = stub.Path, proc })
	require.Equal(t, outcomeOK, f.collect(t.Context()), "after each instance was read")
	for range 3 {
		stub.Record(t)
		require.Equal(t, outcomeOK, f.collect(t.Context()))
		calls := map[string]int{}
		for _, fn := range stub.Calls(t) {
			calls[fn]++
		}
		for fn, ofBoard := range map[string]int{
			"nvmlDeviceGetMemoryInfo_v2": 0, "nvmlDeviceGetGpuInstanceId": 0, "nvmlDeviceGetUUID": 1, "nvmlDeviceGetName": 1,
		} {
			assert.Equal(t, ofBoard+2, calls[fn], "%s of the busy instance and of one of six idle instances", fn)
		}
		assert.Equal(t, 7, f.names()["hw.gpu.memory.limit"], "the size of an instance does not change")
		assert.Equal(t, 8, f.names()["gpu.process.count"])
		assert.Equal(t, 2, f.names()["hw.gpu.memory.usage"])
	}
	metadatatest.AssertEqualReceiverNvmlInstancesSkipped(t, f.telemetry,
		[]metricdata.DataPoint[int64]{{Value: 3 * 5}}, metricdatatest.IgnoreTimestamp())
}

// Outside the host's PID namespace, NVML's process lists are incomplete, so an empty list does not
// mean that there are no processes.
func TestOutsideTheHostsPIDNamespaceProcessesAreNotCounted(t *testing.T) {
	for name, link := range map[string]string{"another namespace": "pid:[4026532281]", "unknown": ""} {
		t.Run(name, func(t *testing.T) {
			stub := nvmltest.Build(t)
			stub.Script(t, "gpu uuid=GPU-1 power=1000\n")
			f := newFixture(t, func(cfg *Config) {
				cfg.LibraryPath, cfg.ProcRoot = stub.Path, t.TempDir()
				require.NoError(t, os.MkdirAll(filepath.Join(cfg.ProcRoot, "self", "ns"), 0o700))
				if link != "" {
					require.NoError(t, os.Symlink(link, filepath.Join(cfg.ProcRoot, "self", "ns", "pid")))
				}
			})
			require.Equal(t, outcomeOK, f.collect(t.Context()))
			assert.Equal(t, map[string]int{"hw.power": 1}, f.names())
			require.NoError(t, f.Start(t.Context(), f.host))
			require.NoError(t, f.Shutdown(t.Context()))
			assert.Contains(t, messages(f.logs), "warn: NVML lists all processes only in the host's PID namespace. This is a different one, so gpu.process.count is absent. Set hostPID.")
		})
	}
}

func TestSelfMetrics(t *testing.T) {
	f := onStub(t, nvmltest.Build(t), "gpu uuid=GPU-1 util=101 temp=99999 power=5\n"+
		"proc pid=7 mem=1\nproc pid=8 mem=1\n"+
		"rule fn=nvmlDeviceGetPowerUsage rc=4\n")
	require.NoError(t, os.Mkdir(filepath.Join(f.cfg.ProcRoot, "7"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.cfg.ProcRoot, "7", "cgroup"), []byte("0::/init.scope\n"), 0o600))
	require.Equal(t, outcomePartial, f.collect(t.Context()))
	one := []metricdata.DataPoint[int64]{{Value: 1}}
	ignore := metricdatatest.IgnoreTimestamp()
	metadatatest.AssertEqualReceiverNvmlCallsFailed(t, f.telemetry, one, ignore)
	metadatatest.AssertEqualReceiverNvmlRatiosClamped(t, f.telemetry, one, ignore)
	metadatatest.AssertEqualReceiverNvmlValuesDropped(t, f.telemetry, one, ignore)
	metadatatest.AssertEqualReceiverNvmlInstancesSkipped(t, f.telemetry, []metricdata.DataPoint[int64]{{Value: 0}}, ignore)
	metadatatest.AssertEqualReceiverNvmlCollections(t, f.telemetry, []metricdata.DataPoint[int64]{
		{Value: 1, Attributes: attribute.NewSet(attribute.String("outcome", "partial"))},
	}, ignore)
	m, err := f.telemetry.GetMetric("otelcol_receiver_nvml_processes")
	require.NoError(t, err)
	owners := map[string]int64{}
	for _, dp := range m.Data.(metricdata.Gauge[int64]).DataPoints {
		owner, _ := dp.Attributes.Value("owner")
		owners[owner.AsString()] = dp.Value
	}
	assert.EqualValues(t, 1, owners["unknown"], "no process has that ID")
	assert.EqualValues(t, 1, owners["host"])
}

// The node function returns a script for a machine with the given numbers of boards, instances, and
// processes, and a fake proc file system that contains these processes.
func node(tb testing.TB, boards, instances, processes int) (script, proc string) {
	tb.Helper()
	proc = procRoot(tb)
	var b strings.Builder
	pid := 1000
	for board := range boards {
		fmt.Fprintf(&b, "gpu uuid=GPU-%08d-0000-0000-0000-000000000000 name=NVIDIA_H100_80GB_HBM3 minor=%d migmode=1 "+
			"power=350000 energy=123456789 temp=50 sm=1980 mem=2619 reasons=4 tx=100 rx=200 gen=5 width=16\n", board, board)
		for i, id := range []int{38, 45, 52, 59, 74, 75, 76, 77, 82, 83, 94, 142, 143, 3, 4, 269, 270, 271} {
			fmt.Fprintf(&b, "field id=%d value=%d\n", id, i+1)
		}
		for gi := range instances {
			fmt.Fprintf(&b, "mig uuid=MIG-%04d%04d-0000-0000-0000-000000000000 name=NVIDIA_H100_80GB_HBM3_MIG_1g.10gb gi=%d "+
				"total=10000000000 free=5000000000 used=5000000000\n", board, gi, 7+gi)
		}
		for range (processes*(board+1))/boards - (processes*board)/boards {
			pid++
			fmt.Fprintf(&b, "proc pid=%d mem=1000000000 gi=%d\n", pid, 7+pid%instances)
			dir := filepath.Join(proc, strconv.Itoa(pid))
			require.NoError(tb, os.Mkdir(dir, 0o700))
			require.NoError(tb, os.WriteFile(filepath.Join(dir, "cgroup"), fmt.Appendf(nil,
				"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod00000000_0000_0000_0000_%012d.slice/cri-containerd-%064x.scope\n",
				pid/2, pid), 0o600))
		}
	}
	return b.String(), proc
}

// After each collection, all files must be closed and all allocated memory must be released, even
// if the collection fails.
func TestTenThousandCollectionsDoNotLeakMemory(t *testing.T) {
	script, proc := node(t, 1, 2, 3)
	stub := nvmltest.Build(t)
	f := newFixture(t, func(cfg *Config) { cfg.LibraryPath, cfg.ProcRoot = stub.Path, proc })
	scripts := []string{script, script + "rule fn=* rc=15 after=9\n", "init rc=9\n", script + "rule fn=* rc=9 after=5\n", script}
	collect := func(n int) {
		for i := range n {
			if i%10 == 0 {
				stub.Script(t, scripts[i/10%len(scripts)])
			}
			f.collect(t.Context())
			f.sink.Reset()
			f.logs.TakeAll()
			f.host.Reset()
			f.telemetry.SpanRecorder.Reset() // the recorder stores one span per batch
		}
	}
	collect(500) // After 500 collections, the sizes of allocators and caches are stable.
	fds, goroutines, resident := count(t, "/proc/self/fd"), runtime.NumGoroutine(), residentBytes(t)
	collections := 10_000
	if testing.Short() {
		collections /= 10
	}
	collect(collections)
	assert.LessOrEqual(t, count(t, "/proc/self/fd"), fds)
	assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	// A leak of 1 KiB per collection would add up to 10 MiB.
	assert.Less(t, residentBytes(t)-resident, int64(8<<20))
}

func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(entries)
}

// residentBytes runs a garbage collection and returns the resident memory of this process in bytes.
func residentBytes(t *testing.T) int64 {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}

// BenchmarkCollection measures a complete collection of 8 boards with 7 MIG instances each and 200
// processes: loading, reading, unloading, control groups, and the batch. The measured time includes
// the time that the stub library takes.
func BenchmarkCollection(b *testing.B) {
	script, proc := node(b, 8, 7, 200)
	stub := nvmltest.Build(b)
	stub.Script(b, script)
	f := newFixture(b, func(cfg *Config) { cfg.LibraryPath, cfg.ProcRoot = stub.Path, proc })
	b.ReportAllocs()
	var cpu cpumeter.Meter
	samples := 0
	for b.Loop() {
		cpu.Start(b)
		if f.collect(b.Context()) != outcomeOK {
			b.Fatal(f.collector.Problem())
		}
		cpu.Stop(b)
		samples = f.sink.DataPointCount()
		f.sink.Reset()
	}
	cpu.Report(b, samples)
}

// BenchmarkHold measures a collection of 8 boards, both with and without keeping the library
// loaded. The benchmark simulates several durations for the initialization of the library. On real
// machines, the initialization takes 20 ms if persistence mode is enabled, and 2 s otherwise.
func BenchmarkHold(b *testing.B) {
	script, proc := node(b, 8, 7, 200)
	stub := nvmltest.Build(b)
	for _, ms := range []int{0, 20, 200, 2000} {
		for _, hold := range []string{HoldNever, HoldBetweenFailures} {
			b.Run(fmt.Sprintf("init=%dms/hold=%s", ms, hold), func(b *testing.B) {
				stub.Script(b, fmt.Sprintf("init ms=%d\n%s", ms, script))
				f := newFixture(b, func(cfg *Config) { cfg.LibraryPath, cfg.ProcRoot, cfg.Hold = stub.Path, proc, hold })
				require.Equal(b, outcomeOK, f.collect(b.Context()))
				for b.Loop() {
					f.collect(b.Context())
					f.sink.Reset()
				}
				require.NoError(b, f.release())
			})
		}
	}
}

// xidPoints returns the values of the XID error points in the last batch that have a start
// timestamp.
func (f *fixture) xidPoints() map[string]float64 {
	all := f.sink.AllMetrics()
	list := map[string]float64{}
	for p := range points.All(all[len(all)-1]) {
		if kind := pdatagpu.Text(p.Attributes(), signal.ErrorType); p.Metric.Name() == signal.HwErrors.Name && p.StartTimestamp() > 0 {
			list[strings.TrimSpace(kind+" "+pdatagpu.Text(p.Attributes(), signal.EventSource))] = points.Value(p.NumberDataPoint)
		}
	}
	return list
}

func TestXIDErrorsAreCountedWhileTheLibraryIsHeld(t *testing.T) {
	const board = "gpu uuid=GPU-1 power=1000\n"
	stub := nvmltest.Build(t)
	for _, hold := range []string{HoldAlways, HoldBetweenFailures, HoldNever} {
		t.Run(hold, func(t *testing.T) {
			stub.Script(t, board)
			f := newFixture(t, func(cfg *Config) { cfg.LibraryPath, cfg.Hold = stub.Path, hold })
			collect := func(script string) map[string]float64 {
				stub.Script(t, script)
				f.collect(t.Context())
				return f.xidPoints()
			}
			collect(board)
			got := []map[string]float64{collect(board), collect(board + "xid code=31\nxid code=31\n"), collect(board)}
			if hold == HoldNever {
				assert.Equal(t, []map[string]float64{{}, {}, {}}, got)
				return
			}
			assert.Equal(t, []map[string]float64{{"": 0}, {"xid_31 counter": 2}, {"xid_31 counter": 2}}, got)

			// XID 79 means that the board is lost.
			assert.Equal(t, map[string]float64{"xid_31 counter": 2, "xid_79 counter": 1}, collect(board+"xid code=79\nrule fn=* gpu=0 rc=15\n"))
			require.NoError(t, f.release(), "all event sets are freed")
		})
	}
}

// If the library call that reads events hangs, Shutdown abandons it like any other call and does
// not wait for it to return.
func TestShutdownDoesNotWaitForEvents(t *testing.T) {
	stub := nvmltest.Build(t)
	stub.Script(t, "gpu uuid=GPU-1 power=1000\n")
	f := newFixture(t, func(cfg *Config) { cfg.LibraryPath, cfg.Hold = stub.Path, HoldAlways })
	require.Equal(t, outcomeOK, f.collect(t.Context()))
	stub.Script(t, "gpu uuid=GPU-1 power=1000\nrule fn=nvmlEventSetWait_v2 ms=300\n")
	stub.Record(t)
	require.NoError(t, f.Start(t.Context(), f.host))
	require.Eventually(t, func() bool { return counted(t, stub)["nvmlEventSetWait_v2"] > 0 }, 5*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, f.Shutdown(ctx), "abandoned")
	<-f.done // wait until the receiver no longer uses the directory of the stub library
}
