#!/bin/sh
# The package manager runs this script after a removal. If dpkg purges the package, the script also
# deletes the state in /var/lib/otelcol-gpu.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf "$DPKG_ROOT/var/lib/otelcol-gpu" "$DPKG_ROOT/var/lib/private/otelcol-gpu"
fi
