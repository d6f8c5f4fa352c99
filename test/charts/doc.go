// Package charts checks charts/otelcol-gpu, the examples for other charts in examples/helm and
// examples/operator, and the Dockerfile's image.
//
// OTELCOL_GPU_HELM is the path of the helm binary that renders the chart. The golden directories in
// testdata contain a values.yaml and the resulting manifests (the -update flag rewrites the
// manifests). The manifests are applied to a real API server (see test/support/controlplane). The
// built collector in the directory OTELCOL_GPU_BIN validates the rendered configurations and runs
// the agent's configuration. The settings in the chart's schema are compared with the components'
// settings. OTELCOL_GPU_STATIC is the path of the statically linked program of the image, which
// runs in an otherwise empty root file system as the image's user. `make check` sets these
// environment variables. Tests whose environment variable is not set are skipped, and make lists
// the skipped tests.
package charts
