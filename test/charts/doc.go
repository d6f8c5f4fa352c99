// Package charts checks charts/otelcol-gpu, what examples/helm and examples/operator
// say for other charts, and the image that the Dockerfile describes.
//
// The chart is rendered by a real helm, whose path OTELCOL_GPU_HELM holds; the golden
// directories under testdata have a values.yaml and the manifests made of it (-update rewrites
// them). The manifests are applied to a real API server (see test/support/controlplane), its
// collector configurations are validated by the built collector in OTELCOL_GPU_BIN, which also
// runs the agent's, the schema's settings are those of the components, and the image's program,
// the static form that OTELCOL_GPU_STATIC names, runs in an empty root as the image's user.
// `make check` sets these; without them the parts are skipped, and make says so.
package charts
