// Package dashboards checks everything in examples/ that shows our metrics to users: the Grafana
// dashboards, the Prometheus alerts, the pipelines for backends, and the demand gate. The checked
// files must use only names from the output contract, docs/signals.md.
//
// Most checks only compare the names in queries with the contract and do not start any processes.
// If OTELCOL_GPU_BIN (the directory of the built commands) and OTELCOL_GPU_PROMETHEUS (a prometheus
// binary) are set, the queries also run against a Prometheus server that receives the collector's
// output. With both variables set, the tests of alerts and dashboards also use a real API server
// (see test/support/controlplane). The tests do not write any series to the Prometheus server
// themselves. To redraw the pictures in docs/dashboards from the query results, run this command:
//
//	go test ./test/dashboards -run TestEveryQueryHasDataInARealPrometheus -update
//
// If OTELCOL_GPU_PROMTOOL (a promtool binary) is set, the alerts' unit tests also run. `make check`
// builds the required programs and sets these environment variables.
package dashboards
