#!/bin/sh
# Before a removal, which dpkg calls remove and rpm 0, but not before an upgrade.
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
	case "$1" in
	remove | 0) systemctl disable --now otelcol-gpu.service ;;
	esac
fi
