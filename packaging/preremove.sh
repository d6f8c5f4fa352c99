#!/bin/sh
# Runs before a removal. The argument is "remove" with dpkg and 0 with rpm. An upgrade does not stop
# the service.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	case "$1" in
	remove | 0) systemctl disable --now otelcol-gpu.service ;;
	esac
fi
