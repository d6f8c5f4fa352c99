package gpuviewexporter

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

func (s *pageSuite) TestHoldersOutsideKubernetesAreNamed() {
	t := s.T()
	e, base := serve(t, nop(), func(cfg *Config) { cfg.StatsSummary = true })
	b := newBatch(now(), time.Minute)
	id := strings.Repeat("0123456789abcdef", 4)
	for gpu, holder := range map[string]map[string]string{
		"GPU-1": {signal.HPCJobID: "4711"}, "GPU-2": {signal.ContainerName: "ollama.service"}, "GPU-3": {signal.ContainerID: id},
	} {
		b.onNode("n").device(gpu).load(0.5, 0.5, 0).onNode("n").device(gpu)
		for k, v := range holder {
			b.rm.Resource().Attributes().PutStr(k, v)
		}
		b.load(0.5, 0.5, 0)
	}
	consume(t, e, b.md)
	for aggregate, want := range map[string][]string{
		"container": {"0123456789ab", "job 4711", "ollama.service"}, "pod": {"0123456789ab", "job 4711", "ollama.service"},
		"workload": {"0123456789ab", "job 4711", "ollama.service"}, "namespace": {"__unallocated__"},
	} {
		status, _, body := get(t, base+"/allocation?aggregate="+aggregate)
		require.Equal(t, http.StatusOK, status)
		var answer struct{ Data []map[string]any }
		require.NoError(t, json.Unmarshal(body, &answer))
		require.Len(t, answer.Data, 1)
		assert.Equal(t, want, slices.Sorted(maps.Keys(answer.Data[0])), aggregate)
	}
	_, _, summary := get(t, base+"/stats/summary?node=n")
	assert.NotContains(t, summary, "4711", "the summary only has pods")

	p := s.open(base)
	p.until(rowCount + " === 3")
	p.input("sort", "node")
	assert.Equal(t, []string{"job 4711", "ollama.service", "0123456789ab"}, []string{
		eval[string](p, cell(0, "holders")+`.innerText.trim()`), eval[string](p, cell(1, "holders")+`.innerText.trim()`), eval[string](p, cell(2, "holders")+`.innerText.trim()`),
	})
	p.click(`[aria-rowindex="2"] td`)
	p.until(`document.querySelector("#details .holder span")?.innerText.startsWith("job 4711 · ")`)
}

func TestAllocationsAreGroupedByPodLabel(t *testing.T) {
	e, base := serve(t, nop(), nil)
	b := newBatch(now(), time.Minute)
	for pod, team := range map[string]string{"a": "vision", "b": "vision", "c": "speech", "d": ""} {
		b.onNode("n").device("GPU-"+pod).load(0.5, 0.5, 0).onNode("n", "ns", pod, "main").device("GPU-" + pod)
		if team != "" {
			b.rm.Resource().Attributes().PutStr(signal.K8sPodLabelPrefix+"example.com/team", team)
		}
		b.load(0.5, 0.5, 0)
	}
	consume(t, e, b.md)
	for _, key := range []string{"example.com/team", "example_com_team"} {
		status, _, body := get(t, base+"/allocation?aggregate=label:"+key)
		require.Equal(t, http.StatusOK, status)
		var answer struct {
			Data []map[string]struct{ GPUDevices []any }
		}
		require.NoError(t, json.Unmarshal(body, &answer))
		devices := map[string]int{}
		for team, a := range answer.Data[0] {
			devices[team] = len(a.GPUDevices)
		}
		assert.Equal(t, map[string]int{"vision": 2, "speech": 1, "__unallocated__": 1}, devices, key)
	}
}
