#!/usr/bin/env bash
# Builds the source archive of a release. Usage: packaging/source.sh VERSION DIRECTORY. The archive
# contains the committed tree and, in vendor/, all required modules, so it can be built without network
# access.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=otelcol-gpu_$1_source target=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/$name"
git archive HEAD | tar -x -C "$work/$name"
go -C "$work/$name" mod vendor
tar -C "$work" --sort=name --mtime="@${SOURCE_DATE_EPOCH:-0}" --owner=0 --group=0 --numeric-owner --mode=go-w -c "$name" |
	gzip -n >"$target/$name.tar.gz"
