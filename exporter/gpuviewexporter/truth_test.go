package gpuviewexporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/otelcol-gpu/otelcol-gpu/exporter/gpuviewexporter/internal/live"
	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/diagnose"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// consumeAt adds a batch to the store as if the batch had arrived at the given time.
func consumeAt(t testing.TB, e *viewExporter, at time.Time, md pmetric.Metrics) {
	t.Helper()
	md.MarkReadOnly()
	in := e.store.Begin(at)
	addBatch(in, md)
	in.End()
}

// The counted method converts the last metric in the batch into a cumulative sum with the given
// start time.
func (b *batch) counted(start time.Time) *batch {
	metrics := b.rm.ScopeMetrics().At(0).Metrics()
	m := metrics.At(metrics.Len() - 1)
	dp := pmetric.NewNumberDataPoint()
	m.Gauge().DataPoints().At(0).CopyTo(dp)
	dp.SetStartTimestamp(pcommon.NewTimestampFromTime(start))
	sum := m.SetEmptySum()
	sum.SetIsMonotonic(true)
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	dp.CopyTo(sum.DataPoints().AppendEmpty())
	return b
}

const rowCount = `document.querySelectorAll("tr.row:not([hidden])").length`

func tile(id string) string {
	return fmt.Sprintf(`document.querySelector("#tile-%s b").textContent`, id)
}

func text(p *page, id string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("document.getElementById(%q).innerText", id))
}

// pageTime formats a time in the same way as the page.
func pageTime(p *page, at time.Time) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf("new Date(%d).toLocaleTimeString([], {hour12: false})", at.UnixMilli()))
}

// The colors constant is a script that returns the number of different colors of cells and curves
// on the page.
const colors = `(() => {
	const out = new Set();
	for (const td of document.querySelectorAll("tr.row:not([hidden]) td")) {
		if (td.cellIndex > 0) out.add(getComputedStyle(td).backgroundColor);
		const path = td.querySelector("path");
		if (path) out.add(getComputedStyle(path).stroke);
	}
	return out.size;
})()`

func (s *pageSuite) TestLostDevicesHaveNoColorAndNoNumbersAfterAReload() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now().Add(-4 * time.Minute)
	consumeAt(t, e, at.Add(-55*time.Second), fleet(at.Add(-time.Minute), time.Minute, 8, true))
	consumeAt(t, e, at.Add(5*time.Second), fleet(at, time.Minute, 8, true))
	p := s.open(base)
	p.until(rowCount + " > 0")
	assert.Equal(t, "Connected, no new data", text(p, "connection"))
	assert.Contains(t, text(p, "window"), "4 min ago")
	assert.Contains(t, text(p, "banner"), "No data since")
	assert.Contains(t, text(p, "banner"), "gpu.exporter.up is not received")
	up := func(at time.Time, url string) {
		b := newBatch(at, time.Minute).onNode("gpu-node-00").device("")
		b.point = nil
		consumeAt(t, e, at, b.addPoint(signal.GPUExporterUp, 1, url).md)
	}
	up(at, "http://10.0.0.1:9400/metrics")
	p.until(`document.getElementById("banner").innerText.includes("No data about the exporters since")`)
	assert.Contains(t, text(p, "banner"), pageTime(p, at)+": check the collectors that scrape them.")
	up(now(), "http://10.0.0.2:9400/metrics")
	p.until(`document.getElementById("banner").innerText.includes("The others answer: check the pipeline")`)
	assert.Contains(t, text(p, "banner"), "No data about 1 of 2 exporters. http://10.0.0.1:9400/metrics on gpu-node-00 since "+pageTime(p, at)+": check the collectors")
	for id, want := range map[string]string{"throttled": "–", "pressure": "–", "xid": "–", "lost": "8"} {
		assert.Equal(t, want, eval[string](p, tile(id)), id)
	}
	assert.Equal(t, 2, eval[int](p, colors), "one color of cells without a value, one of curves")
	assert.Zero(t, eval[int](p, `document.querySelectorAll("tr.row:not([hidden]) :is(.u1, .u2, .u3, .u4, .s1, .s2, .s3, .s4, .error)").length`))
	p.input("sort", "node")
	assert.Contains(t, eval[string](p, cell(0, "device")+".innerText"), "until "+pageTime(p, at))
	assert.Contains(t, eval[string](p, cell(0, "utilization")+".title"), "Nothing since")
	assert.Contains(t, eval[string](p, cell(0, "holders")+".innerText"), "not observed")
	assert.True(t, strings.HasSuffix(eval[string](p, cell(0, "utilization")+`.querySelector("path").getAttribute("d")`), "h.01") ||
		!strings.Contains(eval[string](p, cell(0, "utilization")+`.querySelector("path").getAttribute("d")`), "59 "), "the curve does not reach now")
	assert.Empty(t, eval[[]string](p, contrast))
	p.click("tr.row td")
	p.until(`document.getElementById("details").open`)
	assert.Contains(t, text(p, "details"), "the last one")
	p.until(`document.querySelectorAll("#details .history path").length > 5`)
	assert.Len(t, eval[[]string](p, `[...new Set([...document.querySelectorAll("#details .history path")].map((e) => getComputedStyle(e).stroke))]`), 1, "curves of saturation too")
	assert.NotContains(t, eval[string](p, `[...document.querySelectorAll("#details-body > :not(.timeline)")].map((e) => e.innerText).join(" ")`), "worker-0")
	assert.Contains(t, text(p, "demand"), "as of ", "the scheduler's view is old as well")
}

func (s *pageSuite) TestDeviceIsLostIfNoWindowArrives() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	// If windows are one second long, a device is lost 12 s after the end of its last window.
	at := now().Add(-7 * time.Second)
	consumeAt(t, e, at, fleet(at, time.Second, 8, false))
	p := s.open(base)
	p.until(`document.getElementById("connection").textContent === "Live"`)
	assert.Equal(t, "0", eval[string](p, tile("lost")))
	p.wait(tile("lost") + ` === "8"`)
	assert.Equal(t, "Connected, no new data", text(p, "connection"))
	assert.Equal(t, 2, eval[int](p, colors))
	consume(t, e, fleet(now(), time.Second, 8, false))
	p.until(`document.getElementById("connection").textContent === "Live"`)
	assert.Equal(t, "0", eval[string](p, tile("lost")))
	assert.False(t, eval[bool](p, `document.getElementById("banner").checkVisibility()`))
}

// A page requests the document when the next window is expected, and also earlier, to detect other
// changes. If nothing has changed, the response has no body.
func (s *pageSuite) TestPageLoadsAnUnchangedDocumentOnce() {
	t := s.T()
	e, p := s.openFleet(16, false)
	sent := e.documents.sent.Load()
	const rows = visibleRows + `.map(r => r.innerText).join("\n")`
	before := eval[string](p, rows)
	unchanged := e.documents.unchanged.Load()
	// Wait for two more requests to finish. The first request may already have been in progress, so
	// only the second request is certain to have started after this point.
	p.until(`(window.polls ??= performance.getEntriesByType("resource").length, performance.getEntriesByType("resource").length > polls + 1)`)
	assert.Greater(t, e.documents.unchanged.Load(), unchanged)
	assert.Equal(t, sent, e.documents.sent.Load())
	assert.Equal(t, "Live", text(p, "connection"))
	assert.Equal(t, before, eval[string](p, rows))
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, p.errors, "a response without a body is no error")
}

// A reverse proxy may serve the page at a different path and under a different host name, and may
// remove the prefix W/ from ETags.
func (s *pageSuite) TestPageWorksBehindAReverseProxy() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	consume(t, e, fleet(now(), time.Minute, 8, true))
	target, err := url.Parse(base)
	require.NoError(t, err)
	proxy := httptest.NewServer(http.StripPrefix("/gpu", &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, // SetURL also sets the Host header
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Etag", strings.TrimPrefix(r.Header.Get("Etag"), "W/"))
			return nil
		},
	}))
	t.Cleanup(proxy.Close)
	p := s.open(proxy.URL + "/gpu/")
	p.until(`document.getElementById("connection").textContent === "Live"`)
	p.until(`performance.getEntriesByType("resource").filter((r) => r.name.endsWith("/gpu/api/devices")).length > 1`)
	assert.Positive(t, e.documents.unchanged.Load(), "the second response has no body")
	p.click("tr.row td")
	p.until(`document.querySelector("#details .timeline")`)
}

// The page uses the server's clock. The browser's clock does not matter.
func (s *pageSuite) TestPageDoesNotUseTheClockOfTheBrowser() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	consume(t, e, fleet(now(), time.Minute, 8, false))
	p := s.open("about:blank")
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := devtools.AddScriptToEvaluateOnNewDocument(`Date.now = () => 0`).Do(ctx)
		return err
	}), chromedp.Navigate(base))
	p.until(`document.getElementById("connection").textContent === "Live"`)
	assert.Equal(t, "0", eval[string](p, tile("lost")))
}

func (s *pageSuite) TestHiddenPageAsksAgainWhenItIsVisible() {
	t := s.T()
	e, p := s.openFleet(8, false)
	const hide = `Object.defineProperty(document, "hidden", {configurable: true, get: () => %t}); document.dispatchEvent(new Event("visibilitychange"))`
	p.run(chromedp.Evaluate(`window.asks = 0; { const ask = window.fetch; window.fetch = (...what) => { asks++; return ask(...what); }; }`, nil))
	p.run(chromedp.Evaluate(fmt.Sprintf(hide, true), nil))
	before := eval[int](p, "asks")
	p.run(chromedp.Evaluate(`dispatchEvent(new Event("online"))`, nil))
	assert.Equal(t, before, eval[int](p, "asks"), "nobody looks at it")
	at := now().Add(time.Minute)
	consume(t, e, fleet(at, time.Minute, 8, false))
	p.run(chromedp.Evaluate(fmt.Sprintf(hide, false), nil))
	p.wait(fmt.Sprintf(`document.getElementById("window").textContent.includes(%q)`, pageTime(p, at)))
}

// After a restart, the server assigns new numbers to its devices.
func (s *pageSuite) TestAnOpenDeviceStaysOpenAcrossARestartOfTheServer() {
	t := s.T()
	e, p := s.openFleet(8, false)
	p.input("sort", "node")
	p.click(`[aria-rowindex="4"] td`)
	p.until(`document.querySelector("#details .timeline")`)
	title := text(p, "details-title")
	require.NoError(t, e.shutdown(t.Context()))
	p.until(`document.getElementById("connection").textContent.startsWith("Connection lost")`)
	assert.Equal(t, "8", eval[string](p, tile("all")), "the last numbers stay until they expire")
	again, _ := serve(t, nop(), func(c *Config) { c.HTTP.NetAddr.Endpoint = e.address.String() })
	consume(t, again, newBatch(now(), time.Minute).onNode("another-node").device("GPU-new").load(0.5, 0.5, 0).md)
	consume(t, again, fleet(now(), time.Minute, 8, false))
	p.until(tile("all") + ` === "9" && document.getElementById("connection").textContent === "Live"`)
	assert.Equal(t, title, text(p, "details-title"))
	assert.True(t, eval[bool](p, `document.getElementById("details").open`))
}

func (s *pageSuite) TestBannerListsDownExportersAndSinceWhen() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	exporterURL := func(i int) string { return fmt.Sprintf("http://10.0.0.%d:9400/metrics", i) }
	up := func(at time.Time, i int, value float64) {
		b := newBatch(at, time.Minute).onNode(fmt.Sprintf("gpu-node-%02d", i)).device("")
		b.point = nil
		consume(t, e, b.addPoint(signal.GPUExporterUp, value, exporterURL(i)).md)
	}
	at := now()
	consume(t, e, fleet(at, time.Minute, 16, false))
	up(at, 0, 1)
	up(at, 1, 1)
	p := s.open(base)
	p.until(`document.getElementById("connection").textContent === "Live"`)
	assert.False(t, eval[bool](p, `document.getElementById("banner").checkVisibility()`))
	up(at.Add(time.Second), 1, 0)
	p.until(`document.getElementById("banner").checkVisibility()`)
	assert.Equal(t, "1 of 2 exporters give no samples. "+exporterURL(1)+" on gpu-node-01 since "+pageTime(p, at.Add(time.Second))+".", text(p, "banner"))
	componenthelper.SetScrapeError(exporterURL(1), errors.New("connection refused"))
	t.Cleanup(func() { componenthelper.SetScrapeError(exporterURL(1), nil) })
	p.until(`document.getElementById("banner").innerText.endsWith("(connection refused).")`)
	up(at.Add(time.Second), 0, 0)
	p.until(`document.getElementById("banner").innerText.startsWith("No exporter gives samples.")`)
	assert.Equal(t, "Connected, no exporter gives samples", text(p, "connection"))
	assert.Equal(t, "status", eval[string](p, `document.getElementById("banner").role`), "it is announced to screen readers")
	assert.Empty(t, eval[[]string](p, contrast))
	up(at.Add(2*time.Second), 0, 1)
	up(at.Add(2*time.Second), 1, 1)
	p.until(`!document.getElementById("banner").checkVisibility()`)
}

// If a collector dies, its last scrape result becomes stale and later expires.
func (s *pageSuite) TestExporterOfADeadCollectorIsNotShownAsDown() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	up := func(at time.Time, i int, value float64) {
		b := newBatch(at, time.Minute).onNode(fmt.Sprintf("gpu-node-%02d", i)).device("")
		b.point = nil
		consumeAt(t, e, at, b.addPoint(signal.GPUExporterUp, value, fmt.Sprintf("http://10.0.0.%d:9400/metrics", i)).md)
	}
	at := now()
	consume(t, e, fleet(at, time.Minute, 16, false))
	// There are two collectors, and each of them scrapes its own exporter once per second. One of
	// the collectors dies while its exporter is down.
	died := at.Add(-20 * time.Second)
	up(died.Add(-time.Second), 1, 0)
	up(died, 1, 0)
	for i := range 22 {
		up(at.Add(time.Duration(i-21)*time.Second), 0, 1)
	}
	p := s.open(base)
	p.until(`document.getElementById("connection").textContent === "Live"`)
	assert.Equal(t, "No data about 1 of 2 exporters. http://10.0.0.1:9400/metrics on gpu-node-01 since "+pageTime(p, died)+
		": check the collectors that scrape them.", text(p, "banner"))
	assert.Equal(t, "0", eval[string](p, tile("lost")), "devices age by their own windows")
	up(now(), 1, 0)
	p.until(`document.getElementById("banner").innerText.startsWith("1 of 2 exporters give no samples.")`)
	up(now().Add(time.Second), 1, 1)
	p.until(`!document.getElementById("banner").checkVisibility()`)
}

func (s *pageSuite) TestDevicesAreLostWithTheirExporterBeforeTheirWindowIsMissed() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now().Add(-65 * time.Second)
	consumeAt(t, e, at, fleet(at, time.Minute, 16, false))
	for i, value := range []float64{1, 0} {
		b := newBatch(at.Add(-10*time.Second), time.Minute).onNode(fmt.Sprintf("gpu-node-%02d", i)).device("")
		b.point = nil
		consumeAt(t, e, at, b.addPoint(signal.GPUExporterUp, value, fmt.Sprintf("http://10.0.0.%d:9400/metrics", i)).md)
	}
	p := s.open(base)
	p.until(rowCount + " > 0")
	p.until(tile("lost") + ` === "8"`)
	assert.Equal(t, "Live", text(p, "connection"))
	p.input("search", "gpu-node-01")
	assert.Equal(t, "http://10.0.0.1:9400/metrics has exposed no samples since "+pageTime(p, at.Add(-10*time.Second))+".", eval[string](p, cell(0, "sm")+".title"))
	assert.Contains(t, eval[string](p, cell(0, "device")+".innerText"), "until "+pageTime(p, at), "a part of it was observed")
	p.input("search", "gpu-node-00")
	assert.NotContains(t, eval[string](p, cell(0, "device")+".innerText"), "until")
}

func (s *pageSuite) TestDeviceWithOnlyGaugesIsLostToo() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now().Add(-6 * time.Minute)
	consumeAt(t, e, at, newBatch(at, time.Minute).onNode("node-1").device("GPU-a").addPoint(signal.HwPower, 300).md)
	p := s.open(base)
	p.until(rowCount + " > 0")
	assert.Equal(t, "1", eval[string](p, tile("lost")))
	assert.NotContains(t, eval[string](p, cell(0, "power")+".innerText"), "300")
}

// hundredfold is a script that makes the page's clock run a hundred times faster.
const hundredfold = `{ const passed = performance.now.bind(performance), from = passed(); performance.now = () => from + 100 * (passed() - from); }`

func (s *pageSuite) TestConnectionThatDoesNotAnswerIsLost() {
	_, p := s.openFleet(1, false)
	p.until(`document.getElementById("connection").textContent === "Live"`)
	p.run(chromedp.Evaluate(`{
		const timeout = AbortSignal.timeout.bind(AbortSignal);
		AbortSignal.timeout = (ms) => timeout(ms / 100);
		window.fetch = (_, {signal}) => new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
	}`, nil))
	p.until(`document.getElementById("connection").textContent.startsWith("Connection lost")`)
}

func (s *pageSuite) TestThrottlingIsExactOrMarkedAsSampled() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute).onNode("node-1")
	b.device("GPU-exact", signal.HardwareName, "nvidia0").addPoint(signal.ThrottleViolationRatio, 0.69, "power").addPoint(signal.ThrottleReasonRatio, 1, "sw_power_cap")
	b.device("GPU-sampled", signal.HardwareName, "nvidia1").addPoint(signal.ThrottleReasonRatio, 1, "sw_thermal")
	consume(t, e, b.md)
	p := s.open(base)
	p.until(rowCount + " > 0")
	p.input("sort", "node")
	words := func(row int) string {
		return strings.Join(strings.Fields(eval[string](p, cell(row, "throttle")+".innerText")), " ")
	}
	assert.Equal(t, "69% power", words(0))
	assert.Equal(t, "~100% by samples sw thermal", words(1))
	assert.Contains(t, eval[string](p, cell(1, "throttle")+".title"), "no exact counter")
}

func (s *pageSuite) TestDetailsOmitRowsThatCannotExist() {
	t := s.T()
	_, p := s.openFleet(8, true)
	p.input("sort", "node")
	names := func(row int) []string {
		p.click(fmt.Sprintf(`[aria-rowindex="%d"] td`, row+2))
		p.until(`document.getElementById("details").open`)
		out := eval[[]string](p, `[...document.querySelectorAll("#details-body > table:not(.holders, .codes) th")].map((th) => th.innerText).concat(
			[...document.querySelectorAll("#details-body > p")].filter((e) => e.innerText.startsWith("Always 0: ")).flatMap((e) => e.innerText.slice(10, -1).split("; ")))`)
		p.click("#details .bar button")
		return out
	}
	exact := map[string]bool{}
	for _, s := range diagnose.Signals() {
		if s.Metric == signal.GPUClockEventTime {
			exact[s.Part] = true
		}
	}
	words := map[string]string{
		"sw_power_cap": "software power cap", "hw_slowdown": "hardware slowdown", "sync_boost": "sync boost",
		"sw_thermal": "software thermal", "hw_thermal": "hardware thermal", "hw_power_brake": "power brake",
	}
	board := names(0)
	for reason, word := range words {
		assert.Equal(t, exact[reason], slices.Contains(board, word+", exact time"), reason)
		assert.Contains(t, board, word+", share of samples")
	}
	assert.Contains(t, board, "NVLink sent")
	assert.NotContains(t, names(3), "NVLink sent", "a model without NVLink")
	assert.Contains(t, names(3), "PCIe sent", "a signal that could be enabled")
	assert.NotContains(t, names(6), "power, violation time", "for metrics of the board, an instance refers to the board's row")
	assert.NotContains(t, names(5), "Utilization, mean", "for metrics of instances, a board refers to the instances' rows")
}

func (s *pageSuite) TestTilesCountBoardsAboveAThresholdAndNameInstances() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute).onNode("node-1")
	for i, ratio := range []float64{0, 0.05, 0.1, 0.8} {
		b.device(fmt.Sprintf("GPU-%d", i)).addPoint(signal.ThrottleViolationRatio, ratio, "power").addPoint(signal.MemoryPressureRatio, ratio)
	}
	b.device("GPU-4").addPoint(signal.ThrottleViolationRatio, 0.05, "power")
	for gi, ratio := range []float64{0, 0.5, 1} {
		b.device(fmt.Sprintf("GPU-4/gi%d", gi), signal.HardwareParent, "GPU-4", signal.MIGProfile, "1g.10gb").addPoint(signal.MemoryPressureRatio, ratio)
	}
	consume(t, e, b.md)
	p := s.open(base)
	p.until(rowCount + " > 0")
	words := func(id string) string {
		return strings.Join(strings.Fields(text(p, "tile-"+id)), " ")
	}
	assert.Equal(t, "5 boards and 3 MIG instances", words("all"))
	assert.Equal(t, "2 boards ≥ 10% throttled", words("throttled"))
	assert.Equal(t, "2 boards ≥ 10% memory pressure and 2 MIG instances", words("pressure"))
	assert.Equal(t, "0 boards not seen now", words("lost"))
	assert.Contains(t, text(p, "thresholds"), "counted from 10%")
	assert.Equal(t, "observed on 5 boards", eval[string](p, `document.getElementById("tile-throttled").title`))

	shown := func() []string { return eval[[]string](p, visibleRows+`.map((r) => r.dataset.device)`) }
	p.press("#tile-throttled")
	assert.Equal(t, []string{"GPU-3", "GPU-2"}, shown())
	assert.Equal(t, "true", eval[string](p, `document.getElementById("tile-throttled").ariaPressed`))
	assert.Contains(t, eval[string](p, "location.hash"), "tile=throttled")
	assert.Contains(t, text(p, "count"), "2 of 5 boards")
	p.click("#tile-pressure")
	assert.Equal(t, []string{"GPU-4", "GPU-4/gi2", "GPU-4/gi1", "GPU-3", "GPU-2"}, shown(), "instances under their board")
	p.click("#tile-pressure")
	assert.Len(t, shown(), 8, "a second click shows all again")
	p.click("#tile-lost")
	assert.Empty(t, shown())
	assert.Contains(t, text(p, "empty"), "No device passes the filter")
	p.click("#tile-all")
	assert.Len(t, shown(), 8)
}

func (s *pageSuite) TestXIDCodesAreShownWithMeaningAndAdvice() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	b := newBatch(at, time.Minute).onNode("node-1")
	xid := func(code string, n float64) {
		b.addPoint(signal.HwErrors, n, "xid_"+code).counted(at.Add(-30 * time.Second))
	}
	b.device("GPU-0", signal.HardwareName, "nvidia0").addPoint(signal.XIDErrors, 3)
	xid("31", 2)
	xid("48", 1)
	b.device("GPU-1", signal.HardwareName, "nvidia1").addPoint(signal.XIDErrors, 5)
	b.device("GPU-2", signal.HardwareName, "nvidia2").addPoint(signal.XIDErrors, 0)
	b.device("GPU-3", signal.HardwareName, "nvidia3").addPoint(signal.XIDErrors, 2)
	xid("48", 1)
	consume(t, e, b.md)
	p := s.open(base)
	p.until(rowCount + " > 0")
	p.input("sort", "node")
	meanings := map[int]live.XIDText{}
	document, _ := live.Build(e.store, at)
	for _, x := range document.XIDs {
		meanings[x.Code] = x
	}
	words := func(row int) string {
		return strings.Join(strings.Fields(eval[string](p, cell(row, "xid")+".innerText")), " ")
	}
	assert.Equal(t, "48 x1 · "+meanings[48].Action+" 31 x2", words(0))
	assert.Equal(t, "5 errors codes unknown", words(1), "a count must not be read as a code")
	assert.Equal(t, "0", words(2))
	assert.Equal(t, "48 x1 · "+meanings[48].Action+" 1 of unknown code", words(3))
	assert.Contains(t, eval[string](p, cell(0, "xid")+".title"), meanings[31].Meaning)
	assert.Equal(t, "10XID errors in the window48 x2, 31 x2", eval[string](p, `document.getElementById("tile-xid").textContent`))
	p.click("tr.row td")
	p.until(`document.querySelector("#details .codes")`)
	rows := eval[[]string](p, `[...document.querySelectorAll("#details .codes tbody tr")].map((r) => r.innerText.replace(/\s+/g, " ").trim())`)
	require.Len(t, rows, 2)
	assert.True(t, strings.HasPrefix(rows[0], "48 "+meanings[48].Meaning+" "+meanings[48].Advice+" x1 x1"), rows[0])
	assert.True(t, strings.HasPrefix(rows[1], "31 "+meanings[31].Meaning+" "+meanings[31].Advice+" x2 x2"), rows[1])
}

func (s *pageSuite) TestLimitIsLoggedOnceAndShownOnThePage() {
	t := s.T()
	core, logs := observer.New(zap.WarnLevel)
	set := nop()
	set.Logger = zap.New(core)
	e, base := serve(t, set, func(c *Config) { c.MaxDevices = 8 })
	for i := range 3 {
		consume(t, e, fleet(now().Add(time.Duration(i)*time.Second), time.Minute, 9, false))
	}
	require.Equal(t, 1, logs.Len(), "once")
	entry := logs.All()[0]
	assert.Contains(t, entry.Message, "A limit is reached")
	assert.Equal(t, map[string]any{"setting": "max_devices", "limit": int64(8), "of": "boards and MIG instances"}, entry.ContextMap())
	p := s.open(base)
	p.until(`document.getElementById("banner").checkVisibility()`)
	assert.Equal(t, "The page is incomplete, because gpu_view has reached max_devices. It keeps 8 boards and MIG instances and refuses others. Raise the limit, or find out what creates so many items.", text(p, "banner"))

	window := componenthelper.Limit{Component: "gpu_window", Setting: "max_series", Value: 2_000_000, What: "series"}
	t.Cleanup(window.Forget)
	window.Refused(zap.NewNop(), time.Now(), 12)
	p.run(chromedp.Reload())
	p.until(`document.getElementById("banner").innerText.includes("gpu_window")`)
	said := strings.Split(text(p, "banner"), "\n")
	assert.Equal(t, "The page is incomplete, because gpu_window has reached max_series. It keeps 2,000,000 series and refuses others. Raise the limit, or find out what creates so many items.", said[len(said)-1])
	window.Forget()
	consume(t, e, fleet(now().Add(time.Minute), time.Minute, 8, false))
	p.until(`!document.getElementById("banner").innerText.includes("gpu_window")`)
}

func TestAThousandNodesOfEightGPUsFitByDefault(t *testing.T) {
	e, err := newViewExporter(nop(), createDefaultConfig().(*Config))
	require.NoError(t, err)
	consume(t, e, fleet(now(), time.Minute, 8000, false))
	stats := e.store.Stats()
	assert.Equal(t, 8000, stats.Devices)
	assert.Equal(t, 8000, stats.Holders)
	document, _ := live.Build(e.store, time.Now())
	assert.Empty(t, document.Limits)
}
