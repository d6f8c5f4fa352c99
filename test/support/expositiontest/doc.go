// Package expositiontest makes the exposition bodies that tests and benchmarks
// of the dcgm receiver and its parser share.
package expositiontest
