package gpuviewexporter

import (
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

const (
	mapShown = `!document.getElementById("map").hidden`
	mapCells = `[...document.querySelectorAll("#map i")]`
)

func (s *pageSuite) TestAFleetHasAMapOfNodesAndBoards() {
	t := s.T()
	_, p := s.openFleet(80, true)
	assert.True(t, eval[bool](p, mapShown))
	p.until(mapCells + `.length === 80 && document.querySelectorAll("#lines > div").length === 10`)
	p.input("sort", "utilization")
	p.until(mapCells + `.some(c => c.className === "u4") && ` + mapCells + `.some(c => c.title.includes("Utilization"))`)
	color := eval[string](p, `getComputedStyle(`+mapCells+`.find(c => c.className === "u4")).backgroundColor`)
	assert.NotEqual(t, "rgba(0, 0, 0, 0)", color)

	p.run(chromedp.Evaluate(`[...document.querySelectorAll("#map button")].find(b => b.textContent === "gpu-node-03").click()`, nil))
	p.until(`document.getElementById("count").value.startsWith("8 of 80 boards")`)
	p.until(mapCells + `.filter(c => c.className === "off").length === 72`) // The other boards are still visible, but in a pale color.
	p.click(`#map i:not(.off)`)
	p.until(`document.getElementById("details").open`)
	p.click("#details .bar button")
	p.click("#mapped")
	assert.False(t, eval[bool](p, mapShown))
	assert.Contains(t, eval[string](p, "location.hash"), "map=off")
}

func (s *pageSuite) TestSmallFleetHasAMapOnRequest() {
	t := s.T()
	e, p := s.openFleet(8, false)
	assert.False(t, eval[bool](p, mapShown))
	p.click("#mapped")
	assert.True(t, eval[bool](p, mapShown))
	p.until(mapCells + `.length === 8`)
	consume(t, e, newBatch(now().Add(time.Minute), time.Minute).onNode("another").device("GPU-new").load(0.5, 0.5, 0.9).md)
	p.until(mapCells + `.length === 9 && ` + mapCells + `.some(c => c.title.startsWith("GPU-new: Throttled 90%"))`)
	assert.Equal(t, "s4", eval[string](p, mapCells+`.find(c => c.title.startsWith("GPU-new")).className`))
	p.until(`[...document.querySelectorAll("#map button")].some(b => b.title === "1 board, Throttled up to 90%")`)
}
