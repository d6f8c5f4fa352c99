#!/bin/sh
# After an installation and after an upgrade. The service is not started by itself: it has to be
# told its backend first.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart otelcol-gpu.service
fi
