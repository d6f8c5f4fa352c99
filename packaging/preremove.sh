#!/bin/sh
# Runs before a removal. The argument is "remove" from dpkg and 0 from rpm. An upgrade does not stop
# the service.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	case "$1" in
	remove | 0) systemctl disable --now otelcol-gpu.service ;;
	esac
fi
