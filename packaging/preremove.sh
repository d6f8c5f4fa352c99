#!/bin/sh
# The package manager runs this script before a removal or an upgrade. For a removal, dpkg passes the
# argument "remove", and rpm passes 0. For an upgrade, the script does not stop the service.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	case "$1" in
	remove | 0) systemctl disable --now otelcol-gpu.service ;;
	esac
fi
