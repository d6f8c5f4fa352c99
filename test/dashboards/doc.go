// Package dashboards checks everything in examples/ that shows our metrics to users: the Grafana
// dashboards, the Prometheus alerts, the pipelines for backends, and the demand gate. These files
// must use only names from the output contract, docs/signals.md.
//
// Most checks only compare the names in queries with the contract and do not start any processes.
// If OTELCOL_GPU_BIN (the directory of the built commands) and OTELCOL_GPU_PROMETHEUS (a prometheus
// binary) are set, the queries also run against a Prometheus server that receives the collector's
// output. The tests of alerts and dashboards then also use a real API server (see
// test/support/controlplane). No series on the Prometheus server are written by hand. The pictures
// in docs/dashboards are drawn from the query results:
//
//	go test ./test/dashboards -run TestEveryQueryHasDataInARealPrometheus -update
//
// If OTELCOL_GPU_PROMTOOL (a promtool binary) is set, the alerts' unit tests also run. `make check`
// builds these programs and sets the variables.
package dashboards
