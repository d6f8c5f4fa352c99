package main

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the output of golden tests to their output files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestGolden runs every testdata/<sentence>/input.jsonl and compares what is
// printed with output.txt, and what is complained about with errors.txt.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*/input.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, input := range inputs {
		dir := filepath.Dir(input)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			in, err := os.Open(input)
			require.NoError(t, err)
			defer in.Close()

			var out, errs bytes.Buffer
			require.NoError(t, run(in, &table{out: &out, zone: time.UTC, width: defaultWidth}, &errs))
			golden(t, filepath.Join(dir, "output.txt"), out.String())
			golden(t, filepath.Join(dir, "errors.txt"), errs.String())
		})
	}
}

// golden compares with a file that may be missing when nothing is expected.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if got == "" {
			_ = os.Remove(file)
			return
		}
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(file)
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	assert.Equal(t, string(want), got, file)
}

func TestPercentKeepsNothingAndEverythingForExactlyThat(t *testing.T) {
	for want, ratio := range map[string]float64{
		"-": math.NaN(), "0%": 0, "<1%": 0.0001, "1%": 0.005, "42%": 0.4249, "99%": 0.99, ">99%": 0.9999, "100%": 1, "110%": 1.1,
	} {
		assert.Equal(t, want, percent(ratio), "%v", ratio)
	}
}

func TestRateHasThreeDigitsAndADecimalPrefix(t *testing.T) {
	for want, bytes := range map[string]float64{
		"-": math.NaN(), "0": 0, "0.5": 0.5, "999": 999, "1k": 999.6, "1.5k": 1500, "12k": 12345, "250M": 2.5e8, "64G": 64e9, "1.2T": 1.2e12, "2000T": 2e15,
	} {
		assert.Equal(t, want, rate(bytes), "%v", bytes)
	}
}

func TestNumbersInNamesAreOrderedByValue(t *testing.T) {
	ordered := []string{"", "10", "nvidia", "nvidia0", "nvidia0/gi7", "nvidia0/gi13", "nvidia2", "nvidia10", "nvidib"}
	for i, a := range ordered {
		for j, b := range ordered {
			got := compareNatural(a, b)
			switch {
			case i < j:
				assert.Negative(t, got, "%q before %q", a, b)
			case i > j:
				assert.Positive(t, got, "%q after %q", a, b)
			default:
				assert.Zero(t, got, "%q", a)
			}
		}
	}
}

func TestColorsMarkPressureOnATerminal(t *testing.T) {
	w := newWindow("node-1", "nvidia0", time.Unix(60, 0))
	w.memoryPressure, w.xids, w.coverage, w.throttlePower = 1, 2, 0.5, 0
	var out bytes.Buffer
	require.NoError(t, (&table{out: &out, zone: time.UTC, width: defaultWidth, color: true}).print(request{windows: []*window{w}}))
	assert.Contains(t, out.String(), colorWarn+"100%"+colorReset)
	assert.Contains(t, out.String(), colorAlarm+"2"+colorReset)
	assert.Contains(t, out.String(), colorFaint+"50%"+colorReset)
	assert.NotContains(t, out.String(), colorWarn+"0%", "nothing is not a warning")
}

func TestTheHeaderComesBackBetweenWindowsOnly(t *testing.T) {
	var out bytes.Buffer
	table := &table{out: &out, zone: time.UTC, width: defaultWidth}
	windows := func(device string, end int64, n int) request {
		all := make([]*window, n)
		for i := range all {
			all[i] = newWindow("node-1", device, time.Unix(end, 0))
		}
		return request{windows: all}
	}
	for _, step := range []struct {
		why                  string
		request              request
		headers, blanksSoFar int
	}{
		{"the first window", windows("nvidia0", 60, headerEvery-1), 1, 0},
		{"more of the same window", windows("nvidia0", 60, headerEvery), 1, 0},
		{"the next window, a screenful later", windows("nvidia0", 120, 1), 2, 1},
		{"another window on the same screen", windows("nvidia0", 180, 1), 2, 2},
		{"the columns move", windows("nvidia10", 180, 1), 3, 2},
	} {
		require.NoError(t, table.print(step.request))
		assert.Equal(t, step.headers, strings.Count(out.String(), "holder\n"), step.why)
		assert.Equal(t, step.blanksSoFar, strings.Count(out.String(), "\n\n"), step.why)
	}
}

func TestANarrowLineLeavesOutTheLeastTellingColumns(t *testing.T) {
	for _, tt := range []struct {
		width   int
		dropped []string
		holder  string
	}{
		{200, nil, "training/power-capped-0-1/trainer +1"},
		{120, nil, "power-capped-0… +1"},
		{116, nil, "power-capp… +1"},
		{115, []string{"tx/s", "rx/s"}, "power-capped-0-1 +1"},
		{105, []string{"tx/s", "rx/s", "sm", "dram"}, "power-capped-0-1 +1"},
		{95, []string{"tx/s", "rx/s", "sm", "dram", "reason"}, "training/power-capped-0-1 +1"},
		{80, []string{"tx/s", "rx/s", "sm", "dram", "reason"}, "power-capped… +1"},
		{60, []string{"tx/s", "rx/s", "sm", "dram", "reason"}, "… +1"},
	} {
		t.Run(strconv.Itoa(tt.width), func(t *testing.T) {
			w := newWindow("node-1", "nvidia0", time.Unix(60, 0))
			w.holder = []string{"training/power-capped-0-1/trainer", "training/another/trainer"}
			var out bytes.Buffer
			require.NoError(t, (&table{out: &out, zone: time.UTC, width: tt.width}).print(request{windows: []*window{w}}))
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			header := strings.Fields(lines[len(lines)-2])
			for _, c := range columns {
				assert.Equal(t, !slices.Contains(tt.dropped, c.heading), slices.Contains(header, c.heading), c.heading)
			}
			assert.True(t, strings.HasSuffix(lines[len(lines)-1], "  "+tt.holder), lines[len(lines)-1])
		})
	}
}

// Whatever a window says, its lines end before the terminal does.
func TestNoLineIsLongerThanTheTerminal(t *testing.T) {
	word := rapid.StringMatching(`[a-z0-9-]{1,63}`)
	ratio := rapid.SampledFrom([]float64{math.NaN(), 0, 0.001, 0.5, 0.999, 1})
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow(word.Draw(t, "node"), rapid.StringMatching(`nvidia[0-9]{1,2}(/gi1[0-3])?`).Draw(t, "device"), time.Unix(60, 0))
		w.utilization, w.memoryPressure, w.coverage = ratio.Draw(t, "util"), ratio.Draw(t, "press"), ratio.Draw(t, "seen")
		w.reasonName, w.reasonRatio = rapid.SampledFrom([]string{"hw_power_brake", "sync_boost"}).Draw(t, "reason"), ratio.Draw(t, "reason ratio")
		w.pcieReceive, w.xids = rapid.Float64Range(0, 1e14).Draw(t, "rx"), float64(rapid.IntRange(0, 99999).Draw(t, "xid"))
		for range rapid.IntRange(0, 3).Draw(t, "holders") {
			w.holder = append(w.holder, word.Draw(t, "namespace")+"/"+word.Draw(t, "pod")+"/"+word.Draw(t, "container"))
		}
		width := rapid.IntRange(80, 200).Draw(t, "width")
		var out bytes.Buffer
		require.NoError(t, (&table{out: &out, zone: time.UTC, width: width}).print(request{windows: []*window{w}}))
		for line := range strings.Lines(out.String()) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width, line)
		}
	})
}

func TestColumnsSaysHowLongALineIs(t *testing.T) {
	for columns, want := range map[string]int{"": 120, "80": 80, "0": 120, "-1": 120, "wide": 120} {
		assert.Equal(t, want, lineWidth(columns), "%q", columns)
	}
}

func TestALineBeyondTheBoundIsAnError(t *testing.T) {
	in := strings.NewReader(strings.Repeat(" ", maxLine+1))
	err := run(in, &table{out: &bytes.Buffer{}, zone: time.UTC, width: defaultWidth}, &bytes.Buffer{})
	assert.EqualError(t, err, "line 1 is longer than 67108864 bytes")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAFailedWriteEndsTheRun(t *testing.T) {
	in, err := os.Open("testdata/one_line_per_device_and_window/input.jsonl")
	require.NoError(t, err)
	defer in.Close()
	assert.ErrorIs(t, run(in, &table{out: brokenPipe{}, zone: time.UTC, width: defaultWidth}, &bytes.Buffer{}), os.ErrClosed)
}
