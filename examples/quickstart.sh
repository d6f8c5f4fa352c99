#!/usr/bin/env bash
# Starts simulated GPUs, a collector that uses quickstart.yaml and serves a page, and `gpudoctor top`, which
# displays a table of the windows. On a terminal, the table fills the screen. If the output is not a terminal,
# the table has one line per device and window. Press Ctrl-C to stop all programs. `make run` builds the
# programs and runs this script.
#
#   DCGM_ENDPOINT=http://HOST:9400/metrics  scrape this exporter instead of simulated exporters
#   DCGMSIM_PORT=9400                       loopback port of the simulated exporters
#   VIEW_PORT=9411                          loopback port of the page
#   DCGMSIM_FLAGS=...                       flags of dcgmsim for one simulated node, instead of three nodes
#                                           of NVIDIA, AMD and Google
#   WINDOW=60s SCRAPE_INTERVAL=15s MAX_GAP=90s   times; these are the defaults with DCGM_ENDPOINT
#   COLUMNS=100                             length of a line; the default is the terminal's width
set -euo pipefail

# Set COLUMNS before any other command runs. After a command, bash may set COLUMNS without exporting
# it.
if [[ -z ${COLUMNS:-} && -t 1 ]] && size=$(stty size 2>/dev/null </dev/tty); then
	export COLUMNS=${size#* }
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Ctrl-C interrupts all processes in the terminal's foreground process group. The script runs itself
# again in its own process group, so that Ctrl-C does not interrupt `make`, and `make` can report
# success.
if [[ -t 0 && -z ${QUICKSTART_IN_GROUP:-} ]]; then
	set -m
	QUICKSTART_IN_GROUP=yes examples/quickstart.sh
	exit
fi

port=${DCGMSIM_PORT:-9400}
export VIEW_PORT=${VIEW_PORT:-9411}
log=bin/quickstart.log
programs=${OTELCOL_GPU_BIN:-bin} # directory that contains the built programs
scratch=$(mktemp -d)
sim='' collector='' view=''
more=() # additional arguments of the collector

finish() {
	trap '' INT TERM HUP
	stop "$view"
	stop "$collector"
	stop "$sim"
	rm -rf "$scratch"
}
# Terminates a process, and kills the process if it is still running after 5 s. Within a trap, only
# `wait` can detect that a process has exited.
stop() {
	[[ -n $1 ]] || return 0
	kill -TERM "$1" 2>/dev/null || true
	(pause 5 && kill -KILL "$1") 2>/dev/null &
	local killer=$!
	wait "$1" 2>/dev/null || true
	kill -KILL "$killer" 2>/dev/null || true
	wait "$killer" 2>/dev/null || true
}
trap 'exit 0' INT TERM HUP
trap finish EXIT

fail() {
	echo "quickstart: $*" >&2
	exit 1
}

reachable() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
running() { kill -0 "$1" 2>/dev/null; }
# Waits for the given number of seconds, without starting a process such as sleep that could outlive
# this script.
mkfifo "$scratch/idle"
exec 3<>"$scratch/idle"
pause() { read -r -t "$1" <&3 || true; }

if reachable "$VIEW_PORT"; then
	fail "port $VIEW_PORT is in use; stop the program that uses it, or choose another port for the page with VIEW_PORT"
fi
if [[ -n ${DCGM_ENDPOINT:-} ]]; then
	export WINDOW=${WINDOW:-60s} SCRAPE_INTERVAL=${SCRAPE_INTERVAL:-15s} MAX_GAP=${MAX_GAP:-90s}
	# Remove the user name and the password from the printed URL.
	echo "Scraping ${DCGM_ENDPOINT/\/\/*@///} every $SCRAPE_INTERVAL for windows of $WINDOW: dcgm-exporter reads its GPUs every 30s."
else
	export WINDOW=${WINDOW:-10s} SCRAPE_INTERVAL=${SCRAPE_INTERVAL:-1s} MAX_GAP=${MAX_GAP:-5s}
	if reachable "$port"; then
		fail "port $port is in use; stop the program that uses it, or choose another port with DCGMSIM_PORT"
	fi
	# shellcheck disable=SC2086 # DCGMSIM_FLAGS is a list of flags.
	"$programs/dcgmsim" --listen "127.0.0.1:$port" ${DCGMSIM_FLAGS:---scenario vendors --nodes 3 --gpus 8} >"$scratch/dcgmsim.log" 2>&1 &
	sim=$!
	until reachable "$port"; do
		running "$sim" || fail "dcgmsim did not start: $(cat "$scratch/dcgmsim.log")"
		pause 0.1
	done
	simulated=http://127.0.0.1:$port
	export DCGM_ENDPOINT=$simulated/metrics
	if [[ -n ${DCGMSIM_FLAGS:-} ]]; then
		echo "Simulated GPUs at $DCGM_ENDPOINT, scraped every $SCRAPE_INTERVAL for windows of $WINDOW."
	else
		more=(--set "receivers::dcgm::endpoints=[$simulated/node/0/metrics, $simulated/node/1/metrics, $simulated/node/2/metrics]")
		echo "Simulated nodes of NVIDIA, AMD and Google at $simulated, scraped every $SCRAPE_INTERVAL for windows of $WINDOW."
	fi
fi

"$programs/otelcol-gpu-agent" --config examples/quickstart.yaml "${more[@]}" 2>"$log" &
collector=$!
until reachable "$VIEW_PORT"; do
	running "$collector" || fail "the collector ended: $(tail -n 5 "$log")"
	pause 0.1
done
echo "Live page: http://localhost:$VIEW_PORT"
echo "The first window appears after $WINDOW plus 2s. If scrapes fail, $log has the reason. Press Ctrl-C to stop."
# `gpudoctor top` reads keys from standard input. Without <&0, bash would redirect the standard
# input of a background program from /dev/null.
"$programs/gpudoctor" top -interval 1s "http://localhost:$VIEW_PORT" <&0 &
view=$!

while running "$collector" && running "$view"; do
	# Exit if `make` has exited, because the script is in its own process group and receives no
	# signal when `make` exits.
	[[ -z ${QUICKSTART_IN_GROUP:-} ]] || running "$PPID" || exit 0
	pause 1
done
# If a signal terminates all processes, the collector may exit before this script. The pause gives
# the script time to run its trap.
pause 0.5
running "$collector" || fail "the collector ended: $(tail -n 5 "$log")"
# The user has closed either the table or the program that reads the table.
exit 0
