// Package expositiontest generates exposition bodies for tests and benchmarks of the dcgm receiver
// and its parser.
package expositiontest
