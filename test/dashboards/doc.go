// Package dashboards holds what stands between our metrics and a person to the
// contract: the Grafana dashboards, the Prometheus alerts, the pipelines for
// backends and the demand gate under examples/.
//
// Queries are checked against the contract's names without anything running. With
// OTELCOL_GPU_BIN, the directory of the built commands, and
// OTELCOL_GPU_PROMETHEUS, a prometheus binary, they are also run against a
// Prometheus that our pipeline filled, for alerts and dashboards with a real API
// server beside it (see test/support/controlplane): no series there is written by hand.
// The pictures in docs/dashboards are drawn from these results:
//
//	go test ./test/dashboards -run TestEveryQueryHasDataInARealPrometheus -update
//
// With OTELCOL_GPU_PROMTOOL, a promtool binary, the alerts' own tests are run.
// `make check` builds and sets all of them.
package dashboards
