package gpuviewexporter

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/store"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The benchmarks use the amount of data that the exporter is designed for: two hours of 60-second
// windows for 5,000 devices with one holder each.
const (
	manyDevices = 5000
	manyWindows = 120
)

// The carry function starts an exporter, stores manyWindows windows for each of manyDevices
// devices, and returns how much memory these windows use, in MB.
func carry(b *testing.B) (e *viewExporter, base string, megabytes float64) {
	b.Helper()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	e, base = serve(b, nop(), nil)
	before := heap()
	at := now()
	for i := manyWindows - 1; i >= 0; i-- {
		consume(b, e, fleet(at.Add(-time.Duration(i)*time.Minute), time.Minute, manyDevices, false))
	}
	consume(b, e, verdicts(at, manyDevices))
	return e, base, float64(heap()-before) / 1e6
}

// The verdicts function returns one verdict per signal for each of n boards. On one out of eight
// boards, the signals that need profiling are missing.
func verdicts(at time.Time, n int) pmetric.Metrics {
	b := newBatch(at, time.Minute)
	for i := range n {
		b.onNode(fmt.Sprintf("gpu-node-%02d", i/8)).device(fmt.Sprintf("GPU-%08x-7d1c-4c5e-9f7a-2b8c1d3e5f60", i+1))
		for _, s := range store.Diagnosed() {
			if i%8 == 3 && s.Metric.Stage == signal.StageSample && len(s.Feeds) > 0 {
				b.addPoint(signal.GPUSignalAvailable, 0, s.Name(), diagnose.NoProfiling.String())
			} else {
				b.addPoint(signal.GPUSignalAvailable, 1, s.Name())
			}
		}
	}
	return b.md
}

// BenchmarkAllocation uses a socket to request the allocations for the last hour.
func BenchmarkAllocation(b *testing.B) {
	_, base, _ := carry(b)
	peer := client(b)
	for _, aggregate := range []string{"container", "namespace", "device"} {
		b.Run(aggregate, func(b *testing.B) {
			b.ReportAllocs()
			var size int64
			for b.Loop() {
				size = fetch(b, peer, base+"/allocation?window=1h&aggregate="+aggregate)
			}
			b.ReportMetric(float64(size)/1e6, "MB-answer")
		})
	}
	b.Run("page", func(b *testing.B) {
		b.ReportAllocs()
		var size int64
		for b.Loop() {
			size = fetch(b, peer, base+"/api/devices")
		}
		b.ReportMetric(float64(size)/1e6, "MB-answer")
	})
}

// BenchmarkPages sends windows of all devices to 20 pages. For each window, the benchmark reports
// how much CPU time the process uses, including the clients but excluding ConsumeMetrics. The
// benchmark also reports the size of a document, and the CPU time of 20 requests for an unchanged
// document.
//
// Each page requests the whole document once per window, which is faster than receiving only the
// changes. On two busy cores, sending a window of 5,000 devices takes 137 ms of CPU time, and each
// page receives 1.1 MB (4.9 MB before compression). For an unchanged document, 20 requests take 2.5
// ms. After a new window arrives, the longest task on a page takes 11 ms
// (TestPageOfFiveThousandDevicesHasNoLongTasks). An earlier version sent only the changes, as
// server-sent events: sending a window of 5,000 devices took 297 ms, each page received 3.9 MB, and
// the longest task on a page took 16 ms.
func BenchmarkPages(b *testing.B) {
	const pages = 20
	e, base, _ := carry(b)
	peer := client(b)
	at := now()
	get := func(tag string) (size int64, newTag string) {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, base+"/api/devices", http.NoBody)
		require.NoError(b, err)
		request.Header.Set("Accept-Encoding", "gzip") // send the header that browsers send, without decompressing the response
		request.Header.Set("If-None-Match", tag)
		answer, err := peer.Do(request)
		require.NoError(b, err)
		defer answer.Body.Close()
		size, err = io.Copy(io.Discard, answer.Body)
		require.NoError(b, err)
		return size, answer.Header.Get("Etag")
	}
	e.documents.age = documentAge
	// The measure function sends one request per page, and returns the total CPU time and the total
	// size of the responses.
	measure := func(tag string) (spent time.Duration, sizes int64) {
		before := cpuTime(b)
		var all sync.WaitGroup
		var sum atomic.Int64
		for range pages {
			all.Go(func() {
				size, _ := get(tag)
				sum.Add(size)
			})
		}
		all.Wait()
		return cpuTime(b) - before, sum.Load()
	}
	var changed, unchanged time.Duration
	var size int64
	n := 0
	for b.Loop() {
		at = at.Add(time.Second)
		consume(b, e, fleet(at, time.Minute, manyDevices, false))
		e.documents.built = time.Time{}
		spent, sizes := measure("")
		changed, size = changed+spent, sizes/pages
		_, tag := get("")
		spent, _ = measure(tag)
		unchanged += spent
		n++
	}
	b.ReportMetric(float64(len(e.documents.current.text))/1e6, "MB-document")
	b.ReportMetric(float64(size)/1e6, "MB-sent-per-page")
	b.ReportMetric(changed.Seconds()*1000/float64(n), "ms-cpu-per-window")
	b.ReportMetric(unchanged.Seconds()*1000/float64(n), "ms-cpu-unchanged")
}

// cpuTime returns the CPU time that the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func fetch(b *testing.B, client *http.Client, url string) int64 {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(b, err)
	answer, err := client.Do(request)
	require.NoError(b, err)
	defer answer.Body.Close()
	size, err := io.Copy(io.Discard, answer.Body)
	require.NoError(b, err)
	return size
}

// BenchmarkConsume consumes one window of all devices. The benchmark also reports how much memory
// two hours of windows use.
func BenchmarkConsume(b *testing.B) {
	e, _, megabytes := carry(b)
	at := now()
	md := fleet(at, time.Minute, manyDevices, false)
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		require.NoError(b, e.consume(b.Context(), md))
	}
	b.ReportMetric(megabytes, "MB-kept")
}

// BenchmarkFirstPaint opens a page that shows all devices, each time in a new browser. The
// benchmark reports the time from the start of the navigation to the first paint, and to the first
// rows.
func BenchmarkFirstPaint(b *testing.B) {
	_, base, _ := carry(b)
	var paint, rows float64
	n := 0
	for b.Loop() {
		p := open(b, startBrowser(b), base)
		p.until(`performance.getEntriesByName("rows").length && performance.getEntriesByName("first-contentful-paint").length`)
		paint += eval[float64](p, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)
		rows += eval[float64](p, `performance.getEntriesByName("rows")[0].startTime`)
		n++
	}
	b.ReportMetric(paint/float64(n), "ms-first-paint")
	b.ReportMetric(rows/float64(n), "ms-rows-shown")
}

// BenchmarkUpdate sends windows of all devices to an open page. The benchmark reports the CPU time
// and the wall clock time of the longest task that a window caused on the page.
func BenchmarkUpdate(b *testing.B) {
	e, base, _ := carry(b)
	p := open(b, startBrowser(b), base)
	p.until(`performance.getEntriesByName("rows").length`)
	at := now()
	var longest task
	for b.Loop() {
		at = at.Add(time.Second)
		task, _ := p.longest(func() {
			before := eval[string](p, `document.getElementById("window").textContent`)
			consume(b, e, fleet(at, time.Minute, manyDevices, false))
			p.until(fmt.Sprintf(`document.getElementById("window").textContent !== %q`, before))
		})
		if task.CPU > longest.CPU {
			longest = task
		}
	}
	b.ReportMetric(longest.CPU/1000, "ms-longest-task")
	b.ReportMetric(longest.Duration/1000, "ms-by-the-clock")
}
