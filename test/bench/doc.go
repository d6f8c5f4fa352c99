// Package bench measures the dcgm receiver, and what stands behind it,
// beside the prometheus receiver and other parsers of the same text. It holds
// benchmarks only, in a package of its own because the prometheus receiver takes
// long to build. In all but BenchmarkAgent and BenchmarkParser the exporter that is
// scraped runs in the process that is measured, so that both sides pay for it;
// test/benchcompare charges it to nobody. `make bench` runs them and prints the ratios;
// test/benchcompare/RESULTS.md has the method.
package bench
