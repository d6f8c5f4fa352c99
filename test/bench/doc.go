// Package bench compares the dcgm receiver and the components that follow it with the prometheus
// receiver. The package also compares the dcgm receiver's parser with other parsers of the same
// format. It contains only benchmarks. The benchmarks are in a separate package because building
// the prometheus receiver takes a long time. Except in BenchmarkAgent and BenchmarkParser, the
// scraped exporter runs in the measured process, so the results of both receivers include the
// exporter's cost. The results of test/benchcompare exclude that cost. `make bench` runs the
// benchmarks and prints the ratios. test/benchcompare/RESULTS.md describes the methodology.
package bench
