// Package expositiontest makes the exposition bodies that tests and benchmarks
// of the receiver share.
package expositiontest
