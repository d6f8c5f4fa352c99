// Package bench compares the dcgm receiver and the components after it with the prometheus receiver
// and with other parsers of the same text. It contains only benchmarks; it is a package of its own
// because the prometheus receiver takes long to build. Except in BenchmarkAgent and
// BenchmarkParser, the scraped exporter runs in the measured process, so both sides pay for it;
// test/benchcompare excludes its cost. `make bench` runs the benchmarks and prints the ratios;
// test/benchcompare/RESULTS.md describes the method.
package bench
