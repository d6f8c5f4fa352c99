#!/bin/sh
# After a removal. The state in /var/lib/otelcol-gpu goes with the configuration, when dpkg purges.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "$1" = purge ]; then
	rm -rf "$DPKG_ROOT/var/lib/otelcol-gpu" "$DPKG_ROOT/var/lib/private/otelcol-gpu"
fi
