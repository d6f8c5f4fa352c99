// Package comparison measures the dcgm receiver beside the prometheus receiver.
// It holds a benchmark only, in a package of its own because the prometheus
// receiver takes long to build:
//
//	go test -tags remove_all_sd -run '^$' -bench . ./receiver/dcgmreceiver/internal/comparison
package comparison
