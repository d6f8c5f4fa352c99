package gpuviewexporter

import (
	"slices"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func (s *pageSuite) TestADeviceWithAFindingIsMarkedAndIsAProblem() {
	t := s.T()
	e, base := serve(t, nop(), nil)
	rules := slices.Sorted(slices.Values(signal.Values(signal.Finding)))
	b := newBatch(now(), time.Minute)
	b.onNode("n").device("fine").load(0.5, 0.5, 0).addPoint(signal.GPUFinding, 0, "spinning")
	for _, rule := range rules {
		b.onNode("n").device(rule).load(0.5, 0.5, 0).addPoint(signal.GPUFinding, 1, rule)
	}
	b.onNode("n").device("unjudged").load(0.5, 0.5, 0)
	consume(t, e, b.md)
	p := s.open(base + "#sort=node&order=ascending")
	p.until(rowCount + " === 7")
	words := map[string]string{}
	for row, device := range eval[[]string](p, firstColumn) {
		words[device] = eval[string](p, cell(row, "finding")+`.querySelector(".main")?.textContent ?? "-"`)
	}
	assert.Equal(t, map[string]string{
		"fine": "none", "spinning": "kernels wait", "latched_utilization": "utilization not true", "slow_device": "slows its job",
		"memory_degrading": "memory fails", "frozen_telemetry": "values do not change", "unjudged": words["unjudged"],
	}, words)
	assert.Contains(t, words["unjudged"], "not observed")
	p.click("#problems")
	assert.Equal(t, rules, eval[[]string](p, firstColumn))
}
