package faults

import (
	"bytes"
	"debug/elf"
	endian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/processtest"
)

// clock is a wall clock for a single process. A test can set this clock. Linux does not support
// per-process wall clocks. However, the kernel maps a function that returns the time (in the vDSO)
// into every process, and even statically linked programs call that function. Before the process
// under test executes its first instruction, the test overwrites the function. The replacement code
// calls the kernel and adds an offset, which is stored after the code. As on a real machine,
// setting the wall clock does not affect the monotonic clock.
type clock struct {
	memory *os.File
	ahead  int64 // address of the offset, which is in seconds
}

// realtime is machine code that implements clock_gettime. The code adds the eight-byte number at
// offset realtimeAhead to the seconds of CLOCK_REALTIME.
var realtime = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jne ret
	0x48, 0x8b, 0x15, 6, 0, 0, 0, // mov rdx, [rip+6]
	0x48, 0x01, 0x16, // add [rsi], rdx
	0xc3,                               // ret
	0xcc, 0xcc, 0, 0, 0, 0, 0, 0, 0, 0, // padding and the offset
}

const realtimeAhead = 24

// start runs the command with this clock. If the machine does not allow tracing a process, start
// skips the test.
func (c *clock) start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		notruntest.Skip(t, "a clock that is set: no machine code for "+runtime.GOARCH)
	}
	// In Linux, the tracer is a thread, so all calls must be made from the same thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		notruntest.Skip(t, fmt.Sprintf("a clock that is set: this machine does not allow tracing: %v", err))
	} else {
		require.NoError(t, err)
	}
	pid := cmd.Process.Pid
	_, err := syscall.Wait4(pid, nil, 0, nil) // wait until the process has stopped before its first instruction
	require.NoError(t, err)
	begin, end := vdso(t, pid)
	c.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.memory.Close()) })
	image := make([]byte, end-begin)
	_, err = c.memory.ReadAt(image, begin)
	require.NoError(t, err)
	file, err := elf.NewFile(bytes.NewReader(image))
	require.NoError(t, err)
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "__vdso_clock_gettime" })
	require.GreaterOrEqual(t, at, 0)
	function := begin + int64(symbols[at].Value)
	c.ahead = function + realtimeAhead
	require.Zero(t, c.ahead%8, "the seconds must be written atomically")
	_, err = c.memory.WriteAt(realtime, function)
	require.NoError(t, err)
	require.NoError(t, syscall.PtraceDetach(pid))
}

// The set method sets how far this clock is ahead of the machine's clock. If ahead is negative,
// this clock is behind.
func (c *clock) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	_, err := c.memory.WriteAt(endian.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), c.ahead)
	require.NoError(t, err)
}

// vdso returns the start and end addresses of the vDSO mapping in a process.
func vdso(t *testing.T, pid int) (begin, end int64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err = fmt.Sscanf(line, "%x-%x", &begin, &end)
			require.NoError(t, err)
			return begin, end
		}
	}
	require.FailNow(t, "no [vdso]", "%s", maps)
	return 0, 0
}

// The agent's clock is set an hour forward, to the correct time, an hour back, and to the correct
// time again. Windows must be timestamped with the agent's clock, and each window must contain the
// samples that the exporter served at those times. No energy may be charged for hours that did not
// pass.
func TestAClockThatIsSetMakesNoWrongWindow(t *testing.T) {
	t.Parallel()
	const watts, maxGap = 100.0, 2 * time.Second
	wall := &clock{}
	tr := newTrial(t, setting{clock: wall, set: []string{
		stages + ".gpu_k8s.kubernetes.auth_type=none", stages + ".gpu_k8s.sources.pod_resources.enabled=false", stages + ".gpu_k8s.sources.dra.enabled=false",
		stages + ".gpu_k8s.power.idle.watts=10", stages + ".gpu_k8s.power.max_gap=" + maxGap.String(), stages + ".gpu_k8s.storage=file_storage",
	}}, func(e *exporter) {
		const holder = `,namespace="ml",pod="job",container="main"`
		e.labels = func(int) string { return holder }
		e.extra = func(int) string {
			return fmt.Sprintf("DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=%q,device=\"nvidia0\",modelName=\"NVIDIA L4\",Hostname=%q%s} %g\n", e.device(0), e.node, holder, watts)
		}
	})
	began := time.Now()
	steps := []time.Duration{0, time.Hour, 0, -time.Hour, 0}
	// served contains the exporter's responses for each offset of the agent's clock. The responses
	// are timestamped with the agent's clock.
	served := map[time.Duration][]answer{}
	// shown returns the received points with timestamps that belong to the given clock offset.
	shown := func(ahead time.Duration) []point {
		var points []point
		for _, p := range tr.backend.all() {
			if p.end.Sub(began.Add(ahead)).Abs() < 30*time.Minute {
				points = append(points, p)
			}
		}
		return points
	}
	since, slowest := 0, 0.0
	for n, ahead := range steps {
		set := time.Now()
		if n > 0 {
			wall.set(t, ahead)
		}
		// Ignore windows of earlier steps, which may have had the same clock offset.
		processtest.Until(t, "a complete window with the new clock", func() bool {
			for _, p := range shown(ahead) {
				if p.metric == signal.WindowCoverage.Name && p.device == tr.exporter.device(0) && p.value >= 0.8 && p.end.Add(-window).After(set.Add(ahead)) {
					slowest = max(slowest, time.Since(set).Seconds())
					return true
				}
			}
			return false
		}, tr.agent.Process)
		pass(t, tr.agent, set.Add(outage))
		all := tr.exporter.served()
		for _, a := range all[since:] {
			a.at = a.at.Add(ahead)
			served[ahead] = append(served[ahead], a)
		}
		since = len(all)
	}
	back := tr.agent.metric(t, "otelcol_processor_gpu_window_clock_steps", "")
	assert.InDelta(t, 2, back, 0, "steps back")
	tr.agent.stop(t)
	ran := time.Since(tr.exporter.started)

	var v verdict
	for ahead, answers := range served {
		// When the clock is set back, open windows are dropped. A scrape that is in progress when
		// the clock is set may be timestamped with either the old or the new time.
		phase := judgeAnswers(t, tr.exporter, answers, shown(ahead), tolerance{missing: 2 * unsaved, baseline: true, across: 2})
		v.windows += phase.windows
		v.lost += phase.lost
	}
	// counters contains the last energy value for each start timestamp, because a counter starts
	// over when the clock is set back. The points must be sorted: when the clock is set forward,
	// several windows close at once, and their requests may arrive out of order.
	counters := map[time.Time]float64{}
	for _, p := range slices.SortedStableFunc(slices.Values(tr.backend.all()), func(a, b point) int { return a.end.Compare(b.end) }) {
		if p.metric == signal.K8sContainerGPUEnergy.Name && p.device == tr.exporter.device(0) && !p.ended {
			assert.GreaterOrEqual(t, p.value, counters[p.start], "energy of %s", p.end)
			counters[p.start] = p.value
		}
	}
	joules := 0.0
	for _, last := range counters {
		joules += last
	}
	assert.LessOrEqual(t, len(counters), 1+int(back))
	// If the clock is set forward, the agent cannot distinguish the missing hour from failed
	// scrapes, so the energy for up to max_gap may be added.
	assert.LessOrEqual(t, joules, watts*(ran+2*maxGap).Seconds())
	assert.GreaterOrEqual(t, joules, watts*ran.Seconds()/2)
	assert.LessOrEqual(t, tr.agent.peak, float64(memoryBound))
	report(t, result{
		group: "process", fault: "the collector's own clock is set an hour forward, corrected, set an hour back, and corrected", windows: v.windows, lost: strconv.Itoa(v.lost), doubled: "0",
		peak: tr.agent.peak, recovery: slowest,
		held: fmt.Sprintf("windows follow the new clock; %.0f backward steps are counted, and the windows that are open at these steps are dropped; energy grows by at most `max_gap` per step; recovery is the time to a complete window", back),
	})
}
