package gpuviewexporter

import (
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// The windows method sends consecutive one-minute windows of two devices. For each window, the a
// and b parameters contain the utilization of GPU-a and GPU-b.
func (s *pageSuite) windows(e *viewExporter, from int, a, b []float64) {
	for i := range a {
		w := newBatch(now().Add(time.Duration(from+i)*time.Minute), time.Minute)
		w.onNode("n").device("GPU-a").load(a[i], 0.5, 0)
		w.onNode("n").device("GPU-b").load(b[i], 0.5, 0)
		consume(s.T(), e, w.md)
	}
}

func (s *pageSuite) TestRowsAreSortedByTheDisplayedNumbers() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	s.windows(e, -3, []float64{0.6, 0.6, 0.6}, []float64{0, 0, 0.9})
	p := s.open(base + "#sort=utilization")
	p.until(rowCount + " === 2")
	assert.Equal(t, []string{"GPU-b", "GPU-a"}, eval[[]string](p, devices), "0.9 is shown, whatever was before")
	s.windows(e, 0, []float64{0.7}, []float64{0.1})
	p.until(devices + `.join() === "GPU-a,GPU-b"`)
}

func (s *pageSuite) TestTheOrderStaysWhileThePointerIsOnTheTable() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	s.windows(e, -2, []float64{0.6}, []float64{0.1})
	p := s.open(base + "#sort=utilization")
	p.until(rowCount + " === 2")
	move := func(selector string) {
		at := eval[[]float64](p, `(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector("`+selector+`").getBoundingClientRect())`)
		p.run(input.DispatchMouseEvent(input.MouseMoved, at[0], at[1]).WithPointerType(input.Mouse))
	}
	move("#explain")
	move("tr.row")
	s.windows(e, -1, []float64{0}, []float64{1})
	p.until(cell(1, "utilization") + `.innerText.includes("100%")`)
	assert.Equal(t, []string{"GPU-a", "GPU-b"}, eval[[]string](p, devices), "numbers change, rows stay")
	assert.Contains(t, deviceCount(p), "order held under the pointer")

	p.run(chromedp.Evaluate(`document.querySelector('th[data-column="power"] button').click(); document.querySelector('th[data-column="utilization"] button').click()`, nil))
	assert.Equal(t, []string{"GPU-b", "GPU-a"}, eval[[]string](p, devices), "an explicit sort applies at once")
	s.windows(e, 0, []float64{1, 1}, []float64{0, 0})
	p.until(cell(0, "utilization") + `.innerText.startsWith("0%")`)
	move("#explain")
	p.until(devices + `.join() === "GPU-a,GPU-b"`)
	assert.NotContains(t, deviceCount(p), "held")
}

// The devices constant is a script that returns the device IDs of the visible rows.
const devices = visibleRows + `.map(r => r.dataset.device)`

func (s *pageSuite) TestPhoneShowsTheSortedColumnNextToTheDevice() {
	t := s.T()
	_, p := s.openFleet(8, false)
	const (
		second = `[...document.querySelectorAll("#head th, tr.row:not([hidden]) td")].filter(c => c.ariaColIndex === "2").map(c => c.dataset.column)`
		edge   = `document.querySelector('#head [data-column="memory"]').getBoundingClientRect().right <= innerWidth`
	)
	p.input("sort", "memory")
	assert.NotContains(t, eval[[]string](p, second), "memory", "a wide page has the columns in their order")
	p.run(chromedp.EmulateViewport(390, 800))
	p.until(`new Set(` + second + `).size === 1 && ` + second + `[0] === "memory"`)
	assert.True(t, eval[bool](p, edge), "it is visible without scrolling")
	p.input("sort", "power")
	assert.Equal(t, "power", eval[[]string](p, second)[0])
	p.input("sort", "node")
	assert.Equal(t, "node", eval[[]string](p, second)[0])
	p.run(chromedp.EmulateViewport(1280, 800))
	p.until(`document.querySelector('#head th:nth-child(4)').dataset.column === "utilization"`)
}
