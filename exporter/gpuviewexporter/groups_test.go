package gpuviewexporter

import (
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// groupRows is a script that returns the rows of the first table in the dialog. Cells are separated
// by vertical bars, and the lines within a cell are separated by semicolons.
const groupRows = `[...document.querySelector("#groups-body table").tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText.trim().replace(/\s*\n\s*/g, ";")).join("|"))`

func (s *pageSuite) TestDevicesAreGroupedByWorkloadWithTheOneThatDiffersMost() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	for i, busy := range []float64{0.9, 0.8, 0.1} {
		worker := []string{"worker-0", "worker-1", "worker-2"}[i]
		node := []string{"node-a", "node-a", "node-b"}[i]
		b := newBatch(at, time.Minute)
		b.onNode(node).device("GPU-"+worker, signal.HardwareName, "nvidia"+worker[7:]).load(busy, 0.5, 0)
		b.ownedBy("PyTorchJob", "llama").onNode(node, "research", worker, "torch").device("GPU-"+worker).addPoint(signal.UtilizationAvg, busy)
		consume(t, e, b.md)
	}
	consume(t, e, newBatch(at, time.Minute).onNode("node-b").device("GPU-free").load(0, 0, 0).md)
	p := s.open(base)
	p.until(rowCount + " === 4")
	p.click("#by")
	p.until(`document.querySelectorAll("#groups-body tbody tr").length === 2`)
	rows := eval[[]string](p, groupRows)
	assert.True(t, strings.HasPrefix(rows[0], "research/PyTorchJob llama|3;2 nodes|0%|60%;10% · 80% · 90%;node-b/nvidia2 10%|"), rows[0])
	assert.True(t, strings.HasPrefix(rows[1], "no holder|1;1 node|100%|0%|0%|"), rows[1])
	assert.Contains(t, eval[string](p, `document.getElementById("groups-body").innerText`), "A deviation is no verdict")

	p.input("group", "node")
	p.until(groupRows + `[0].startsWith("node-a|2")`)
	p.input("group", "namespace")
	p.until(groupRows + `[0].startsWith("research|3")`)
	p.input("group", "workload")
	p.click("#groups-body tbody .link")
	p.until(`!document.getElementById("groups").open`)
	assert.Equal(t, "3 of 4 boards", deviceCount(p), "a group shows its devices")
}

// When a dialog is closed, the browser dispatches the close event in a separate task, and a new
// window may arrive before that task runs.
func (s *pageSuite) TestGroupsThatWereClosedStayClosed() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	window := func(i int) {
		consume(t, e, newBatch(at.Add(time.Duration(i)*time.Second), time.Minute).onNode("n").device("GPU-1").load(float64(i)/10, 0.5, 0).md)
	}
	window(1)
	p := s.open(base)
	p.until(rowCount + " === 1")
	p.run(chromedp.Evaluate(`window.addEventListener("close", (e) => e.stopImmediatePropagation(), {capture: true})`, nil))
	p.click("#by")
	p.until(`document.querySelector("#groups-body td")`)
	p.click("#groups .bar button")
	before := eval[string](p, `document.getElementById("window").textContent`)
	window(2)
	p.until(fmt.Sprintf(`document.getElementById("window").textContent !== %q`, before))
	p.painted()
	assert.False(t, eval[bool](p, `document.getElementById("groups").open`))
}

func (s *pageSuite) TestPartitionedBoardIsGroupedByInstance() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	consume(t, e, fleet(now(), time.Minute, 16, true))
	p := s.open(base)
	p.until(rowCount + " > 0")
	p.click("#by")
	p.input("group", "node")
	// Two of the 16 boards are partitioned and have a total of six instances.
	p.until(`document.querySelectorAll("#groups-body tbody tr").length === 2`)
	assert.Equal(t, 20.0, eval[float64](p, groupRows+`.map(r => parseInt(r.split("|")[1])).reduce((a, b) => a + b)`))
}

func (s *pageSuite) TestGroupsWithMostIdleGPUTimeAreListedFirst() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	at := now()
	// The pods of one team are idle. One pod is idle for half an hour, and the other pod is idle
	// for an hour. The other team trains.
	for i := range 3 {
		b := newBatch(at.Add(time.Duration(i-2)*time.Hour/2), time.Minute)
		for pod, busy := range map[string][]float64{"trains": {1, 1, 1}, "sleeps-long": {0, 0, 0}, "sleeps": {0, 1, 0}} {
			b.onNode("n").device("GPU-"+pod).load(busy[i], 0.5, 0)
			b.onNode("n", pod[:6]+"-team", pod, "main").device("GPU-"+pod).addPoint(signal.UtilizationAvg, busy[i])
			used := 0.0
			for _, v := range busy[1 : i+1] {
				used += 1800 * v
			}
			b.addPoint(signal.K8sContainerGPUAllocatedTime, 1800*float64(i), "false").addPoint(signal.K8sContainerGPUActiveTime, used, "false").
				addPoint(signal.K8sContainerGPUIdleTime, 1800*float64(i)-used, "false").
				addPoint(signal.K8sContainerGPUCost, float64(i), "false", "EUR").addPoint(signal.K8sContainerGPUCostIdle, float64(i)-used/1800, "false", "EUR")
		}
		consume(t, e, b.md)
	}
	p := s.open(base)
	p.until(rowCount + " === 3")
	p.click("#by")
	p.input("group", "namespace")
	const rows = `[...document.querySelectorAll("#groups-waste table")].map(t => [...t.tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText).join("|")))`
	p.until(rows + `[0]?.[0].startsWith("sleeps-team|")`)
	waste := eval[[][]string](p, rows)
	require.Len(t, waste, 2)
	since := pageTime(p, at.Add(-time.Hour/2)) + ", 30 min"
	assert.Equal(t, []string{
		"sleeps-team|2.00|0.50|1.50|75%|4.00|3.00|" + since,
		"trains-team|1.00|1.00|0.00|0%|2.00|0.00|–",
		"all|3.00|1.50|1.50|50%|6.00|3.00|",
	}, waste[0], "parts add up")
	assert.Contains(t, eval[string](p, `document.querySelector("#groups-waste thead").innerText`), "Idle cost, EUR")
	assert.Equal(t, []string{
		"sleeps-team/sleeps-long|" + pageTime(p, at.Add(-time.Hour)) + ", 60 min|1|1.00|2.00",
		"sleeps-team/sleeps|" + since + "|1|0.50|1.00",
	}, waste[1], "who is idle for longest is first")
	p.input("group", "workload")
	p.until(rows + `[0]?.[0].startsWith("sleeps-team/sleeps-long|1.00|0.00|1.00|100%|2.00|2.00|")`)
	p.click("#groups-waste tbody .link")
	p.until(`!document.getElementById("groups").open`)
	assert.Equal(t, "1 of 3 boards", deviceCount(p))
}

func (s *pageSuite) TestGroupOrderIsSelectableAndPartOfTheAddress() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute)
	for name, busy := range map[string]float64{"a": 0.1, "b": 0.9} {
		for i := range map[string]int{"a": 2, "b": 1}[name] {
			id := fmt.Sprintf("GPU-%s%d", name, i)
			b.onNode("n").device(id).load(busy, 0.5, 0).addPoint(signal.GPUClockFrequency, 1.98e9*busy, signal.DomainSM)
			b.onNode("n", "team", "pod-"+name, "main").device(id).addPoint(signal.UtilizationAvg, busy)
		}
	}
	consume(t, e, b.md)
	p := s.open(base + "#groups=workload")
	p.until(`document.getElementById("groups").open && document.querySelector("#groups-now td")`)
	first := func() string { return eval[string](p, groupRows+"[0]") }
	assert.Equal(t, "team/pod-a|2;1 node|0%|10%;10% · 10% · 10%|9.0%;9.0% · 9.0% · 9.0%|198 MHz;198 · 198 · 198 MHz|146 W;146 · 146 · 146 W|0%;0% · 0% · 0%", first())
	p.click(`#groups thead [data-by="2"]`)
	p.until(groupRows + `[0] === "team/pod-b|1;1 node|0%|90%|81%|1782 MHz|594 W|0%"`)
	assert.Equal(t, "true", eval[string](p, `document.querySelector('#groups thead [data-by="2"]').ariaPressed`))
	p.focus(`#groups thead [data-by="1"]`)
	p.run(chromedp.KeyEvent(kb.Enter))
	p.until(`document.activeElement.dataset.by === "1" && document.activeElement.ariaPressed === "true"`)
	p.click("#groups .bar button")
	p.until(`!location.hash.includes("groups=")`)
	p.input("search", "pod-a")
	p.click("#by")
	p.until(groupRows + `.length === 1`) // only devices that match the filter are grouped
}

func (s *pageSuite) TestTheDeviceThatDiffersMostOpens() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute)
	for i, busy := range []float64{0.9, 0.9, 0.2} {
		b.onNode("n").device(fmt.Sprintf("GPU-%d", i), signal.HardwareName, fmt.Sprintf("nvidia%d", i)).load(busy, 0.5, 0)
	}
	consume(t, e, b.md)
	p := s.open(base + "#groups=node")
	p.until(`document.querySelector("#groups-now .link.sub")`)
	assert.Equal(t, "Utilization differs most from the median here", eval[string](p, `document.querySelector("#groups-now .link.sub").title`))
	p.click("#groups-now .link.sub")
	p.until(`document.getElementById("details").open && document.getElementById("details-title").innerText === "nvidia2 on n"`)
	assert.NotContains(t, eval[string](p, "document.body.innerText"), "straggler")
}
