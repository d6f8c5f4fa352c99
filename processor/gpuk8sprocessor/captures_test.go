package gpuk8sprocessor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/processortest"

	"github.com/otelcol-gpu/otelcol-gpu/internal/componenthelper"
	"github.com/otelcol-gpu/otelcol-gpu/internal/points"
	"github.com/otelcol-gpu/otelcol-gpu/internal/signal"
	"github.com/otelcol-gpu/otelcol-gpu/processor/gpuk8sprocessor/internal/metadata"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/pointtest"
)

// NewSynthesizerFactory returns the factory for gpu_synthesizer. Only an external test package can
// set NewSynthesizerFactory, because gpu_synthesizer imports this package.
var NewSynthesizerFactory func() processor.Factory

// If labels are the only source, every container that the labels identify gets each series of its
// device exactly once.
func TestRecordedOutputs(t *testing.T) {
	t.Setenv(componenthelper.NodeNameEnv, "")
	for _, file := range expositiontest.DCGMRecordings(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			recorded, err := os.ReadFile(file)
			require.NoError(t, err)
			made := synthesized(t, recorded)
			// The synthesizer derives no signals from this recording.
			if filepath.Base(file) == "dra_gh200_mig.prom" {
				assert.Zero(t, made.DataPointCount())
				return
			}
			require.NotZero(t, made.DataPointCount())
			series := map[string]map[string]bool{} // series contains the keys of each device's series.
			named := map[[2]string]string{}        // named contains the board of each device, by host and hw.id.
			eachPoint(made, func(resource, attrs pcommon.Map, metric, key string) {
				id := text(attrs, signal.HardwareID)
				switch {
				case metric == signal.GPUDeviceHolder.Name:
					named[[2]string{pointtest.Text(resource, signal.HostName), id}] = text(attrs, signal.HardwareParent)
				case text(resource, signal.K8sPodName) == "":
					if series[id] == nil {
						series[id] = map[string]bool{}
					}
					series[id][key] = true
				}
			})

			p := newTestProcessor(t, "", processortest.NewNopSettings(metadata.Type))
			got, err := p.processMetrics(context.Background(), made)
			require.NoError(t, err)
			copies := map[[2]string]map[string]int{}
			holders := 0
			eachPoint(got, func(resource, attrs pcommon.Map, metric, key string) {
				if metric == signal.GPUDeviceHolder.Name {
					holders++
				}
				used := strings.HasPrefix(metric, "k8s.container.gpu.") // used is true if the metric measures the container's own usage.
				if !used && metric != signal.GPUDeviceHolder.Name && text(resource, signal.K8sPodName) != "" {
					k := [2]string{pointtest.Text(resource, signal.HostName), text(attrs, signal.HardwareID)}
					if copies[k] == nil {
						copies[k] = map[string]int{}
					}
					copies[k][key]++
				}
			})
			assert.Len(t, named, holders)
			for k, board := range named {
				assert.Len(t, copies[k], len(series[k[1]]), k)
				if board != "" {
					assert.Len(t, copies[[2]string{k[0], board}], len(series[board]), "the board of %v", k)
				}
			}
			for k, c := range copies {
				for key, n := range c {
					assert.Equal(t, 1, n, "%v %s", k, key)
				}
			}
		})
	}
}

// eachPoint calls f for each number data point. The key that eachPoint passes to f identifies a
// series of the device.
func eachPoint(md pmetric.Metrics, f func(resource, attrs pcommon.Map, metric, key string)) {
	own := map[string]bool{}
	for _, m := range signal.All() {
		for _, key := range m.Attributes {
			own[key] = true
		}
	}
	for p := range points.All(md) {
		key := p.Metric.Name()
		for k, v := range p.Attributes().All() {
			if own[k] {
				key += " " + k + "=" + v.AsString()
			}
		}
		f(p.Resource.Attributes(), p.Attributes(), p.Metric.Name(), key)
	}
}

// synthesized returns the output of gpu_synthesizer for the given Prometheus exposition text.
func synthesized(t *testing.T, recorded []byte) pmetric.Metrics {
	t.Helper()
	md := pmetric.NewMetrics()
	ms := md.ResourceMetrics().AppendEmpty().ScopeMetrics().AppendEmpty().Metrics()
	parser := textparse.NewPromParser(append(recorded, '\n'), labels.NewSymbolTable(), false)
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, v := parser.Series()
		var ls labels.Labels
		parser.Labels(&ls)
		m := ms.AppendEmpty()
		m.SetName(ls.Get(labels.MetricName))
		dp := m.SetEmptyGauge().DataPoints().AppendEmpty()
		dp.SetTimestamp(10e9)
		dp.SetDoubleValue(v)
		ls.Range(func(l labels.Label) {
			if !strings.HasPrefix(l.Name, "__") {
				dp.Attributes().PutStr(l.Name, l.Value)
			}
		})
	}
	f := NewSynthesizerFactory()
	sink := &consumertest.MetricsSink{}
	p, err := f.CreateMetrics(t.Context(), processortest.NewNopSettings(f.Type()), f.CreateDefaultConfig(), sink)
	require.NoError(t, err)
	require.NoError(t, p.ConsumeMetrics(t.Context(), md))
	require.NoError(t, p.Shutdown(context.Background()))
	if len(sink.AllMetrics()) == 0 {
		return pmetric.NewMetrics()
	}
	return sink.AllMetrics()[0]
}
