package main

// The name of a result consists of the package, the benchmark, and the unit, as printed by go test.
const (
	scrape      = "bench.BenchmarkScrape/"
	many        = "bench.BenchmarkScrapeMany/"
	parser      = "bench.BenchmarkParser/"
	agent       = "bench.BenchmarkAgent/"
	synthesizer = "gpusynthesizerprocessor.BenchmarkSynthesizer/"
	window      = "gpuwindowprocessor.Benchmark"
)

// The comparison type is a table row that compares our benchmark with a peer, which is another
// benchmark in the same run.
type comparison struct {
	what, ours, peer, unit string
	// The both field is the name of a benchmark whose cost is included in both results, or "" if
	// there is no such benchmark. That cost is subtracted from both results.
	both string
	// The most field is the target, which is the maximum ratio of our result to the peer's. 0 means
	// that there is no target.
	most float64
}

var comparisons = []comparison{
	{"CPU from scrape to pdata, `dcgm` compared with `prometheus`, including the exporter", scrape + "dcgm", scrape + "prometheus", "cpu-ns/sample", "", 1.0 / 8},
	{"the same, without the cost of HTTP, which is the same for both", scrape + "dcgm", scrape + "prometheus", "cpu-ns/sample", scrape + "http-at-intervals", 1.0 / 8},
	{"allocations from scrape to pdata, including the exporter", scrape + "dcgm", scrape + "prometheus", "allocs/sample", "", 1.0 / 10},
	{"bytes allocated from scrape to pdata, including the exporter", scrape + "dcgm", scrape + "prometheus", "B/sample", "", 0},
	{"CPU from scrape to pdata for ten exporters without a pause, including the exporters", many + "dcgm", many + "prometheus", "cpu-ns/sample", "", 1.0 / 8},
	{"CPU from scrape to windows, including the exporter, compared with the scrape of `prometheus`", scrape + "dcgm-synthesizer-window", scrape + "prometheus", "cpu-ns/sample", "", 1.0 / 2},
	{"allocations from scrape to windows, including the exporter", scrape + "dcgm-synthesizer-window", scrape + "prometheus", "allocs/sample", "", 0},
	{"parser, compared with `textparse`", parser + "exposition", parser + "textparse", "cpu-ns/sample", "", 0},
	{"parser, compared with `textparse` including labels", parser + "exposition", parser + "textparse-labels", "cpu-ns/sample", "", 0},
	{"parser, compared with `expfmt`", parser + "exposition", parser + "expfmt", "cpu-ns/sample", "", 0},
	{"agent as a process, CPU", agent + "windows", agent + "prometheus", "cpu-µs/scrape", "", 0},
	{"agent as a process, resident memory", agent + "windows", agent + "prometheus", "MiB-resident", "", 0},
	{"agent as a process, highest resident memory", agent + "windows", agent + "prometheus", "MiB-peak", "", 0},
}

// The alone type is a table row for a benchmark that has no peer.
type alone struct {
	what, of, unit string
	// The most field is the target, which is the maximum value. A negative value means that there
	// is no target.
	most float64
}

var alones = []alone{
	{"HTTP server and a client that discards the body, CPU", scrape + "http", "cpu-ns/sample", -1},
	{"the same at the receivers' scrape interval, CPU", scrape + "http-at-intervals", "cpu-ns/sample", -1},
	{"CPU from scrape to synthesizer, including the exporter", scrape + "dcgm-synthesizer", "cpu-ns/sample", -1},
	{"scrape to pdata without HTTP", "dcgmreceiver.BenchmarkScrapeToPdata", "cpu-ns/sample", -1},
	{"synthesizer, labels on Resources (`dcgm` receiver)", synthesizer + "LabelsOnResources", "cpu-ns/sample", -1},
	{"synthesizer, labels on points (`prometheus` receiver)", synthesizer + "LabelsOnPoints", "cpu-ns/sample", -1},
	{"windows with pdata", window + "ProcessorNodeScale", "cpu-ns/sample", -1},
	{"window engine, one node", window + "EngineNodeScale", "cpu-ns/sample", 150},
	{"window engine, one node, allocations per scrape", window + "EngineNodeScale", "allocs/op", 0},
	{"window engine, one node, heap", window + "EngineNodeScale", "B/series", 400},
	{"window engine, 10,000 series", window + "EngineCurve/10000", "cpu-ns/sample", -1},
	{"window engine, 10,000 series, heap", window + "EngineCurve/10000", "B/series", 400},
	{"window engine, 100,000 series", window + "EngineCurve/100000", "cpu-ns/sample", -1},
	{"window engine, 100,000 series, heap", window + "EngineCurve/100000", "B/series", 400},
	{"window engine, 1,000,000 series", window + "EngineCurve/1000000", "cpu-ns/sample", 250},
	{"window engine, 1,000,000 series, heap", window + "EngineCurve/1000000", "B/series", 400},
}
