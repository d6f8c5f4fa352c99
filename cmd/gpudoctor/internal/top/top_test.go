package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the output of golden tests to their output files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The pages function reads testdata/<sentence>/answers.jsonl, which contains one response from the
// page's API per line.
func pages(t *testing.T, sentence string) []*page {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", sentence, "answers.jsonl"))
	require.NoError(t, err)
	var all []*page
	for line := range bytes.Lines(content) {
		p, err := read(bytes.NewReader(line))
		require.NoError(t, err)
		all = append(all, p)
	}
	return all
}

// readAt returns the time at which the response was read, which is 8 s after the newest window.
func readAt(p *page) time.Time { return instant(p.Newest).Add(8 * time.Second) }

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, file)
}

// TestLines writes all responses one after another, in the format that is used without a terminal.
func TestLines(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*/answers.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, input := range inputs {
		sentence := filepath.Base(filepath.Dir(input))
		t.Run(sentence, func(t *testing.T) {
			var out bytes.Buffer
			table := &lines{out: &out, zone: time.UTC, width: 120}
			for _, p := range pages(t, sentence) {
				require.NoError(t, table.write(p, readAt(p)))
			}
			golden(t, filepath.Join("testdata", sentence, "lines.txt"), out.String())
		})
	}
}

func TestNarrowLineOmitsTheLeastImportantColumns(t *testing.T) {
	p := pages(t, "one_line_per_device_and_window")[0]
	before := math.MaxInt
	for _, width := range []int{200, 140, 120, 110, 100, 90, 80} {
		var out bytes.Buffer
		require.NoError(t, (&lines{out: &out, zone: time.UTC, width: width}).write(p, readAt(p)))
		_, rest, _ := strings.Cut(out.String(), "until")
		header, _, _ := strings.Cut(rest, "\n")
		shown := len(strings.Fields(header))
		assert.LessOrEqual(t, shown, before, width)
		assert.Contains(t, header, " util ", width)
		assert.Contains(t, header, " xid ", width)
		for line := range strings.Lines(out.String()) {
			assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), width)
		}
		before = shown
	}
}

func TestMissingNumberIsADash(t *testing.T) {
	for i := range columns {
		assert.Equal(t, "-", columns[i].text(&device{}), columns[i].heading)
	}
}

func TestReasonIsShortenedSoThatTheShareFits(t *testing.T) {
	for by, want := range map[string]string{"power": "power ~60%", "sw_power_cap": "sw power c… ~60%", "hw_power_brake": "hw power b… ~60%", "": "~60%"} {
		d := &device{}
		require.NoError(t, json.Unmarshal([]byte(`{"throttle": {"ratio": 0.6, "by": "`+by+`", "sampled": true}}`), d))
		assert.Equal(t, want, throttleText(d, "60%"))
	}
}

func TestHolderIsShortenedByItsLeastSpecificPart(t *testing.T) {
	for room, want := range map[int]string{
		40: "training/worker-0/trainer +1", 28: "training/worker-0/trainer +1", 20: "training/worker-0 +1", 12: "worker-0 +1", 9: "worke… +1", 2: " +1",
	} {
		assert.Equal(t, want, holdersText([]string{"training/worker-0/trainer", "a/b/c"}, room), room)
	}
	assert.Equal(t, "-", holdersText(nil, 20))
}

func TestPodThatReservesADeviceFollowsItsHolders(t *testing.T) {
	p, err := read(strings.NewReader(`{"devices": [{"n": 1, "id": "a", "holders": [{"namespace": "n", "pod": "running", "container": "c"}],
		"reserved": [{"namespace": "n", "pod": "starting"}]}]}`))
	require.NoError(t, err)
	assert.Equal(t, []string{"n/running/c", "n/starting (reserved)"}, p.Devices[0].holders(false))
	assert.Contains(t, p.Devices[0].searchText(), "starting")
}

// For any response, the read function must return without a panic.
func FuzzRead(f *testing.F) {
	for _, sentence := range []string{"one_line_per_device_and_window", "devices_of_an_unreachable_exporter_are_lost"} {
		content, err := os.ReadFile(filepath.Join("testdata", sentence, "answers.jsonl"))
		require.NoError(f, err)
		line, _, _ := bytes.Cut(content, []byte("\n"))
		f.Add(line)
	}
	f.Add([]byte(`{"devices":[null]}`))
	f.Add([]byte(`{"devices":[{"n":1,"id":"a","parent":"a"},{"n":2,"id":"b","parent":"a","v":[1,null]}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		p, err := read(bytes.NewReader(answer))
		if err != nil {
			return
		}
		require.NoError(t, (&lines{out: io.Discard, zone: time.UTC, width: 100}).write(p, readAt(p)))
		for _, d := range p.Devices {
			for i := range columns {
				assert.Equal(t, math.IsNaN(columns[i].value(d)), columns[i].text(d) == "-", columns[i].heading)
			}
		}
	})
}

// source returns a Source whose Fetch returns the steps one after another, and then repeats the
// last step.
func source(steps ...any) *Source {
	i := -1
	return &Source{Name: "http://page", Interval: time.Second, Timeout: time.Second, Fetch: func(context.Context, string) (io.ReadCloser, string, error) {
		i = min(i+1, len(steps)-1)
		if err, ok := steps[i].(error); ok {
			return nil, "", err
		}
		return io.NopCloser(strings.NewReader(steps[i].(string))), "", nil
	}}
}

func TestFailureIsReportedOnceUntilARequestSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var out, errs bytes.Buffer
		require.NoError(t, Lines(ctx, source("{}", refused, refused, "{}", refused, "no JSON", "{}"), time.UTC, 80, &out, &errs))
		assert.Equal(t, "http://page: connection refused\nhttp://page: connection refused\n", errs.String())
		assert.Empty(t, out.String())
	})
}

func TestUnchangedDocumentKeepsTheTable(t *testing.T) {
	content, err := os.ReadFile("testdata/one_line_per_device_and_window/answers.jsonl")
	require.NoError(t, err)
	first, _, _ := bytes.Cut(content, []byte("\n"))
	s := &Source{Timeout: time.Second, Fetch: func(_ context.Context, tag string) (io.ReadCloser, string, error) {
		if tag == "first" {
			return nil, tag, nil
		}
		return io.NopCloser(bytes.NewReader(first)), "first", nil
	}}
	sent, unchanged := s.fetch(t.Context()), s.fetch(t.Context())
	require.NoError(t, sent.err)
	assert.NotEmpty(t, sent.page.Devices)
	assert.Same(t, sent.page, unchanged.page)
	assert.NoError(t, unchanged.err)
}

func TestFailureOfTheFirstRequestIsAnError(t *testing.T) {
	require.EqualError(t, Lines(t.Context(), source(errors.New("connection refused")), time.UTC, 80, io.Discard, io.Discard), "connection refused")
	err := Lines(t.Context(), source("<html>"), time.UTC, 80, io.Discard, io.Discard)
	require.ErrorContains(t, err, "the response is not from gpu_view's /api/devices")
}

func TestFailedWriteEndsLines(t *testing.T) {
	content, err := os.ReadFile("testdata/one_line_per_device_and_window/answers.jsonl")
	require.NoError(t, err)
	assert.ErrorIs(t, Lines(t.Context(), source(string(content)), time.UTC, 80, brokenPipe{}, io.Discard), os.ErrClosed)
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }
