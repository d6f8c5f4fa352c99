package gpuviewexporter

import (
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// deviceCount returns the text that shows how many of the devices are visible.
func deviceCount(p *page) string { return eval[string](p, `document.getElementById("count").value`) }

func (s *pageSuite) TestSearchMatchesEveryWordInDeviceNames() {
	t := s.T()
	e, p := s.openFleet(16, true)
	consume(t, e, newBatch(now().Add(time.Minute), time.Minute).ownedBy("PyTorchJob", "llama").onNode("gpu-node-01", "research", "master-0", "torch").
		device("GPU-0000000a-7d1c-4c5e-9f7a-2b8c1d3e5f60").addPoint(signal.UtilizationAvg, 0.5).md)
	p.input("search", "master-0")
	p.until(`document.getElementById("count").value.startsWith("1 of 16 boards")`)
	for _, tt := range []struct{ search, shown string }{
		{"", "16 of 16 boards · 6 of 6 MIG instances"},
		{"node-01", "8 of 16 boards · 3 of 6 MIG instances"},
		{"NODE-01 tesla t4", "1 of 16 boards · 0 of 6 MIG instances"},
		{"nvidia7", "2 of 16 boards · 0 of 6 MIG instances"},
		{"ranker-5-2", "1 of 16 boards · 1 of 6 MIG instances"},
		{"pytorchjob llama", "1 of 16 boards · 0 of 6 MIG instances"},
		{"research node-01 torch", "1 of 16 boards · 0 of 6 MIG instances"},
		{"node-01 nowhere", "0 of 16 boards · 0 of 6 MIG instances"},
	} {
		p.input("search", tt.search)
		assert.Equal(t, tt.shown, deviceCount(p), tt.search)
	}
	assert.Contains(t, eval[string](p, `document.getElementById("empty").innerText`), "No device passes the filter")
	assert.Contains(t, eval[string](p, "location.hash"), "search=node-01+nowhere", "the address says what is shown")
	p.run(chromedp.Reload())
	p.until(`document.getElementById("count").value.startsWith("0 of 16 boards")`)
}

func (s *pageSuite) TestSlashFocusesTheSearchAndEscapeClearsIt() {
	t := s.T()
	_, p := s.openFleet(16, false)
	p.focus("#grid")
	p.run(input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithText("/"), chromedp.KeyEvent("gpu-node-01/x"))
	assert.Equal(t, "search", eval[string](p, "document.activeElement.id"))
	assert.Equal(t, "gpu-node-01/x", eval[string](p, `document.getElementById("search").value`), "a slash in the search is text")
	p.run(chromedp.KeyEvent(kb.Escape))
	assert.Empty(t, eval[string](p, `document.getElementById("search").value`))
	assert.Equal(t, "16 of 16 boards", deviceCount(p))
}

func (s *pageSuite) TestVendorFilter() {
	t := s.T()
	e, p := s.openFleet(8, false)
	consume(t, e, newBatch(now(), time.Minute).onNode("amd-node").device("amd-0", signal.HardwareVendor, "AMD").load(0.5, 0.5, 0).md)
	p.until(`document.querySelectorAll("#vendor option").length === 3`)
	p.input("vendor", "AMD")
	assert.Equal(t, "1 of 9 boards", deviceCount(p))
	p.input("vendor", "NVIDIA")
	assert.Equal(t, "8 of 9 boards", deviceCount(p))
}

func (s *pageSuite) TestProblemFilter() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute)
	b.onNode("n").device("fine").load(0.5, 0.5, 0).addPoint(signal.HwStatus, 1, signal.StatusOK).addPoint(signal.HwStatus, 0, signal.StatusFailed)
	b.onNode("n").device("throttled").load(0.5, 0.5, 0.5)
	b.onNode("n").device("full").load(0.5, 0.99, 0)
	b.onNode("n").device("xid").load(0.5, 0.5, 0).addPoint(signal.XIDErrors, 1)
	b.onNode("n").device("failed").load(0.5, 0.5, 0).addPoint(signal.HwStatus, 0, signal.StatusOK).addPoint(signal.HwStatus, 1, signal.StatusFailed)
	b.onNode("n").device("unknown").addPoint(signal.HwPower, 100)
	consume(t, e, b.md)
	p := s.open(base + "#sort=node&order=ascending")
	p.until(rowCount + " === 6")
	p.click("#problems")
	assert.Equal(t, []string{"failed", "full", "throttled", "xid"}, eval[[]string](p, firstColumn))
	assert.Contains(t, eval[string](p, "location.hash"), "problems=only")
	p.click("#tile-throttled")
	require.Equal(t, []string{"throttled"}, eval[[]string](p, firstColumn), "a tile shows what it counts")
}
