#!/bin/sh
# Runs after an installation or an upgrade. It does not start the service, because the backend has
# to be configured first.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart otelcol-gpu.service
fi
