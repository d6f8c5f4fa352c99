package window

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// Several nodes send samples at the same time but at different speeds. Meanwhile, windows are read,
// series end, and state is stored. Each sample must either be in exactly one window or be counted
// as dropped.
func TestNoSampleIsLostWhileNodesSendAtTheSameTime(t *testing.T) {
	set := testSettings()
	set.KeepLast, set.IdleTimeout, set.Window = false, 2*time.Minute, 5*time.Minute
	set.MaxGap = 24 * time.Hour // a slow node must not look like a clock step
	e := New(set, origin)
	const nodes, samples = 4, 2000
	var clock atomic.Int64 // the latest time of any node
	now := func() time.Time { return origin.Add(time.Duration(clock.Load())) }
	var senders sync.WaitGroup
	for i := range nodes {
		senders.Go(func() {
			for n := range samples {
				at := time.Duration(n+1) * time.Second
				for ahead := clock.Load(); int64(at) > ahead && !clock.CompareAndSwap(ahead, int64(at)); ahead = clock.Load() {
				}
				in := e.Begin(now())
				// Half of the batches contain samples from two nodes.
				for _, node := range []int{i, (i + n%2) % nodes} {
					setNode(in, fmt.Sprint("n", node))
					in.SetScope(Scope{Name: "scope"})
					in.SetMetric(Metric{Name: "busy", Kind: signal.Gauge})
					id := fmt.Sprint("d", i, node)
					in.Resolve(&Point{Device: id, About: texts("id", id), Time: origin.Add(at).UnixNano(), Value: Double(0.5)})
				}
				in.End()
			}
		})
	}
	sent := make(chan struct{})
	go func() {
		senders.Wait()
		close(sent)
	}()
	var inWindows float64
	read := func(upTo time.Time) {
		for em := e.Fetch(upTo); em != nil; em = e.Fetch(upTo) {
			var rows []Row
			for more := true; more; {
				rows, more = em.Next(rows, len(rows)+1)
			}
			for _, r := range rows {
				if r.Metric.Name == "samples" {
					inWindows += r.Value.Float()
				}
			}
			em.Close()
		}
	}
	for reading := true; reading; {
		select {
		case <-sent:
			reading = false
		default:
		}
		upTo, _ := e.ClosedUpTo(now())
		read(upTo)
		for more := true; more; {
			_, more = e.Expire(now(), nil, 1)
		}
		for _, name := range e.Nodes() {
			e.Store(name)
		}
	}
	read(origin.Add(24 * time.Hour))
	stats := e.Stats()
	var counted uint64
	for _, n := range stats.Samples {
		counted += n
	}
	assert.EqualValues(t, nodes*samples*2, counted)
	require.Zero(t, stats.ClockSteps)
	require.Zero(t, stats.WindowsDropped)
	assert.InDelta(t, stats.Samples[Accepted]+stats.Samples[OutOfOrder], inWindows, 0)
}

// The rows of a window are read only after the batch has unlocked the node. Until the node is
// unlocked, further samples of the batch must be added to the same window. The window must not be
// opened again.
func TestAWindowThatIsFetchedDuringABatchIsNotOpenedAgain(t *testing.T) {
	e := New(testSettings(), origin)
	add := func(in *Ingest, metric string, at time.Duration) Outcome {
		in.SetMetric(Metric{Name: metric})
		_, o := in.Resolve(busySample(at, 1))
		return o
	}
	first := e.Begin(origin.Add(10 * time.Second))
	setNode(first, "n1")
	first.SetScope(Scope{})
	require.Equal(t, Accepted, add(first, "busy", 10*time.Second))
	second := e.Begin(origin.Add(10 * time.Second))
	setNode(second, "n2")
	second.SetScope(Scope{})
	em := e.Fetch(origin.Add(time.Minute))
	require.NotNil(t, em)
	assert.Equal(t, Accepted, add(first, "busy", 11*time.Second), "the batch has already used the window")
	assert.Equal(t, Late, add(second, "busy", 10*time.Second))
	first.End()
	second.End()
	assert.Contains(t, fmt.Sprint(valuesOf(allRows(em))), "samples:2")
	em.Close()
	assert.Nil(t, e.Fetch(origin.Add(time.Hour)))
}
