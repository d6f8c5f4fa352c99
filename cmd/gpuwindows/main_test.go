package main

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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
			require.NoError(t, run(in, &table{out: &out, zone: time.UTC}, &errs))
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
	require.NoError(t, (&table{out: &out, zone: time.UTC, color: true}).print([]*window{w}))
	assert.Contains(t, out.String(), colorWarn+"100%"+colorReset)
	assert.Contains(t, out.String(), colorAlarm+"2"+colorReset)
	assert.Contains(t, out.String(), colorFaint+"50%"+colorReset)
	assert.NotContains(t, out.String(), colorWarn+"0%", "nothing is not a warning")
}

func TestTheHeaderComesBackBetweenRequestsOnly(t *testing.T) {
	var out bytes.Buffer
	table := &table{out: &out, zone: time.UTC}
	request := make([]*window, headerEvery-1)
	for i := range request {
		request[i] = newWindow("node-1", "nvidia0", time.Unix(60, 0))
	}
	headers := func() int { return strings.Count(out.String(), "holder\n") }
	for _, want := range []int{1, 1, 2, 2, 3} {
		require.NoError(t, table.print(request))
		assert.Equal(t, want, headers())
	}
	request[0] = newWindow("a-node-with-a-longer-name", "nvidia0", time.Unix(60, 0))
	require.NoError(t, table.print(request))
	assert.Equal(t, 4, headers(), "the columns moved")
}

func TestALineBeyondTheBoundIsAnError(t *testing.T) {
	in := strings.NewReader(strings.Repeat(" ", maxLine+1))
	err := run(in, &table{out: &bytes.Buffer{}, zone: time.UTC}, &bytes.Buffer{})
	assert.EqualError(t, err, "line 1 is longer than 67108864 bytes")
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAFailedWriteEndsTheRun(t *testing.T) {
	in, err := os.Open("testdata/one_line_per_device_and_window/input.jsonl")
	require.NoError(t, err)
	defer in.Close()
	assert.ErrorIs(t, run(in, &table{out: brokenPipe{}, zone: time.UTC}, &bytes.Buffer{}), os.ErrClosed)
}
