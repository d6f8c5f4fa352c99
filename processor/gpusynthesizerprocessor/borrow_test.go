package gpusynthesizerprocessor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
)

// The node runs two exporters from different DaemonSets, but only one of the exporters maps GPUs to
// pods.
func TestHoldersAreReadFromTheExporterThatNamesThem(t *testing.T) {
	named := func(url string, from, until, lag int64, pod string) (out []delivery) {
		for s := from; s < until; s += 15 {
			text := exposed(s, lag)
			if pod != "" {
				text = strings.ReplaceAll(text, `Hostname="n"`, `Hostname="n",namespace="ns",pod="`+pod+`",container="c"`)
			}
			out = append(out, scraped(t, s, url, text))
		}
		return out
	}
	const settled = 60
	alone := newPipeline(t)
	alone.play(named(urlA, 3, 900, 0, ""))
	holders := func(p *pipeline, from, until int64) (pods []string) {
		for _, l := range p.lines(signal.GPUDeviceHolder.Name, from) {
			var at int64
			_, err := fmt.Sscanf(strings.TrimSpace(l), "%ds", &at)
			require.NoError(t, err)
			_, pod, _ := strings.Cut(l, "k8s.pod.name=")
			if pod, _, _ = strings.Cut(pod, "}"); at < until && !slices.Contains(pods, pod) {
				pods = append(pods, pod)
			}
		}
		return pods
	}
	count := func(p *pipeline, metric string, from, until int64) int {
		return len(p.lines(metric, from)) - len(p.lines(metric, until))
	}
	for name, offset := range map[string]int64{"the kept one first": 10, "the other one first": 1} {
		t.Run(name, func(t *testing.T) {
			both := newPipeline(t)
			other := slices.Concat(named(urlB, offset, 300, 20, "p"), named(urlB, 300+offset, 600, 20, "q"), []delivery{gone(601, urlB)})
			both.play(other, named(urlA, 3, 900, 0, ""))
			keep := func(p *pipeline) []string {
				return without(without(p.lines("", settled), "hw.errors"), signal.GPUDeviceHolder.Name)
			}
			assert.Equal(t, keep(alone), keep(both), "the samples are from one exporter")
			assert.Equal(t, []string{"p"}, holders(both, settled, 300))
			assert.Equal(t, []string{"q"}, holders(both, 330, 600))
			assert.Empty(t, holders(both, 620, 900), "holders that a removed exporter named are unknown")
			temperature := signal.HwTemperature.Name
			assert.Equal(t, count(both, temperature, settled, 600), count(both, signal.GPUDeviceHolder.Name, settled, 600), "every scrape has the holder")
		})
	}
	t.Run("the kept one's own names go first", func(t *testing.T) {
		both := newPipeline(t)
		both.play(named(urlB, 10, 300, 20, "p"), named(urlA, 3, 300, 0, "q"))
		assert.Equal(t, []string{"q"}, holders(both, settled, 300))
	})
}
