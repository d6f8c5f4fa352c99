// Package expositiontest generates response bodies in the exposition format for tests and
// benchmarks of the dcgm receiver and its parser.
package expositiontest
