package gpuviewexporter

import (
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// openTimeline opens the details of a device that was throttled and had XID errors. The history has
// a gap, and a different pod held the device after the gap.
func (s *pageSuite) openTimeline() *page {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	for i := range 60 {
		if i >= 30 && i < 36 {
			continue // nothing was observed
		}
		end := at.Add(time.Duration(i-59) * time.Minute)
		busy := float64(i%20) / 20
		pod := []string{"train-a", "train-b"}[i/36]
		b := newBatch(end, time.Minute).onNode("node-1").device("GPU-a").load(busy, 0.6, max(0, busy-0.5))
		for code, n := range map[string]float64{"xid_48": float64(i / 40), "xid_13": float64(i / 55 * 3)} {
			b.addPoint(signal.HwErrors, n, code).counted(at.Add(-2 * time.Hour))
		}
		b.onNode("node-1", "team", pod, "main").device("GPU-a").addPoint(signal.GPUDeviceHolder, 1).addPoint(signal.UtilizationAvg, busy)
		consume(t, e, b.md)
	}
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length > 0`)
	p.click("tr.row td")
	p.until(`document.querySelector("#details .timeline .holder")`)
	return p
}

func (s *pageSuite) TestDetailsTimelineHasAxesAndEvents() {
	t := s.T()
	p := s.openTimeline()
	const all = `[...document.querySelectorAll("#details .timeline %s")].map(e => e.innerText.trim())`
	texts := func(selector string) []string { return eval[[]string](p, fmt.Sprintf(all, selector)) }
	assert.Equal(t, []string{"100%", "50%", "0%", "750 W", "375 W", "0 W", "75 °C", "38 °C", "0 °C"}, texts(".panel .axis span"))
	assert.Equal(t, []string{"utilization", "memory", "throttled", "not observed", "power", "temperature", "not observed"}, texts(".keys span"))
	assert.Equal(t, []string{"48", "13"}, texts(".lane b"))
	assert.Contains(t, eval[string](p, `document.querySelector("#details .lane b").title`), "XID 48 by ")
	held := texts(".holder span")
	assert.Len(t, held, 2)
	assert.Regexp(t, `^team/train-a/main · before .* to `, held[0])
	assert.Regexp(t, `^team/train-b/main · from [0-9:]+$`, held[1])
	assert.Len(t, texts(".times span"), 5)
	assert.Equal(t, 6, eval[int](p, `document.querySelector("#details path.blind").getAttribute("d").split("M").length - 1`), "the gap")

	p.focus("#details .timeline")
	p.run(chromedp.KeyEvent(kb.ArrowLeft))
	assert.Regexp(t, `: utilization 95%, memory 60%, throttled 45%, power 622 W, temperature 73 °C$`, texts(".readout")[0])
	for range 25 {
		p.run(chromedp.KeyEvent(kb.ArrowLeft))
	}
	assert.Regexp(t, `: not observed$`, texts(".readout")[0])
}

func (s *pageSuite) TestTimelineMarksRestartsAndOutages() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	const url = "http://10.0.0.1:9400/metrics"
	for i := range 20 {
		end := at.Add(time.Duration(i-19) * time.Minute)
		up := newBatch(end, time.Minute).onNode("node-1").device("")
		up.point = nil
		answers := i < 5 || i >= 8
		consume(t, e, up.addPoint(signal.GPUExporterUp, map[bool]float64{true: 1}[answers], url).md)
		if !answers {
			continue
		}
		joules := 1e6 + 100*float64(i)
		if i >= 12 {
			joules = 100 * float64(i-12)
		}
		b := newBatch(end, time.Minute).onNode("node-1").device("GPU-a", signal.HardwareName, "nvidia0").load(0.5, 0.5, 0)
		b.addPoint(signal.HwEnergy, joules).counted(at.Add(-2 * time.Hour))
		b.device("GPU-a/gi1", signal.HardwareParent, "GPU-a", signal.MIGProfile, "1g.10gb").addPoint(signal.UtilizationAvg, 0.5)
		consume(t, e, b.md)
	}
	p := s.open(base + "#sort=node&order=ascending&device=node-1/GPU-a")
	lane := func(selector string) string {
		p.until(`document.querySelector("#details .timeline")`)
		return eval[string](p, fmt.Sprintf(`[...document.querySelectorAll("#details .lane")].filter(l => l.innerText.startsWith(%q)).map(l => l.innerText.replace(/\s+/g, " ").trim()).join("|")`, selector))
	}
	on := func(i int) string { return pageTime(p, at.Add(time.Duration(i-19)*time.Minute)) }
	assert.Equal(t, "Restart driver", lane("Restart"))
	assert.Equal(t, "The energy counter restarted between "+on(11)+" and "+on(12)+": the driver was loaded, or the GPU reset.",
		eval[string](p, `document.querySelector("#details .lane b").title`))
	assert.Equal(t, "Exporter no answer "+on(5)+" to "+on(8), lane("Exporter"))
	assert.Equal(t, url, eval[string](p, `document.querySelector("#details .lane.down .plot").title`))
	p.focus("#details .timeline")
	for range 8 {
		p.run(chromedp.KeyEvent(kb.ArrowLeft))
	}
	assert.Contains(t, eval[string](p, `document.querySelector("#details .readout").innerText`), on(12)+": utilization 50%")
	assert.Contains(t, eval[string](p, `document.querySelector("#details .readout").innerText`), "; the driver restarted")
	p.click("#details .bar button")
	p.click(`[aria-rowindex="3"] td`)
	p.until(`document.getElementById("details-title").innerText === "1g.10gb on node-1"`)
	assert.Equal(t, "Restart driver", lane("Restart"), "an instance shows the restarts of its board")
	// An outage lasts until the exporter answers again. Outages of exporters on other nodes are not
	// shown for the device.
	p.click("#details .bar button")
	for node, its := range map[string]string{"node-1": url, "node-2": "http://10.0.0.2:9400/metrics"} {
		up := newBatch(at.Add(30*time.Second), time.Minute).onNode(node).device("")
		up.point = nil
		consume(t, e, up.addPoint(signal.GPUExporterUp, 0, its).md)
	}
	p.click(`[aria-rowindex="2"] td`)
	p.until(`document.querySelector("#details .lane.down span")?.innerText.endsWith(", still")`)
	assert.Regexp(t, "^Exporter 2 times without an answer, last "+pageTime(p, at.Add(30*time.Second))+", still$", lane("Exporter"))
}

func (s *pageSuite) TestTheAddressOpensADevice() {
	t := s.T()
	p := s.openTimeline()
	address := eval[string](p, "location.href")
	assert.Contains(t, address, "device=node-1%2FGPU-a")
	p.click("#details .bar button")
	p.until(`!location.hash.includes("device=")`)
	p.run(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	p.until(`document.getElementById("details").open && document.querySelector("#details .timeline")`)
	assert.Equal(t, address, eval[string](p, "location.href"))
}

func (s *pageSuite) TestTheDetailsAreGrouped() {
	t := s.T()
	p := s.openTimeline()
	assert.Equal(t, []string{"Utilization and activity", "Memory", "Errors", "Links", "Throttling", "Power and temperature", "Memory in bytes", "XID codes", "Held by", "Signals that the exporter does not provide"},
		eval[[]string](p, `[...document.querySelectorAll("#details-body h3")].map(e => e.innerText)`))
	assert.LessOrEqual(t, eval[int](p, `Math.max(...[...document.querySelectorAll("#details-body table")].map(t => t.rows.length))`), 15, "no table lists all events")
}

func (s *pageSuite) TestCurveSpansTheStoredTime() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now() // read the clock once, so that the windows are consecutive even if the page is slow
	for i := range 5 {
		consume(t, e, newBatch(at.Add(time.Duration(i-4)*time.Minute), time.Minute).onNode("n").device("GPU-a").load(float64(i)/4, 0.5, 0).md)
	}
	p := s.open(base)
	p.until(rowCount + " === 1")
	box := `document.querySelector("tr.row svg").getAttribute("viewBox")`
	assert.Equal(t, "55 0 4 20", eval[string](p, box), "the last five points of sixty")
	consume(t, e, newBatch(at.Add(time.Minute), time.Minute).onNode("n").device("GPU-a").load(1, 0.5, 0).md)
	p.until(box + ` === "54 0 5 20"`)
}

func (s *pageSuite) TestSignalsThatWereAlways0AreListedInOneSentence() {
	t := s.T()
	p := s.openTimeline()
	text := eval[string](p, `document.getElementById("details").innerText`)
	assert.Contains(t, text, "Always 0: board limit, violation time; power brake, share of samples.")
	assert.NotContains(t, eval[[]string](p, `[...document.querySelectorAll("#details-body th")].map(e => e.innerText)`), "board limit, violation time")
}
