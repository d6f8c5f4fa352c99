package bench

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/internal/exposition"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/cpumeter"
	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// BenchmarkParser parses the reference load the way the dcgm receiver parses every scrape of an
// endpoint after the first. The benchmark compares the dcgm receiver's parser with the prometheus
// receiver's parser and with the parser in Prometheus' common library. The prometheus receiver's
// parser runs with and without building the labels of each series, because that receiver builds
// them only for new series and then caches them.
func BenchmarkParser(b *testing.B) {
	body := expositiontest.Node(gpus, instances)
	ours := exposition.NewParser()
	for _, parser := range []struct {
		name  string
		parse func() int
	}{
		{"exposition", func() int { return ours.Parse(body).Samples }},
		{"textparse", func() int { return textParse(b, body, false) }},
		{"textparse-labels", func() int { return textParse(b, body, true) }},
		{"expfmt", func() int {
			text := expfmt.NewTextParser(model.UTF8Validation)
			families, err := text.TextToMetricFamilies(bytes.NewReader(body))
			require.NoError(b, err)
			n := 0
			for _, family := range families {
				n += len(family.GetMetric())
			}
			return n
		}},
	} {
		b.Run(parser.name, func(b *testing.B) {
			require.Equal(b, samplesPerScrape, parser.parse())
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var cpu cpumeter.Meter
			cpu.Start(b)
			for b.Loop() {
				parser.parse()
			}
			cpu.Stop(b)
			cpu.Report(b, samplesPerScrape)
		})
	}
}

func textParse(b *testing.B, body []byte, withLabels bool) int {
	b.Helper()
	p := textparse.NewPromParser(body, labels.NewSymbolTable(), false)
	n := 0
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			b.Fatal(err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		p.Series()
		if withLabels {
			var ls labels.Labels
			p.Labels(&ls)
		}
		n++
	}
}
