#!/bin/sh
# Runs after a removal. With dpkg, a purge also deletes the state in /var/lib/otelcol-gpu.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf "$DPKG_ROOT/var/lib/otelcol-gpu" "$DPKG_ROOT/var/lib/private/otelcol-gpu"
fi
