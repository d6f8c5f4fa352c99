package nvmlreceiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component/componentstatus"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/metric/metricdata/metricdatatest"

	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/cgroup"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/metadatatest"
	"github.com/otelcol-gpu/otelcol-gpu/receiver/nvmlreceiver/internal/nvml"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/enumtest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/statustest"
)

// fakeLibrary is a fake NVML library for a machine with one board that draws 100 W.
type fakeLibrary struct {
	mu     sync.Mutex
	script script
}

// The script type defines how a fakeLibrary behaves.
type script struct {
	opening, counting, closing error
	reading                    func() // called during a collection
}

// The set method changes how the fake library behaves.
func (l *fakeLibrary) set(s script) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = s
}

func (l *fakeLibrary) get() script {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.script
}

func (l *fakeLibrary) open(string) (library, error) { return l, l.get().opening }

func (*fakeLibrary) Driver() string { return "" }

func (*fakeLibrary) Serial(nvml.Device) (string, error) { return "", nvml.ErrNotSupported }

func (l *fakeLibrary) DeviceCount() (int, error) {
	s := l.get()
	if s.reading != nil {
		s.reading()
	}
	return 1, s.counting
}

func (*fakeLibrary) Device(int) (nvml.Device, error) { return 1, nil }

func (*fakeLibrary) MIGDevice(nvml.Device, int) (nvml.Device, error) {
	return 0, nvml.ErrNotFound
}

func (*fakeLibrary) UUID(nvml.Device) (string, error) { return "GPU-1", nil }

func (*fakeLibrary) Name(nvml.Device) (string, error) { return "NVIDIA L4", nil }

func (*fakeLibrary) Query(_ nvml.Device, q nvml.Query) (uint64, error) {
	if q == nvml.PowerUsage {
		return 100_000, nil
	}
	return 0, nvml.ErrNotSupported
}

func (*fakeLibrary) Memory(nvml.Device) (nvml.Memory, error) {
	return nvml.Memory{}, nvml.ErrNotSupported
}

func (*fakeLibrary) FieldValues(nvml.Device, []nvml.FieldValue) error { return nvml.ErrNotSupported }

func (*fakeLibrary) Processes(_ nvml.Device, _ nvml.ProcessKind, list []nvml.Process) ([]nvml.Process, error) {
	return list, nil
}

func (*fakeLibrary) ProcessUtilization(nvml.Device, uint64, []nvml.ProcessSample) ([]nvml.ProcessSample, error) {
	return nil, nvml.ErrNotFound
}

func (*fakeLibrary) GPMSupported(nvml.Device) (bool, error) { return false, nil }

func (*fakeLibrary) NewGPMSample() (nvml.GPMSample, error) { return 0, nvml.ErrNotSupported }

func (*fakeLibrary) FreeGPMSample(nvml.GPMSample) error { return nil }

func (*fakeLibrary) ReadGPMSample(nvml.Device, uint32, nvml.GPMSample) error { return nil }

func (*fakeLibrary) GPMValues(_, _ nvml.GPMSample, _ []nvml.GPMValue) error { return nil }

func (*fakeLibrary) NewEventSet() (nvml.EventSet, error) { return 0, nvml.ErrNotSupported }

func (*fakeLibrary) FreeEventSet(nvml.EventSet) error { return nil }

func (*fakeLibrary) WatchXIDs(nvml.Device, nvml.EventSet) error { return nvml.ErrNotSupported }

func (*fakeLibrary) NextXID(nvml.EventSet) (nvml.XIDEvent, error) {
	return nvml.XIDEvent{}, nvml.ErrTimeout
}

func (l *fakeLibrary) Close() error { return l.get().closing }

// The started function starts a receiver that opens libraries with the open function. At the end of
// the test, the receiver is shut down. The caller must be in a synctest bubble.
func started(t *testing.T, change func(*Config), open func(string) (library, error)) *fixture {
	t.Helper()
	f := newFixture(t, change)
	f.open = open
	require.NoError(t, f.Start(t.Context(), f.host))
	t.Cleanup(func() { require.NoError(t, f.Shutdown(context.Background())) })
	synctest.Wait()
	return f
}

func unchanged(*Config) {}

// The pass function advances the fake clock.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// outcomeCounts returns the number of collections so far for each outcome.
func (f *fixture) outcomeCounts(t *testing.T) map[string]int64 {
	t.Helper()
	m, err := f.telemetry.GetMetric("otelcol_receiver_nvml_collections")
	require.NoError(t, err)
	counts := map[string]int64{}
	for _, dp := range m.Data.(metricdata.Sum[int64]).DataPoints {
		v, _ := dp.Attributes.Value(attribute.Key("outcome"))
		counts[v.AsString()] = dp.Value
	}
	return counts
}

func TestTheFirstCollectionIsImmediateAndOthersFollowAtTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := started(t, unchanged, new(fakeLibrary).open)
		began := time.Now()
		require.Len(t, f.sink.AllMetrics(), 1)
		pass(29 * time.Second)
		assert.Len(t, f.sink.AllMetrics(), 2)
		pass(time.Second)
		require.Len(t, f.sink.AllMetrics(), 3)
		for i, md := range f.sink.AllMetrics() {
			points, _ := numberPointsOf(md)
			assert.Equal(t, began.Add(time.Duration(i)*15*time.Second).UTC(), points.At(0).Timestamp().AsTime())
		}
		assert.Equal(t, []string{"info: Collecting from NVML."}, messages(f.logs))
		assert.Equal(t, []componentstatus.Status{componentstatus.StatusOK}, f.host.Statuses())
	})
}

func TestReceiverWithoutADeviceIsDormantAndLogsItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := sysRoot(t, "0x8086", "0x1002")
		f := started(t, func(cfg *Config) { cfg.SysRoot = root }, new(fakeLibrary).open)
		pass(time.Hour)
		assert.Empty(t, f.sink.AllMetrics())
		assert.Equal(t, []string{"info: This machine has no NVIDIA device. The receiver is dormant."}, messages(f.logs))
		assert.Equal(t, map[string]int64{"no_device": 61}, f.outcomeCounts(t), "the receiver looks for a device every minute")

		plug(t, root, "z", nvidiaVendor)
		pass(time.Minute)
		assert.Len(t, f.sink.AllMetrics(), 1, "an attached device is found")
	})
}

func TestAMachineWithoutSysFileSystemHasNoDevice(t *testing.T) {
	assert.False(t, hasDevice(t.TempDir()))
	assert.True(t, hasDevice(sysRoot(t, nvidiaVendor)))
}

func TestReceiverKeepsWaitingForALibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		missing := fmt.Errorf("%w: no such file", nvml.ErrNoLibrary)
		lib := &fakeLibrary{script: script{opening: missing}}
		f := started(t, unchanged, lib.open)
		pass(24 * time.Hour)
		assert.Empty(t, f.sink.AllMetrics())
		lib.set(script{opening: nvml.ErrDriverNotLoaded})
		pass(time.Minute)
		lib.set(script{})
		pass(time.Minute)
		assert.Len(t, f.sink.AllMetrics(), 1, "the library is found after the driver was installed")
		assert.Equal(t, map[string]int64{"no_library": 24*60 + 1, "init_failed": 1, "ok": 1}, f.outcomeCounts(t))
		assert.Equal(t, []string{
			"warn: There is an NVIDIA device but no NVML library. Waiting for a driver.",
			"warn: NVML cannot be initialized. Waiting for the driver.",
			"info: Collecting from NVML.",
		}, messages(f.logs))
		assert.Equal(t, []componentstatus.Status{
			componentstatus.StatusRecoverableError, componentstatus.StatusRecoverableError, componentstatus.StatusOK,
		}, f.host.Statuses())
	})
}

func TestCrashingLibraryIsRetriedLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := &fakeLibrary{script: script{opening: fmt.Errorf("%w: SIGSEGV", nvml.ErrCrashed)}}
		f := started(t, unchanged, lib.open)
		for minutes, want := range []int64{1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5} {
			assert.Equal(t, map[string]int64{"crashed": want}, f.outcomeCounts(t), "after %d minutes", minutes)
			pass(time.Minute)
		}
		pass(24 * time.Hour)
		assert.EqualValues(t, 5+90, f.outcomeCounts(t)["crashed"], "later every 16 minutes")
		assert.Equal(t, []string{
			"warn: NVML crashed in a child process that tried to initialize it. The receiver will retry from time to time.",
		}, messages(f.logs))
		lib.set(script{})
		pass(16 * time.Minute)
		assert.NotEmpty(t, f.sink.AllMetrics(), "the library was repaired")
		lib.set(script{opening: nvml.ErrCrashed})
		pass(15 * time.Second)
		pass(time.Minute)
		assert.EqualValues(t, 5+90+2, f.outcomeCounts(t)["crashed"], "a new crash is retried soon")
	})
}

// If a collection takes so long that the receiver logs a warning, the receiver logs its outcome
// again.
func TestLoggedRetryTimeIsTheIntervalUntilTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := &fakeLibrary{script: script{opening: nvml.ErrCrashed}}
		f := started(t, unchanged, func(path string) (library, error) {
			time.Sleep(35 * time.Second)
			return lib.open(path)
		})
		retries := func() (list []time.Duration) {
			for _, entry := range f.logs.TakeAll() {
				if wait, ok := entry.ContextMap()["retry_after"]; ok {
					list = append(list, wait.(time.Duration))
				}
			}
			return list
		}
		pass((1+2+4+8+16)*time.Minute + 40*time.Second)
		assert.Equal(t, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 16 * time.Minute}, retries())
		lib.set(script{opening: nvml.ErrDriverNotLoaded})
		pass(17 * time.Minute)
		assert.Equal(t, []time.Duration{time.Minute, time.Minute}, retries())
	})
}

// closeCounter is a fake library that counts how often it was opened and closed.
type closeCounter struct {
	*fakeLibrary
	opened, closed atomic.Int64
}

func (c *closeCounter) open(path string) (library, error) {
	c.opened.Add(1)
	_, err := c.fakeLibrary.open(path)
	return c, err
}

func (c *closeCounter) Close() error {
	c.closed.Add(1)
	return c.fakeLibrary.Close()
}

func TestLostDriverIsClosedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := &closeCounter{fakeLibrary: &fakeLibrary{}}
		f := started(t, unchanged, lib.open)
		for i, s := range []script{{}, {counting: nvml.ErrDriverNotLoaded}, {closing: nvml.ErrUnknown}, {}} {
			if i > 0 {
				lib.set(s)
				pass(15 * time.Second)
			}
			assert.EqualValues(t, i+1, lib.opened.Load())
			assert.Equal(t, lib.opened.Load(), lib.closed.Load(), "the library is closed between collections")
		}
		assert.Len(t, f.sink.AllMetrics(), 3)
		assert.Equal(t, map[string]int64{"ok": 2, "driver_lost": 1, "partial": 1}, f.outcomeCounts(t))
	})
}

func TestMissedCollectionsAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var underWay, most atomic.Int64
		lib := &fakeLibrary{script: script{reading: func() {
			most.Store(max(most.Load(), underWay.Add(1)))
			time.Sleep(40 * time.Second)
			underWay.Add(-1)
		}}}
		f := started(t, unchanged, lib.open)
		pass(5 * time.Minute)
		assert.EqualValues(t, 1, most.Load())
		assert.Len(t, f.sink.AllMetrics(), 6, "one in 45 s, at a multiple of 15 s")
		metadatatest.AssertEqualReceiverNvmlCollectionsSkipped(t, f.telemetry,
			[]metricdata.DataPoint[int64]{{Value: 12}}, metricdatatest.IgnoreTimestamp())
		lib.set(script{})
		pass(40 * time.Second) // Advance the clock, because Shutdown waits for the collection in progress.
	})
}

func TestHangingLibraryBlocksOnlyItsReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := newFixture(t, unchanged)
		f.open = func(string) (library, error) {
			<-release
			return &fakeLibrary{}, nil
		}
		began := time.Now()
		require.NoError(t, f.Start(t.Context(), f.host))
		assert.Zero(t, time.Since(began), "Start does not wait for the call")
		pass(time.Minute)
		assert.Equal(t, []string{"warn: NVML does not respond. Collections continue when it does."}, messages(f.logs))

		err := f.Shutdown(context.Background())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Minute+5*time.Second, time.Since(began), "Shutdown waits for shutdownWait")
		close(release)
		synctest.Wait()
		assert.Empty(t, f.sink.AllMetrics(), "late data is not sent")
		<-f.done
	})
}

func TestRecoveredLibraryIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lib := &fakeLibrary{}
		f := started(t, unchanged, lib.open)
		lib.set(script{reading: func() {
			lib.set(script{})
			time.Sleep(35 * time.Second)
		}})
		pass(time.Minute)
		assert.Equal(t, []string{
			"info: Collecting from NVML.",
			"warn: NVML does not respond. Collections continue when it does.",
			"info: Collecting from NVML.",
		}, messages(f.logs))
		assert.Equal(t, []componentstatus.Status{
			componentstatus.StatusOK, componentstatus.StatusRecoverableError, componentstatus.StatusOK,
		}, f.host.Statuses())
	})
}

func TestDataCollectedAtShutdownIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, unchanged)
		f.open = func(string) (library, error) {
			return &fakeLibrary{script: script{reading: func() { time.Sleep(time.Second) }}}, nil
		}
		require.NoError(t, f.Start(t.Context(), f.host))
		synctest.Wait()
		require.NoError(t, f.Shutdown(context.Background()))
		assert.Len(t, f.sink.AllMetrics(), 1)
	})
}

func TestShutdownReturnsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, unchanged)
		f.open = func(string) (library, error) {
			time.Sleep(3 * time.Second)
			return nil, nvml.ErrNoLibrary
		}
		require.NoError(t, f.Start(t.Context(), f.host))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, f.Shutdown(ctx), context.Canceled)
		<-f.done
	})
}

func TestAbandonedCallIsNotReportedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, unchanged)
		f.open = func(string) (library, error) {
			time.Sleep(time.Minute)
			return nil, nvml.ErrNoLibrary
		}
		require.NoError(t, f.Start(t.Context(), f.host))
		synctest.Wait()
		require.ErrorIs(t, f.Shutdown(context.Background()), context.DeadlineExceeded)
		<-f.done
		assert.Empty(t, messages(f.logs))
		assert.Empty(t, f.host.Statuses())
	})
}

func TestShutdownIsSafeWithoutStartAndTwice(t *testing.T) {
	f := newFixture(t, unchanged)
	f.open = new(fakeLibrary).open
	require.NoError(t, f.Shutdown(t.Context()))
	require.NoError(t, f.Start(t.Context(), f.host))
	require.NoError(t, f.Shutdown(t.Context()))
	require.NoError(t, f.Shutdown(t.Context()))
}

func TestRejectedPointsAreCounted(t *testing.T) {
	f := newFixture(t, unchanged)
	f.open = new(fakeLibrary).open
	f.next = consumertest.NewErr(errors.New("full"))
	assert.Equal(t, outcomeOK, f.collect(t.Context()))
	_, err := f.telemetry.GetMetric("otelcol_receiver_refused_metric_points")
	require.NoError(t, err)
}

func TestBuildWithoutTheBindingDoesNotStart(t *testing.T) {
	r, err := newReceiver(receivertest.NewNopSettings(metadata.Type), createDefaultConfig().(*Config), consumertest.NewNop())
	require.NoError(t, err)
	r.open = nil
	require.ErrorIs(t, r.Start(t.Context(), statustest.NewHost()), nvml.ErrNoBinding)
	require.NoError(t, r.Shutdown(t.Context()))
}

func TestTheValuesOfSelfMetricsAreDocumented(t *testing.T) {
	var names []string
	for _, o := range outcomes {
		names = append(names, o.name)
	}
	assert.ElementsMatch(t, enumtest.Documented(t, "outcome"), names)
	assert.ElementsMatch(t, enumtest.Documented(t, "owner"), enumtest.Names(0, cgroup.NumKinds))
}
