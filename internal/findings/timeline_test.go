package findings

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/gpudata"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/goldentest"
)

var (
	node  = gpudata.Place{Node: "n1"}
	epoch = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)
)

// series maps the short names that timelines use to samples of a device. The init function derives
// the names active_<reason>, time_<reason>, and violation_<policy> from the signal table and adds
// them.
var series = map[string]gpudata.Sample{
	"util":                    {Metric: signal.HwGPUUtilization, Own: signal.TaskGeneral},
	"tensor":                  {Metric: signal.GPUPipeActive, Own: "tensor"},
	"dram":                    {Metric: signal.GPUDRAMActive},
	"pcie":                    {Metric: signal.GPUPCIeUtilization, Own: signal.DirectionReceive},
	"pcie_rate":               {Metric: signal.GPUPCIeThroughput, Own: signal.DirectionReceive},
	"lanes":                   {Metric: signal.GPUPCIeLinkWidth},
	"nvlink":                  {Metric: signal.GPUNVLinkUtilization, Own: signal.DirectionTransmit},
	"nvlink_rate":             {Metric: signal.GPUNVLinkThroughput, Own: signal.DirectionTransmit},
	"power":                   {Metric: signal.HwPower},
	"limit":                   {Metric: signal.GPUPowerLimit},
	"idle":                    {Metric: signal.GPUPowerIdle},
	"temp":                    {Metric: signal.HwTemperature, Own: signal.LocationGPU},
	"sm":                      {Metric: signal.GPUClockFrequency, Own: signal.DomainSM},
	"mem":                     {Metric: signal.GPUClockFrequency, Own: signal.DomainMemory},
	"energy":                  {Metric: signal.HwEnergy},
	"corrected":               {Metric: signal.HwErrors, Own: "corrected"},
	"row_remap_uncorrectable": {Metric: signal.HwErrors, Own: "row_remap_uncorrectable"},
	"row_remap_correctable":   {Metric: signal.HwErrors, Own: "row_remap_correctable"},
	"pending":                 {Metric: signal.HwStatus, Own: signal.StatusPredictedFailure},
	"failed":                  {Metric: signal.HwStatus, Own: signal.StatusFailed},
}

func init() { //nolint:gochecknoinits // the names are from the signal table
	for prefix, m := range map[string]*signal.Metric{"active_": signal.GPUClockEventActive, "time_": signal.GPUClockEventTime, "violation_": signal.GPUClockThrottleTime} {
		for _, own := range signal.Values(m.Attributes[0]) {
			series[prefix+own] = gpudata.Sample{Metric: m, Own: own}
		}
	}
}

// timeline describes one node over time. Each line of the text has one of these forms:
//
//	every <duration>                     the time between two samples; the default is 15s
//	<time> <devices> <key>=<value> …     the state of the devices from this time on
//	<time> end
//
// Commas separate devices. The value "-" means that there is no sample, and "+<n>" means that the
// value increases by n each second. Keys that are not names of samples are holder=<pod>/<workload>,
// holder=nobody, holder=-, processes=<n>, model, parent, predicted=true for a predicted failure
// that hw.status hides, and gone=true for a device without a row. If <devices> is "all", gap=true
// means that the exporter does not respond.
type timeline struct {
	every   time.Duration
	changes []change
	end     time.Duration
}

type change struct {
	at      time.Duration
	devices []string
	set     [][2]string
}

func parseTimeline(t *testing.T, text string) timeline {
	t.Helper()
	tl := timeline{every: 15 * time.Second}
	for l := range strings.Lines(text) {
		w := strings.Fields(l)
		if len(w) == 0 || strings.HasPrefix(l, "#") {
			continue
		}
		if w[0] == "every" {
			every, err := time.ParseDuration(w[1])
			require.NoError(t, err)
			tl.every = every
			continue
		}
		at, err := time.ParseDuration(w[0])
		require.NoError(t, err)
		if w[1] == "end" {
			tl.end = at
			continue
		}
		c := change{at: at, devices: strings.Split(w[1], ",")}
		for _, pair := range w[2:] {
			k, v, ok := strings.Cut(pair, "=")
			require.True(t, ok, pair)
			c.set = append(c.set, [2]string{k, v})
		}
		tl.changes = append(tl.changes, c)
	}
	require.NotZero(t, tl.end, "the timeline has no end")
	return tl
}

// The frames method creates the frames of a timeline and calls the visit function for each frame.
func (tl *timeline) frames(t *testing.T, visit func(at time.Duration, f *gpudata.Frame)) {
	t.Helper()
	present := map[string]map[string]string{}
	counters := map[string]float64{}
	next := 0
	for at := time.Duration(0); at <= tl.end; at += tl.every {
		for ; next < len(tl.changes) && tl.changes[next].at <= at; next++ {
			for _, d := range tl.changes[next].devices {
				if present[d] == nil {
					present[d] = map[string]string{}
				}
				for _, kv := range tl.changes[next].set {
					present[d][kv[0]] = kv[1]
				}
			}
		}
		if present["all"]["gap"] == "true" {
			continue
		}
		f := &gpudata.Frame{Place: node, Time: epoch.Add(at).UnixNano()}
		for _, id := range slices.Sorted(maps.Keys(present)) {
			if id == "all" || present[id]["gone"] == "true" {
				continue
			}
			d := f.Device(id)
			d.Observed, d.Model = true, cmp.Or(present[id]["model"], "H100")
			d.Parent, d.FailurePredicted = present[id]["parent"], present[id]["predicted"] == "true"
			for key, value := range present[id] {
				tl.put(t, d, key, value, counters)
			}
		}
		f.MarkIncoming()
		visit(at, f)
	}
}

func (tl *timeline) put(t *testing.T, d *gpudata.DeviceFrame, key, value string, counters map[string]float64) {
	t.Helper()
	s, isSeries := series[key]
	switch {
	case value == "-" || key == "model" || key == "parent" || key == "predicted" || key == "gone":
	case key == "holder":
		d.HoldersKnown = true
		if pod, of, _ := strings.Cut(value, "/"); pod != "nobody" {
			u := d.User(gpudata.Holder{Namespace: "team", Pod: pod, UID: "u-" + pod, Container: "main"})
			u.Holds = true
			if of != "" {
				u.Owner = gpudata.NewOwner(gpudata.Ownership{WorkloadKind: "Job", Workload: of})
			}
		}
	case key == "processes":
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		d.Listed, d.Count = true, n
	case isSeries:
		v, err := strconv.ParseFloat(strings.TrimPrefix(value, "+"), 64)
		require.NoError(t, err, key)
		counter := d.Device.ID() + key
		if strings.HasPrefix(value, "+") {
			counters[counter] += v * tl.every.Seconds()
			v = counters[counter]
		} else {
			counters[counter] = v
		}
		s.Value = v
		d.Samples.Add(s)
	default:
		require.Fail(t, "unknown key "+key)
	}
}

// lineOf formats the start or the end of a finding as one line.
func lineOf(at time.Duration, f *gpudata.Finding) string {
	verb, of := "end", f.Device
	if f.Start {
		verb = "start"
	}
	if f.Workload {
		of = "workload"
	}
	return fmt.Sprintf("%s %s %s %s", at, verb, f.Name, of)
}

// The run function evaluates a timeline and formats the start and end of each finding, including
// the evidence.
func run(t *testing.T, tl timeline, set Settings) string {
	t.Helper()
	var out strings.Builder
	tracker := New(set)
	tl.frames(t, func(at time.Duration, f *gpudata.Frame) {
		tracker.Frame(f, epoch.Add(at))
		for i := range f.Findings {
			found := &f.Findings[i]
			fmt.Fprintf(&out, "%s\n\t%s\n", lineOf(at, found), found.Body)
			for _, k := range slices.Sorted(maps.Keys(found.Texts)) {
				fmt.Fprintf(&out, "\t%s=%s\n", k, found.Texts[k])
			}
			for _, k := range slices.Sorted(maps.Keys(found.Numbers)) {
				fmt.Fprintf(&out, "\t%s=%.4g\n", k, found.Numbers[k])
			}
			for _, k := range slices.Sorted(maps.Keys(found.Lists)) {
				fmt.Fprintf(&out, "\t%s=%v\n", k, found.Lists[k])
			}
		}
	})
	return out.String()
}

func TestPublicIncidents(t *testing.T) {
	for _, dir := range goldentest.Dirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(dir, "timeline.txt"))
			require.NoError(t, err)
			goldentest.Compare(t, dir, run(t, parseTimeline(t, string(text)), DefaultSettings()))
		})
	}
}

// The found function evaluates a timeline and returns one line for the start and one line for the
// end of each finding, without the evidence.
func found(t *testing.T, text string) []string {
	t.Helper()
	var lines []string
	for l := range strings.Lines(run(t, parseTimeline(t, text), DefaultSettings())) {
		if !strings.HasPrefix(l, "\t") {
			lines = append(lines, strings.TrimSpace(l))
		}
	}
	return lines
}

// The samples function returns the values of gpu.finding for a rule and a device at the given time.
func samples(t *testing.T, text, device, rule string, at time.Duration) []float64 {
	t.Helper()
	var out []float64
	tl, tracker := parseTimeline(t, text), New(DefaultSettings())
	tl.frames(t, func(now time.Duration, f *gpudata.Frame) {
		tracker.Frame(f, epoch.Add(now))
		if now != at {
			return
		}
		added := f.Find(device).Samples.Added()
		for i := range added {
			if added[i].Metric == signal.GPUFinding && added[i].Own == rule {
				out = append(out, added[i].Value)
			}
		}
	})
	return out
}
