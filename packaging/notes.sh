#!/usr/bin/env bash
# Prints the section of CHANGELOG.md for a version, which is used as release notes. Usage:
# packaging/notes.sh VERSION
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
awk -v heading="## v$1" '
	/^## / { inside = $0 == heading || index($0, heading " ") == 1; next }
	inside { print; found = 1 }
	END { exit !found }' CHANGELOG.md
