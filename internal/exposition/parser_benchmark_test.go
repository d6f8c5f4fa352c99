package exposition

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/otelcol-gpu/otelcol-gpu/test/support/expositiontest"
)

// BenchmarkParse parses the output of a large node with a warm cache, which is the case in every
// scrape except the first.
func BenchmarkParse(b *testing.B) {
	body := expositiontest.Node(8, 7)
	p := NewParser()
	samples := p.Parse(body).Samples
	require.Equal(b, 8*7*expositiontest.FieldCount, samples)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p.Parse(body)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
}

// BenchmarkParseShuffled simulates shuffled lines: the parser has to look up every series by its
// hash.
func BenchmarkParseShuffled(b *testing.B) {
	body := expositiontest.Node(8, 7)
	p := NewParser()
	samples := p.Parse(body).Samples
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range p.texts {
			s.next = nil
		}
		p.Parse(body)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(samples), "ns/sample")
}

// BenchmarkParseCold parses the output of a large node with an empty cache.
func BenchmarkParseCold(b *testing.B) {
	body := expositiontest.Node(8, 7)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		NewParser().Parse(body)
	}
}
