package window

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// states returns the stored states of all nodes.
func states(e *Engine) (all [][]byte) {
	for _, name := range e.Nodes() {
		all = append(all, e.Store(name))
	}
	return all
}

func TestRestoredStateIsStoredUnchanged(t *testing.T) {
	e := busy()
	now := origin.Add(90 * time.Second)
	again, err := Restore(testSettings(), now, origin, states(e)...)
	require.NoError(t, err)
	third, err := Restore(testSettings(), now, origin, states(again)...)
	require.NoError(t, err)
	assert.Equal(t, states(again), states(third))
	forever := origin.Add(time.Hour)
	assert.Equal(t, drain(e, forever), drain(again, forever))
}

// The parameters of functions, such as a threshold, are not stored, because they are settings.
func TestFunctionsHaveTheSameResultsWithAndWithoutARestart(t *testing.T) {
	values := []float64{0.95, 0.1, 0.92, 0.5}
	samples := func(e *Engine, from, to int) *Engine {
		for i := from; i < to; i++ {
			feed(e, time.Duration(i+1)*10*time.Second, values[i])
		}
		return e
	}
	uninterrupted := samples(New(testSettings(), origin), 0, len(values))
	stopped := samples(New(testSettings(), origin), 0, 2)
	stopped.Stop()
	restarted, err := Restore(testSettings(), origin.Add(25*time.Second), origin, states(stopped)...)
	require.NoError(t, err)
	samples(restarted, 2, len(values))
	upTo := origin.Add(time.Minute)
	assert.Equal(t, drain(uninterrupted, upTo), drain(restarted, upTo))
}

func TestWindowsSentAfterTheStateWasStoredAreNotSentAgain(t *testing.T) {
	e := busy()
	upTo := origin.Add(time.Minute)
	again, err := Restore(testSettings(), origin.Add(100*time.Second), upTo, states(e)...)
	require.NoError(t, err)
	feed(again, 100*time.Second, 10)
	for _, row := range drain(again, origin.Add(time.Hour)) {
		assert.NotContains(t, row, fmt.Sprintf(" %d {", upTo.UnixNano()), "the row belongs to a window that was already sent")
	}
}

// Nodes are stored one after another. If a window is sent in the meantime, the window must not be
// sent again after a restart, even for nodes that were stored before the window was sent. For nodes
// that were stored before the window was sent, increases in counters up to the end of the window
// must not be counted again.
func TestNodesThatWereStoredAtDifferentTimesContinueWithoutCountingTwice(t *testing.T) {
	set := testSettings()
	count := func(e *Engine, node string, at time.Duration, v float64) {
		in := e.Begin(origin.Add(at))
		defer in.End()
		setNode(in, node)
		in.SetScope(Scope{})
		in.SetMetric(Metric{Name: "faults", Kind: signal.Counter})
		in.Resolve(&Point{Device: "d", About: texts("id", "d"), Time: origin.Add(at).UnixNano(), Value: Double(v)})
	}
	sums := map[string]float64{}
	collect := func(e *Engine, upTo time.Duration) {
		for em := e.Fetch(origin.Add(upTo)); em != nil; em = e.Fetch(origin.Add(upTo)) {
			for _, r := range allRows(em) {
				if r.Metric.Name == "faults.count" {
					sums[string(r.Resource.Attrs)] += r.Value.Float()
				}
			}
			em.Close()
		}
	}
	e := New(set, origin)
	for i := range 6 {
		count(e, "early", time.Duration(i)*10*time.Second+5*time.Second, float64(i))
		count(e, "late", time.Duration(i)*10*time.Second+5*time.Second, float64(i))
	}
	early := e.Store("early")
	collect(e, time.Minute)
	require.Equal(t, map[string]float64{string(texts("node", "early")): 5, string(texts("node", "late")): 5}, sums)
	count(e, "early", 65*time.Second, 6)
	count(e, "late", 65*time.Second, 6)
	late := e.Store("late")

	e, err := Restore(set, origin.Add(70*time.Second), origin, early, late)
	require.NoError(t, err)
	for i := 7; i < 12; i++ {
		count(e, "early", time.Duration(i)*10*time.Second+5*time.Second, float64(i))
		count(e, "late", time.Duration(i)*10*time.Second+5*time.Second, float64(i))
	}
	collect(e, time.Hour)
	assert.Equal(t, map[string]float64{string(texts("node", "early")): 5 + 4, string(texts("node", "late")): 5 + 6}, sums, "the first sample after the gap is a baseline")
}

func TestInvalidStoredStateLeavesAUsableEngine(t *testing.T) {
	good := states(busy())[0]
	other := testSettings()
	other.Window = 2 * time.Minute
	var newer stored
	require.NoError(t, gob.NewDecoder(bytes.NewReader(good)).Decode(&newer))
	newer.Version++
	var encoded bytes.Buffer
	require.NoError(t, gob.NewEncoder(&encoded).Encode(&newer))
	var older bytes.Buffer
	require.NoError(t, gob.NewEncoder(&older).Encode(struct {
		Version int
		Places  []struct{ Key string }
	}{version - 1, []struct{ Key string }{{"k"}}}))
	for _, tt := range []struct {
		name string
		set  Settings
		data []byte
		want error
	}{
		{"empty", testSettings(), []byte{}, ErrForeign},
		{"not stored state", testSettings(), []byte("something else entirely, and long enough"), ErrForeign},
		{"truncated", testSettings(), good[:len(good)-1], ErrForeign},
		{"too long", testSettings(), append(append([]byte(nil), good...), 0), ErrForeign},
		{"newer version", testSettings(), encoded.Bytes(), ErrVersion},
		{"older version with a field of another type", testSettings(), older.Bytes(), ErrVersion},
		{"other settings", other, good, ErrSettings},
	} {
		t.Run(tt.name, func(t *testing.T) {
			upTo := origin.Add(time.Minute)
			e, err := Restore(tt.set, origin.Add(90*time.Second), upTo, tt.data)
			require.ErrorIs(t, err, tt.want)
			require.Zero(t, e.Stats().Series)
			feed(e, 60*time.Second, 1)
			assert.EqualValues(t, 6, e.Stats().Samples[Late], "closed windows remain closed")
		})
	}
}

func TestDescriptionsMayChangeDuringARestart(t *testing.T) {
	set := testSettings()
	set.Rules[0].Description = "another one"
	_, err := Restore(set, origin.Add(90*time.Second), origin, states(busy())...)
	require.NoError(t, err)
}

// Even though stored values have a checksum, Restore must return an error or a usable engine for
// any data.
func TestDamagedStateLeavesAUsableEngine(t *testing.T) {
	good := states(busy())[0]
	for i := 0; i < len(good); i += 7 {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x11
		restoreAndUse(t, bad)
		restoreAndUse(t, good[:i])
	}
}

// restoreAndUse restores state that may be damaged, and then uses the restored engine.
func restoreAndUse(t *testing.T, state []byte) {
	t.Helper()
	e, err := Restore(testSettings(), origin.Add(90*time.Second), origin, state)
	if err != nil {
		require.Zero(t, e.Stats().Series)
	}
	feed(e, 95*time.Second, 3)
	states(e)
	drain(e, origin.Add(time.Hour))
	for more := true; more; {
		_, more = e.Expire(origin.Add(24*time.Hour), nil, 10)
	}
}

// FuzzRestore restores damaged state. Restore must not panic, allocate much more memory than the
// size of the data, or return an engine that panics.
func FuzzRestore(f *testing.F) {
	for _, state := range states(busy()) {
		f.Add(state)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Restore(testSettings(), origin.Add(90*time.Second), origin, data)
		runtime.ReadMemStats(&after)
		// gob allocates up to 10 MiB for a list before it reads the list.
		if grown := after.TotalAlloc - before.TotalAlloc; err != nil && grown > 64<<20+512*uint64(len(data)) {
			t.Fatalf("%d bytes asked for %d", len(data), grown)
		}
		restoreAndUse(t, data)
	})
}

func TestSamplesMayArriveWhileStateIsStored(t *testing.T) {
	e := busy()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				feed(e, 90*time.Second+time.Duration(i)*time.Millisecond, float64(i))
			}
		}
	})
	for range 100 {
		_, err := Restore(testSettings(), origin.Add(2*time.Minute), origin, states(e)...)
		assert.NoError(t, err)
	}
	close(stop)
	wg.Wait()
}

// The clock may be set back between the writes of two nodes.
func TestASampleMoreThanAWindowInTheFutureIsDroppedAfterARestart(t *testing.T) {
	e := busy()
	for _, d := range e.order[0].order[0].devices {
		d.Newest = origin.Add(time.Hour).UnixNano()
		for _, s := range d.series {
			s.Last = origin.Add(time.Hour).UnixNano()
		}
	}
	e, err := Restore(testSettings(), origin.Add(95*time.Second), origin, states(e)...)
	require.NoError(t, err)
	feed(e, 100*time.Second, 1)
	assert.Zero(t, e.Stats().Samples[OutOfOrder])
}
