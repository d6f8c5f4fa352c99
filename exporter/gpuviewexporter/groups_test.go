package gpuviewexporter

import (
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// groupRows are the rows of the dialog's first table, cells by bars, lines of a cell by semicolons.
const groupRows = `[...document.querySelector("#groups-body table").tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText.trim().replace(/\s*\n\s*/g, ";")).join("|"))`

func (s *pageSuite) TestDevicesAreGroupedByWorkloadWithTheOneThatDiffersMost() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	for i, busy := range []float64{0.9, 0.8, 0.1} {
		worker := []string{"worker-0", "worker-1", "worker-2"}[i]
		node := []string{"node-a", "node-a", "node-b"}[i]
		b := newBatch(now(), time.Minute)
		b.on(node).device("GPU-"+worker, signal.HardwareName, "nvidia"+worker[7:]).load(busy, 0.5, 0)
		b.made("PyTorchJob", "llama").on(node, "research", worker, "torch").device("GPU-"+worker).put(signal.UtilizationAvg, busy)
		consume(t, e, b.md)
	}
	consume(t, e, newBatch(now(), time.Minute).on("node-b").device("GPU-free").load(0, 0, 0).md)
	p := s.open(base)
	p.until(rowCount + " === 4")
	p.click("#by")
	p.until(`document.querySelectorAll("#groups-body tbody tr").length === 2`)
	rows := eval[[]string](p, groupRows)
	assert.True(t, strings.HasPrefix(rows[0], "research/PyTorchJob llama|3;2 nodes|0%|60%;10% · 80% · 90%;node-b/nvidia2 10%|"), rows[0])
	assert.True(t, strings.HasPrefix(rows[1], "nobody holds them|1;1 node|100%|0%|0%|"), rows[1])
	assert.Contains(t, eval[string](p, `document.getElementById("groups-body").innerText`), "A deviation is no verdict")

	p.input("group", "node")
	p.until(groupRows + `[0].startsWith("node-a|2")`)
	p.input("group", "namespace")
	p.until(groupRows + `[0].startsWith("research|3")`)
	p.input("group", "workload")
	p.click("#groups-body .link")
	p.until(`!document.getElementById("groups").open`)
	assert.Equal(t, "3 of 4 boards", shownOf(p), "a group shows its devices")
}

func (s *pageSuite) TestABoardInInstancesIsGroupedByInstance() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	consume(t, e, fleet(now(), time.Minute, 16, true))
	p := s.open(base)
	p.until(rowCount + " > 0")
	p.click("#by")
	p.input("group", "node")
	// 16 boards of which two are cut, into six instances.
	p.until(`document.querySelectorAll("#groups-body tbody tr").length === 2`)
	assert.Equal(t, 20.0, eval[float64](p, groupRows+`.map(r => parseInt(r.split("|")[1])).reduce((a, b) => a + b)`))
}

func (s *pageSuite) TestWhoHadMostIdleGPUTimeIsListedFirst() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	for i, idle := range []float64{0, 60} {
		b := newBatch(now().Add(time.Duration(i-1)*time.Minute), time.Minute)
		for pod, busy := range map[string]float64{"trains": 1, "sleeps": 0} {
			b.on("n").device("GPU-"+pod).load(busy, 0.5, 0)
			b.on("n", pod+"-team", pod, "main").device("GPU-"+pod).put(signal.UtilizationAvg, busy).
				put(signal.K8sContainerGPUAllocatedTime, 3600*float64(i), "false").
				put(signal.K8sContainerGPUIdleTime, 60*idle*(1-busy), "false")
		}
		consume(t, e, b.md)
	}
	p := s.open(base)
	p.until(rowCount + " === 2")
	p.click("#by")
	p.input("group", "namespace")
	p.until(`document.querySelectorAll("#groups-body table")[1]?.tBodies[0].rows[0].cells[0].innerText === "sleeps-team"`)
	waste := eval[[]string](p, `[...document.querySelectorAll("#groups-body table")[1].tBodies[0].rows].map(r => [...r.cells].map(c => c.innerText).join("|"))`)
	require.Len(t, waste, 2)
	assert.Regexp(t, `^sleeps-team\|1.00\|1.00\|100%\|\d\d:\d\d:\d\d$`, waste[0])
	assert.Equal(t, "trains-team|1.00|0.00|0%|–", waste[1])
}
