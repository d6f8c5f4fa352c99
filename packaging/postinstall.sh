#!/bin/sh
# The package manager runs this script after an installation or an upgrade. The script does not
# start the service, because the user must first configure the backend.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart otelcol-gpu.service
fi
