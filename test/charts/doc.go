// Package charts checks charts/otelcol-gpu, the examples for other charts in examples/helm and
// examples/operator, and the Dockerfile's image.
//
// OTELCOL_GPU_HELM is the path of a real helm, which renders the chart. The golden directories in
// testdata contain a values.yaml and the resulting manifests (-update rewrites them). The manifests
// are applied to a real API server (see test/support/controlplane). The built collector in
// OTELCOL_GPU_BIN validates the rendered configurations and runs the agent's configuration. The
// schema's settings are compared with the components' settings. OTELCOL_GPU_STATIC is the static
// build of the image's program, which runs in an empty root as the image's user. `make check` sets
// these variables. If one is missing, the tests that need it are skipped, and make lists them.
package charts
