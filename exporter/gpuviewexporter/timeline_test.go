package gpuviewexporter

import (
	"fmt"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// openTimeline opens the details of a device that was throttled, moved to another pod after a gap, and had
// an XID error.
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
		b := newBatch(end, time.Minute).on("node-1").device("GPU-a").load(busy, 0.6, max(0, busy-0.5))
		for code, n := range map[string]float64{"xid_48": float64(i / 40), "xid_13": float64(i / 55 * 3)} {
			b.put(signal.HwErrors, n, code).counted(at.Add(-2 * time.Hour))
		}
		b.on("node-1", "team", pod, "main").device("GPU-a").put(signal.GPUDeviceHolder, 1).put(signal.UtilizationAvg, busy)
		consume(t, e, b.md)
	}
	p := s.open(base)
	p.until(`document.querySelectorAll("tr.row:not([hidden])").length > 0`)
	p.click("tr.row td")
	p.until(`document.querySelector("#details .timeline .holder")`)
	return p
}

func (s *pageSuite) TestTheDetailsHaveATimelineWithAxesAndWhatHappened() {
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

	p.do(chromedp.Focus("#details .timeline", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	assert.Regexp(t, `: utilization 95%, memory 60%, throttled 45%, power 622 W, temperature 73 °C$`, texts(".readout")[0])
	for range 25 {
		p.do(chromedp.KeyEvent(kb.ArrowLeft))
	}
	assert.Regexp(t, `: not observed$`, texts(".readout")[0])
}

func (s *pageSuite) TestTheAddressOpensADevice() {
	t := s.T()
	p := s.openTimeline()
	address := eval[string](p, "location.href")
	assert.Contains(t, address, "device=node-1%2FGPU-a")
	p.click("#details .bar button")
	p.until(`!location.hash.includes("device=")`)
	p.do(chromedp.Navigate("about:blank"), chromedp.Navigate(address))
	p.until(`document.getElementById("details").open && document.querySelector("#details .timeline")`)
	assert.Equal(t, address, eval[string](p, "location.href"))
}

func (s *pageSuite) TestWhatWasAlways0IsSaidInOneSentence() {
	t := s.T()
	p := s.openTimeline()
	text := eval[string](p, `document.getElementById("details").innerText`)
	assert.Contains(t, text, "Always 0: board limit, violation time; power brake, share of samples.")
	assert.NotContains(t, eval[[]string](p, `[...document.querySelectorAll("#details-body th")].map(e => e.innerText)`), "board limit, violation time")
}
