// Package dashboards checks everything in examples/ that shows our metrics to users: the Grafana
// dashboards, the Prometheus alerts, the pipelines for backends, and the demand gate. All of them
// must use only the names in the output contract, docs/signals.md.
//
// Most checks compare queries with the contract's names and start nothing. With OTELCOL_GPU_BIN,
// the directory of the built commands, and OTELCOL_GPU_PROMETHEUS, a prometheus binary, the queries
// also run against a Prometheus to which our pipeline writes. Alerts and dashboards then use a real
// API server as well (see test/support/controlplane). No series in this Prometheus is written by
// hand. The pictures in docs/dashboards are drawn from these results:
//
//	go test ./test/dashboards -run TestEveryQueryHasDataInARealPrometheus -update
//
// With OTELCOL_GPU_PROMTOOL, a promtool binary, the alerts' own tests also run. `make check` builds
// all of these programs and sets the variables.
package dashboards
