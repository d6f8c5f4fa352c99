# The image of the collector. It is cross-compiled, so no emulation is needed for other
# architectures.
#
#   docker buildx build --platform linux/amd64,linux/arm64 -t NAME:VERSION .
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg FORM=nvml -t NAME:VERSION-nvml .
#
# FORM is static or nvml. The static image contains only the programs. In the nvml image, the
# program can load the driver's library, and glibc is included for that.
#
# The source archive of a release contains all modules in vendor/. If the machine has the two base
# images, it builds without network access: --network=none.
#
# The base images are multi-platform indexes that are pinned by digest. `make pin-images` updates
# each digest to the current digest of its tag. Releases require digests. The static form has no
# base image.
ARG GO_IMAGE=golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a
ARG BASE_IMAGE=debian:trixie-slim@sha256:a29215f6a35e51e22adffa17f89e9d2ef06214e64a2bad10d765c46aea49f11f
ARG FORM=static

FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
ENV GOCACHE=/go/build
COPY . .
ARG TARGETOS TARGETARCH FORM
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build \
    case "$FORM" in \
        static) form=otelcol_gpu_no_nvml ;; \
        nvml) form= ;; \
        *) echo "FORM is \"$FORM\": must be static or nvml" >&2; exit 1 ;; \
    esac && \
    tags=$(sed -n 's/^  build_tags: *//p' builder-config.yaml) && \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
        -tags "$tags $form" -ldflags "-s -w" -o /out/ ./cmd/otelcol-gpu ./cmd/otelcol-gpu-agent ./cmd/dcgmsim && \
    mkdir /out/state

FROM scratch AS base-static
FROM ${BASE_IMAGE} AS base-nvml

FROM base-${FORM}
# CA certificates, for backends with TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/otelcol-gpu /otelcol-gpu
# On each node, the chart runs the agent form if it has all configured components.
COPY --from=build /out/otelcol-gpu-agent /otelcol-gpu-agent
# The chart's simulator runs dcgmsim.
COPY --from=build /out/dcgmsim /dcgmsim
# The default configuration is one agent per node. Comments at the top of the file list the
# environment variables for its settings.
COPY --from=build /src/examples/agent.yaml /etc/otelcol-gpu/config.yaml
COPY --from=build --chown=10001:10001 /out/state /var/lib/otelcol-gpu
# Health probes are sent from outside the container.
ENV HEALTH_ENDPOINT=:13133
USER 10001:10001
EXPOSE 13133
ENTRYPOINT ["/otelcol-gpu"]
CMD ["--config=/etc/otelcol-gpu/config.yaml"]

ARG VERSION=0.1.0
ARG REVISION=
ARG CREATED=
LABEL org.opencontainers.image.title="otelcol-gpu" \
      org.opencontainers.image.description="OpenTelemetry Collector that turns GPU exporter metrics into saturation windows" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="https://github.com/otelcol-gpu/otelcol-gpu" \
      org.opencontainers.image.licenses="Apache-2.0"
