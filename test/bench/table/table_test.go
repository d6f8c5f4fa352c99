package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const output = `goos: linux
pkg: example.com/test/bench
BenchmarkScrape/dcgm-2            40   250000000 ns/op   500.0 cpu-ns/sample   0.5 allocs/sample
BenchmarkScrape/dcgm-2            40   250000000 ns/op   700.0 cpu-ns/sample   3 allocs/sample
BenchmarkScrape/dcgm-2            40   250000000 ns/op   400.0 cpu-ns/sample   0.5 allocs/sample
BenchmarkScrape/prometheus-2      40   250000000 ns/op   4500 cpu-ns/sample   4 allocs/sample
BenchmarkScrape/http-at-intervals-2   40   250000000 ns/op   100.0 cpu-ns/sample   0.1 allocs/sample
PASS
ok  	example.com/test/bench	1.2s
pkg: example.com/processor/gpuwindowprocessor
BenchmarkEngineNodeScale-2         5000   200000 ns/op   160 cpu-ns/sample   0 allocs/op
BenchmarkEngineCurve/1000000-2        5   200000 ns/op   210.4 cpu-ns/sample
BenchmarkEngineCurve/1000000-2        5   200000 ns/op   190 cpu-ns/sample
`

func TestTablesOfTheMediansWithRatiosAndTargets(t *testing.T) {
	f, err := read(strings.NewReader(output))
	require.NoError(t, err)
	assert.Equal(t, `
| compared with a peer in the same run | unit | ours | peer | ratio | target |
|---|---|--:|--:|--:|---|
| CPU from scrape to pdata, `+"`dcgm` compared with `prometheus`"+`, including the exporter | cpu-ns/sample | 500 | 4500 | 1/9 | ≤ 1/8, met |
| the same, without the cost of HTTP, which is the same for both | cpu-ns/sample | 400 | 4400 | 1/11 | ≤ 1/8, met |
| allocations from scrape to pdata, including the exporter | allocs/sample | 0.5 | 4 | 1/8 | ≤ 1/10, **missed** |

| alone | unit | median | lowest | highest | target |
|---|---|--:|--:|--:|---|
| the same at the receivers' scrape interval, CPU | cpu-ns/sample | 100 | 100 | 100 |  |
| window engine, one node | cpu-ns/sample | 160 | 160 | 160 | ≤ 150, **missed** |
| window engine, one node, allocations per scrape | allocs/op | 0 | 0 | 0 | ≤ 0, met |
| window engine, 1,000,000 series | cpu-ns/sample | 200 | 190 | 210 | ≤ 250, met |
`, tables(f))
}

// Results are looked up by the last element of the package path, which is the directory name.
func TestTheComparisonIsFoundByItsDirectory(t *testing.T) {
	dir, err := filepath.Abs("..")
	require.NoError(t, err)
	for _, name := range []string{scrape, many, parser, agent} {
		assert.Equal(t, filepath.Base(dir), strings.SplitN(name, ".", 2)[0], name)
	}
}

func TestBenchmarksThatDidNotRunAreOmitted(t *testing.T) {
	f, err := read(strings.NewReader("PASS\nok  \texample.com/x\t0.1s\n"))
	require.NoError(t, err)
	assert.Empty(t, tables(f))
}

func TestNumbersAreShort(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.004: "0", 0.125: "0.12", 3.5: "3.5", 8: "8", 47.26: "47.3", 100: "100", 123.456: "123", 4300: "4300",
	} {
		assert.Equal(t, want, number(value))
	}
	assert.Equal(t, "1/8.6", fraction(1/8.6))
	assert.Equal(t, "1.2", fraction(1.2))
}
