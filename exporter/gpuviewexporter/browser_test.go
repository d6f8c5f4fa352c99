package gpuviewexporter

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	devtools "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stretchr/testify/suite"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/notruntest"
)

// A page is a tab in a headless Chromium browser.
type page struct {
	context.Context
	t testing.TB

	mu       sync.Mutex
	errors   []string
	requests []string
}

// The chromium function returns the path of the browser that the tests use. The path is the value
// of the environment variable OTELCOL_GPU_CHROMIUM, if set. If the environment variable is not set,
// the function searches for a browser in PATH. If no browser is found, the test is skipped, and the
// skip is reported.
func chromium(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("OTELCOL_GPU_CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	notruntest.Skip(t, "the page in a browser: there is none; install chromium or set OTELCOL_GPU_CHROMIUM")
	return ""
}

// newTab opens a tab that does not share any data with other tabs.
type newTab func() (context.Context, context.CancelFunc)

// startBrowser starts a browser, which is stopped at the end of the test.
func startBrowser(t testing.TB) newTab {
	t.Helper()
	// Chromium's sandbox does not work for the root user. GPU rendering does not work without a
	// GPU.
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1440, 900))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	// Discard the errors that the chromedp library reports for unknown events.
	ctx, stop = chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(stop)
	require.NoError(t, chromedp.Run(ctx))
	return func() (context.Context, context.CancelFunc) {
		return chromedp.NewContext(ctx, chromedp.WithNewBrowserContext())
	}
}

// The open function opens an address in a new tab, which is closed at the end of the test.
func open(t testing.TB, tab newTab, address string) *page {
	t.Helper()
	ctx, stop := tab()
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(stop)
	p := &page{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, p.recordEvent)
	p.run(network.Enable(), log.Enable(), chromedp.Navigate(address))
	return p
}

// pageSuite contains the tests of the page. All tests in the suite share one browser.
type pageSuite struct {
	suite.Suite
	tab newTab
}

func TestThePageInABrowser(t *testing.T) {
	suite.Run(t, &pageSuite{tab: startBrowser(t)})
}

func (s *pageSuite) open(address string) *page { return open(s.T(), s.tab, address) }

func (p *page) recordEvent(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			p.errors = append(p.errors, fmt.Sprint(e.Type, e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
			p.errors = append(p.errors, e.Entry.Text)
		}
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	}
}

func (p *page) run(actions ...chromedp.Action) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Run(p, actions...))
}

// The input method sets the value of a form control.
func (p *page) input(id, value string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf(`{const e = document.getElementById(%q); e.value = %q; e.dispatchEvent(new Event("input"))}`, id, value), nil))
}

// The click method calls click() on the first DOM element that matches a selector.
func (p *page) click(selector string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).click()", selector), nil))
}

// The press method clicks the middle of the first element that matches a selector, using the mouse.
// The press, click and focus methods find the element with a script instead of a node ID, because
// the page could replace the element before the chromedp library uses the node ID.
func (p *page) press(selector string) {
	p.t.Helper()
	at := eval[[]float64](p, fmt.Sprintf(`(e => { e.scrollIntoView({block: "nearest"}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })(document.querySelector(%q))`, selector))
	p.run(chromedp.MouseClickXY(at[0], at[1]))
}

// The focus method sets the keyboard focus to the first element that matches a selector.
func (p *page) focus(selector string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf("document.querySelector(%q).focus()", selector), nil))
}

// The requestNow constant is a script that makes the page send a request to the server, as if the
// page had become visible again. The script sends at most one request every 300 ms.
const requestNow = `performance.now() - (window.asked ?? -1000) > 300 && (window.asked = performance.now(), document.dispatchEvent(new Event("visibilitychange")))`

// The until method polls a JavaScript expression until the expression is true. In the meantime, the
// page sends requests to the server, so that the test does not have to wait for the next window.
func (p *page) until(expression string) {
	p.t.Helper()
	p.wait("(" + requestNow + ", " + expression + ")")
}

// The wait method polls a JavaScript expression until the expression is true. Unlike the until
// method, the wait method does not make the page send requests.
func (p *page) wait(expression string) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(p, 20*time.Second)
	defer stop()
	err := chromedp.Run(ctx, chromedp.Poll(expression, nil))
	if err != nil {
		var body string
		_ = chromedp.Run(p, chromedp.Evaluate("document.body.innerText.slice(0, 2000)", &body))
		require.NoError(p.t, err, "%s\nthe page says:\n%s\nerrors: %v", expression, body, p.errors)
	}
}

// The eval function returns the value of a JavaScript expression.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	var out T
	p.run(chromedp.Evaluate(expression, &out))
	return out
}

const (
	visibleRows = `[...document.querySelectorAll("tr.row:not([hidden])")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)`
	firstColumn = visibleRows + `.map(r => r.cells[0].querySelector(".main").firstChild.textContent)`
)

func cell(row int, column string) string {
	return fmt.Sprintf(`%s[%d].querySelector('[data-column="%s"]')`, visibleRows, row, column)
}

func (s *pageSuite) openFleet(n int, variety bool) (*viewExporter, *page) {
	t := s.T()
	t.Helper()
	e, base := serve(t, nop(), nil)
	at := now()
	consume(t, e, fleet(at.Add(-time.Minute), time.Minute, n, variety))
	consume(t, e, fleet(at, time.Minute, n, variety))
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length > 0`)
	return e, p
}

func (s *pageSuite) TestThePageHasARowForEachDeviceWithInstancesUnderTheirBoard() {
	t := s.T()
	_, p := s.openFleet(8, true)
	p.input("sort", "node")
	assert.Equal(t, []string{"nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4", "nvidia5", "3g.40gb", "1g.10gb", "1g.10gb", "nvidia6", "nvidia7"},
		eval[[]string](p, firstColumn))
	assert.Equal(t, "12", eval[string](p, `document.getElementById("grid").ariaRowCount`), "rows and the head")
	assert.Equal(t, "worker-0", eval[string](p, cell(0, "holders")+`.querySelector(".main").textContent`))
	assert.Equal(t, "inference · main · +1 more", eval[string](p, cell(1, "holders")+`.querySelector(".sub").textContent`))
	assert.Contains(t, eval[string](p, `document.getElementById("demand").textContent`), "3 pods pending")
}

// The command "gpudoctor top" must format these numbers in the same way, but its formatter is
// written in Go instead of JavaScript.
func (s *pageSuite) TestPageFormatsTheExamplesOfNumberFormat() {
	t := s.T()
	content, err := os.ReadFile(filepath.Join("..", "..", "internal", "numberformat", "testdata", "examples.json"))
	require.NoError(t, err)
	var examples [][4]any
	require.NoError(t, json.Unmarshal(content, &examples))
	_, p := s.openFleet(1, false)
	var got []string
	p.run(chromedp.Evaluate(fmt.Sprintf(`import("./signals.js").then(({format}) => %s.map(([name, v]) => format(name)(v)))`, content), &got,
		func(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }))
	require.Len(t, got, len(examples))
	for i, e := range examples {
		assert.Equal(t, e[2], got[i], e)
	}
}

func (s *pageSuite) TestMissingValueIsADashWithAReason() {
	t := s.T()
	_, p := s.openFleet(8, true)
	p.input("sort", "node")
	for _, tt := range []struct {
		row          int
		column, want string
	}{
		{3, "sm", "DCGM_FI_PROF_SM_ACTIVE"},
		{3, "throttle", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"},
		{3, "holders", "No holder is known"},
		{5, "memory", "see the instances' rows"},
		{6, "pcie", "see the board's row"},
	} {
		assert.Contains(t, eval[string](p, cell(tt.row, tt.column)+".title"), tt.want, tt.column)
		text := eval[string](p, cell(tt.row, tt.column)+".innerText")
		assert.Contains(t, text, "–")
		assert.Contains(t, text, "not observed", "it is announced to screen readers")
		assert.NotContains(t, text, "0%")
	}
	assert.Equal(t, "0", eval[string](p, cell(0, "xid")+".innerText.trim()"), "a 0 was observed")
}

func (s *pageSuite) TestMissingCellShowsTheDiagnosis() {
	t := s.T()
	e, p := s.openFleet(8, true)
	p.input("sort", "node")
	title := func(row int, column string) string { return eval[string](p, cell(row, column)+".title") }
	assert.Equal(t, "DCGM_FI_PROF_SM_ACTIVE: DCGM's profiling does not work on this GPU.", title(3, "sm"))
	assert.Equal(t, "DCGM_FI_PROF_PCIE_TX_BYTES, DCGM_FI_PROF_PCIE_RX_BYTES: DCGM's profiling does not work on this GPU.", title(3, "pcie"))
	assert.Equal(t, "DCGM_FI_PROF_NVLINK_TX_BYTES: this model, partition or vendor does not support it.", title(3, "nvlink"))
	assert.Contains(t, title(3, "throttle"), "DCGM_FI_DEV_POWER_VIOLATION, DCGM_FI_DEV_THERMAL_VIOLATION, ")
	assert.Contains(t, eval[string](p, cell(3, "sm")+".innerText"), "profiling does not work", "it is announced to screen readers")
	assert.Contains(t, title(3, "xid"), "Usual reason: ", "there is no diagnosis")
	b := newBatch(now().Add(time.Minute), time.Minute).onNode("gpu-node-00").device("GPU-00000004-7d1c-4c5e-9f7a-2b8c1d3e5f60").
		addPoint(signal.UtilizationAvg, 0.5).addPoint(signal.GPUSignalAvailable, 1, "gpu.sm.active")
	consume(t, e, b.md)
	p.until(cell(3, "sm") + `.title.startsWith("The exporter provides it")`)
}

func (s *pageSuite) TestMissingSignalsAreListedWithTheReason() {
	t := s.T()
	_, p := s.openFleet(8, true)
	assert.Equal(t, "8", eval[string](p, `document.querySelector("#tile-missing b").textContent`), "NVLink is not available on these boards")
	p.press("#tile-missing")
	p.until(`document.getElementById("missing").open`)
	rows := eval[[]string](p, `[...document.querySelectorAll("#missing tbody tr")].map(r => r.innerText.replace(/\s+/g, " ").trim())`)
	assert.Equal(t, []string{
		"gpu.clock.throttle.time {power, thermal} DCGM_FI_DEV_POWER_VIOLATION DCGM_FI_DEV_THERMAL_VIOLATION the exporter does not list the field 1 of 7 nvidia3 on gpu-node-00",
		"gpu.clock.event.active DCGM_FI_DEV_CLOCKS_EVENT_REASONS the exporter does not list the field 1 of 7 nvidia3 on gpu-node-00",
		"gpu.sm.active DCGM_FI_PROF_SM_ACTIVE DCGM's profiling does not work on this GPU 1 of 7 nvidia3 on gpu-node-00",
		"gpu.sm.occupancy DCGM_FI_PROF_SM_OCCUPANCY DCGM's profiling does not work on this GPU 1 of 7 nvidia3 on gpu-node-00",
		"gpu.dram.active DCGM_FI_PROF_DRAM_ACTIVE DCGM's profiling does not work on this GPU 1 of 7 nvidia3 on gpu-node-00",
		"gpu.pcie.throughput {transmit, receive} DCGM_FI_PROF_PCIE_TX_BYTES DCGM_FI_PROF_PCIE_RX_BYTES DCGM's profiling does not work on this GPU 1 of 7 nvidia3 on gpu-node-00",
		"gpu.nvlink.throughput {transmit} DCGM_FI_PROF_NVLINK_TX_BYTES this model, partition or vendor does not support it 1 of 7 nvidia3 on gpu-node-00",
	}, rows)
	p.run(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.getElementById("missing").open`)
	assert.Equal(t, "tile-missing", eval[string](p, "document.activeElement.id"))
}

func (s *pageSuite) TestMissingListWithoutDiagnosisShowsHowToEnableIt() {
	t := s.T()
	_, p := s.openFleet(8, false)
	assert.Equal(t, "–", eval[string](p, `document.querySelector("#tile-missing b").textContent`))
	p.click("#tile-missing")
	p.until(`document.getElementById("missing").open`)
	text := eval[string](p, `document.getElementById("missing").innerText`)
	assert.Contains(t, text, "gpu.signal.available: {enabled: true}")
	assert.Contains(t, text, "gpudoctor http://")
}

func (s *pageSuite) TestBudgetColumnIsShownOnceABudgetIsDeclared() {
	t := s.T()
	e, p := s.openFleet(8, false)
	const isShown = `document.querySelector('th[data-column="budget"]').checkVisibility()`
	assert.False(t, eval[bool](p, isShown))
	assert.Equal(t, eval[float64](p, `document.getElementById("scroller").clientWidth`),
		eval[float64](p, `document.querySelector('th[data-column="coverage"]').getBoundingClientRect().right - document.getElementById("scroller").getBoundingClientRect().left - 1`),
		"the others have its room")
	assert.True(t, eval[bool](p, `document.querySelector('#sort [value="budget"]').hidden`))
	consume(t, e, newBatch(now(), time.Minute).onNode("gpu-node-00").device("GPU-00000001-7d1c-4c5e-9f7a-2b8c1d3e5f60").
		addPoint(signal.GPUMemoryBudgetDeclared, 60*gib).md)
	p.until(isShown)
	p.input("sort", "budget")
	assert.Contains(t, eval[string](p, cell(0, "budget")+".innerText"), "60.0 GiB")
	assert.Contains(t, eval[string](p, cell(1, "budget")+".title"), "no memory budget is declared")
}

func (s *pageSuite) TestDetailsShowTheHistoryOfEachSignal() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	for i := range 5 {
		b := newBatch(at.Add(time.Duration(i-4)*time.Minute), time.Minute).onNode("node-1").device("GPU-a")
		b.load(float64(i)/4, 0.5, 0.1).addPoint(signal.XIDErrors, float64(i%2))
		consume(t, e, b.md)
	}
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length > 0`)
	p.click("tr.row td")
	p.until(`document.querySelector("#details .history")`)
	line := func(name string) string {
		return eval[string](p, fmt.Sprintf(`(() => { const tr = [...document.querySelectorAll("#details tr")].find(r => r.cells[0].innerText === %q);
			return tr.innerText.replace(/\s+/g, " ").trim() + " | " + (tr.querySelector("path")?.getAttribute("d") ?? ""); })()`, name))
	}
	assert.Equal(t, "Utilization, mean 100% 0% to 100% | M0 19.3h.01L1 14.7L2 10.0L3 5.3L4 0.7", line("Utilization, mean"))
	assert.Contains(t, line("Memory occupancy, mean"), "always 50%")
	for _, name := range []string{"Memory pressure", "DRAM active, mean", "SM active", "SM occupancy", "PCIe sent", "NVLink received", "XID errors", "Observed", "software power cap, share of samples"} {
		assert.Contains(t, line(name), "L4 ", name)
	}
	assert.Contains(t, line("Power"), "650 W 90 W to 650 W | M0 ")
	consume(t, e, newBatch(at.Add(time.Minute), time.Minute).onNode("node-1").device("GPU-a").load(0.5, 0.5, 0.1).md)
	p.until(`document.querySelector("#details .history path").getAttribute("d").includes("L5 ")`)
}

func (s *pageSuite) TestNewWindowDoesNotShiftTheLayout() {
	t := s.T()
	e, p := s.openFleet(8, false)
	p.input("sort", "node")
	p.run(chromedp.Evaluate(`window.shifts = 0; new PerformanceObserver(l => l.getEntries().forEach(s => { shifts += s.value; })).observe({type: "layout-shift", buffered: false})`, nil))
	before := eval[string](p, cell(2, "utilization")+`.querySelector("path").getAttribute("d")`)
	next := now().Add(time.Minute)
	b := newBatch(next, time.Minute)
	b.onNode("gpu-node-00").device(fmt.Sprintf("GPU-%08x-7d1c-4c5e-9f7a-2b8c1d3e5f60", 3)).load(0.123, 0.5, 0.77)
	consume(t, e, b.md)
	p.until(cell(2, "utilization") + `.innerText.includes("12%")`)
	assert.Contains(t, eval[string](p, cell(2, "throttle")+".innerText"), "77%")
	assert.NotEqual(t, before, eval[string](p, cell(2, "utilization")+`.querySelector("path").getAttribute("d")`), "the curve goes on")
	// Wait for two frames, because the browser reports layout shifts in the frames after the
	// change.
	p.until(`new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
	// Only one layout shift is allowed: if a right-aligned number gains a digit, the number starts
	// farther to the left.
	assert.Less(t, eval[float64](p, "window.shifts"), 1e-4)
}

func (s *pageSuite) TestDevicesAreSortedByTheSelectedColumn() {
	t := s.T()
	_, p := s.openFleet(8, false)
	// In the throttle column, each value is the largest of several ratios.
	for _, column := range []string{"dram", "power", "throttle"} {
		for _, order := range []string{"descending", "ascending"} {
			p.press(fmt.Sprintf(`th[data-column="%s"] button`, column))
			assert.Equal(t, order, eval[string](p, fmt.Sprintf(`document.querySelector('th[data-column="%s"]').ariaSort`, column)))
			values := eval[[]float64](p, visibleRows+fmt.Sprintf(`.map(r => parseFloat(r.querySelector('[data-column="%s"] .main').textContent.replace("~", "")))`, column))
			require.Len(t, values, 8)
			assert.NotEqual(t, values[0], values[7])
			for i := 1; i < len(values); i++ {
				if order == "descending" {
					assert.LessOrEqual(t, values[i], values[i-1])
				} else {
					assert.GreaterOrEqual(t, values[i], values[i-1])
				}
			}
		}
	}
}

func (s *pageSuite) TestKeyboardSelectsADeviceAndOpensItsDetails() {
	t := s.T()
	_, p := s.openFleet(8, true)
	p.focus("#grid")
	p.run(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	assert.Equal(t, "true", eval[string](p, `document.getElementById(document.getElementById("grid").getAttribute("aria-activedescendant")).ariaSelected`))
	chosen := eval[string](p, `document.querySelector("tr.active").dataset.device`)
	p.run(chromedp.KeyEvent(kb.Enter))
	p.until(`document.getElementById("details").open`)
	text := eval[string](p, `document.getElementById("details").innerText`)
	assert.Contains(t, text, chosen)
	assert.Contains(t, text, "Observed", "the details are the device's, board or instance")
	p.run(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.getElementById("details").open`)
	assert.Equal(t, "grid", eval[string](p, "document.activeElement.id"))
	p.run(chromedp.KeyEvent(kb.End))
	assert.Equal(t, eval[string](p, `document.getElementById("grid").ariaRowCount`), eval[string](p, `document.querySelector("tr.active").ariaRowIndex`))
}

func (s *pageSuite) TestTableRendersOnlyTheVisibleRowsOfFiveThousandDevices() {
	t := s.T()
	_, p := s.openFleet(5000, false)
	assert.Equal(t, "5001", eval[string](p, `document.getElementById("grid").ariaRowCount`))
	assert.Less(t, eval[int](p, `document.querySelectorAll("tr.row").length`), 60)
	p.run(chromedp.Evaluate(`document.getElementById("scroller").scrollTop = 1e9`, nil))
	p.until(visibleRows + `.at(-1).ariaRowIndex === "5001"`)
	assert.Less(t, eval[int](p, `document.querySelectorAll("tr.row").length`), 60)
	assert.Less(t, eval[int](p, mapCells+".length"), 1500, "the map as well")
	p.run(chromedp.Evaluate(`document.getElementById("map").scrollTop = 1e9`, nil))
	p.until(`[...document.querySelectorAll("#map button")].at(-1).textContent === "gpu-node-624"`)
}

func (s *pageSuite) TestPageLogsNoErrorsAndRequestsOnlyItsOrigin() {
	t := s.T()
	e, p := s.openFleet(8, true)
	consume(t, e, fleet(now().Add(time.Minute), time.Minute, 8, true))
	p.click("tr.row td")
	p.until(`document.getElementById("details").open`)
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Empty(t, p.errors)
	origin := "http://" + e.address.String() + "/"
	var seen []string
	for _, url := range p.requests {
		path, ours := strings.CutPrefix(url, origin)
		assert.True(t, ours, url)
		seen = append(seen, path)
	}
	for _, path := range []string{"", "app.css", "app.js", "details.js", "dom.js", "model.js", "signals.js", "table.js", "timeline.js", "windows.js", "api/devices"} {
		assert.Contains(t, seen, path, "the test sees requests")
	}
}

// The contrast constant is a script that returns all visible text whose contrast with the
// background is lower than WCAG AA requires for text.
const contrast = `(() => {
	const parse = (c) => { const [r, g, b, a = 1] = c.match(/[\d.]+/g).map(Number); return {r, g, b, a}; };
	const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
	const luminance = (c) => 0.2126 * channel(c.r) + 0.7152 * channel(c.g) + 0.0722 * channel(c.b);
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a === 1) return c; } return {r: 255, g: 255, b: 255}; };
	const out = [];
	let texts = 0;
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.checkVisibility() || e.closest(".vh, .skip, option")) continue;
		texts++;
		const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(behind(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) out.push(e.tagName + "." + e.className + " " + e.textContent.slice(0, 30) + " " + ratio.toFixed(2));
	}
	return texts > 100 ? out : ["only " + texts + " texts"];
})()`

func (s *pageSuite) TestTextHasContrastInBothSchemes() {
	t := s.T()
	_, p := s.openFleet(16, true)
	scheme := func(name string) {
		// Disable motion. With motion enabled, the colors could still be changing.
		p.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}))
		assert.Empty(t, eval[[]string](p, contrast), name)
	}
	for _, dialog := range []string{"", "missing", "details", "groups"} {
		if dialog != "" {
			p.click(map[string]string{"missing": "#tile-missing", "details": "tr.row td", "groups": "#by"}[dialog])
			p.until(fmt.Sprintf(`document.getElementById(%q).open`, dialog))
		}
		if dialog == "groups" {
			p.until(`document.querySelector("#groups-waste p") && document.querySelector("#groups-now .link.sub")`)
		}
		scheme("light")
		scheme("dark")
		if dialog != "" {
			p.run(chromedp.KeyEvent(kb.Escape))
		}
	}
	// Make each row show a different step of the color scales.
	p.run(chromedp.Evaluate(visibleRows+`.slice(0, 9).forEach((r, i) => {
		for (const c of r.cells) if (c.cellIndex > 2) c.className = ["u1", "u2", "u3", "u4", "s1", "s2", "s3", "s4", "error"][i];
	})`, nil))
	scheme("dark")
	scheme("light")
}

func (s *pageSuite) TestPageShowsALostOrRefusedConnection() {
	t := s.T()
	e, p := s.openFleet(1, false)
	p.until(`document.getElementById("connection").textContent === "Live"`)
	p.run(chromedp.Evaluate(`const requestNow = window.fetch; window.fetch = async () => { window.fetch = requestNow; return new Response("", {status: 503}); }`, nil))
	p.until(`document.getElementById("connection").textContent === "Refused by the server. Retrying"`)
	p.until(`document.getElementById("connection").textContent === "Live"`)
	up := newBatch(now(), time.Minute).onNode("gpu-node-00").device("")
	up.point = nil
	consume(t, e, up.addPoint(signal.GPUExporterUp, 1, "http://10.0.0.1:9400/metrics").md)
	p.run(chromedp.Reload())
	p.until(`document.getElementById("connection").textContent === "Live"`)
	require.NoError(t, e.shutdown(t.Context()))
	p.until(`document.getElementById("connection").textContent.startsWith("Connection lost")`)
	p.run(chromedp.Evaluate(hundredfold, nil))
	p.until(`document.getElementById("banner").checkVisibility()`)
	assert.Regexp(t, `^No data since \S+\. The page has no connection to gpu_view\.$`, text(p, "banner"), "the state of exporters is then unknown")
}

func (s *pageSuite) TestPageWithoutWindowsShowsWhatToCheck() {
	t := s.T()
	_, base := serve(t, nop(), nil)
	p := s.open(base)
	p.until(`document.getElementById("empty").innerText.includes("No window has arrived yet")`)
}

// Before the first response, the page does not know whether the server has windows.
func (s *pageSuite) TestPageMentionsNoWindowsBeforeTheFirstResponse() {
	t := s.T()
	_, base := serve(t, nop(), nil)
	p := s.open("about:blank")
	hold := `const requestNow = window.fetch; window.fetch = (...what) => new Promise((done) => {
		window.answer = (instead) => { window.answer = null; done(instead ?? requestNow(...what)); };
	});`
	p.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := devtools.AddScriptToEvaluateOnNewDocument(hold).Do(ctx)
		return err
	}), chromedp.Navigate(base))
	p.until(`window.answer`)
	assert.Equal(t, "Connecting", text(p, "connection"))
	assert.Empty(t, eval[string](p, `document.getElementById("empty").innerText`))
	p.run(chromedp.Evaluate(`window.answer(new Response("", {status: 503}))`, nil))
	p.until(`document.getElementById("connection").textContent === "Refused by the server. Retrying"`)
	assert.Empty(t, eval[string](p, `document.getElementById("empty").innerText`))
	p.until(`window.answer`)
	p.run(chromedp.Evaluate("window.answer()", nil))
	p.until(`document.getElementById("empty").innerText.includes("No window has arrived yet")`)
	assert.Equal(t, "Connected, no data yet", text(p, "connection"))
}

func (s *pageSuite) TestTheUtilizationIsNeverCutOff() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	for minute := range 3 { // a curve needs several windows
		consume(t, e, newBatch(now().Add(time.Duration(minute-2)*time.Minute), time.Minute).onNode("node-1").device("GPU-0").load(0.998, 0.998, 0.5).md)
	}
	p := s.open(base)
	p.until(rowCount + " > 0")
	for _, column := range []string{"utilization", "memory", "throttle"} {
		main := cell(0, column) + `.querySelector(".main")`
		require.NotEmpty(t, eval[string](p, main+".textContent"))
		assert.LessOrEqual(t, eval[float64](p, main+".scrollWidth"), eval[float64](p, main+".clientWidth"), column)
	}
}
