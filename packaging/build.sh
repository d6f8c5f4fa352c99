#!/usr/bin/env bash
# Builds the Debian and RPM packages. Usage: packaging/build.sh NFPM ARCH VERSION OTELCOL_GPU
# GPUDOCTOR DIRECTORY
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export ARCH=$2 VERSION=$3 OTELCOL_GPU=$4 GPUDOCTOR=$5
for format in deb rpm; do
	"$1" package --config packaging/nfpm.yaml --packager "$format" --target "$6"
done
