// Package bench compares the dcgm receiver and the components after it with the prometheus
// receiver, and its parser with other parsers of the same format. It contains only benchmarks. They
// are in a separate package because building the prometheus receiver takes a long time. Except in
// BenchmarkAgent and BenchmarkParser, the scraped exporter runs in the measured process, so its
// cost is included on both sides; test/benchcompare excludes it. `make bench` runs the benchmarks
// and prints the ratios. test/benchcompare/RESULTS.md describes the method.
package bench
