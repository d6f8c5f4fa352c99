#!/usr/bin/env bash
# Starts simulated GPUs, a collector with quickstart.yaml and its page, and a table of the windows. On a
# terminal, the table fills the screen. Otherwise it is one line per device and window. Ctrl-C stops all three.
# `make run` builds the programs and runs this script.
#
#   DCGM_ENDPOINT=http://HOST:9400/metrics  scrape this exporter instead of simulated exporters
#   DCGMSIM_PORT=9400                       loopback port of the simulated exporters
#   VIEW_PORT=9411                          loopback port of the page
#   DCGMSIM_FLAGS=...                       flags of dcgmsim for one simulated node, instead of three nodes
#                                           of NVIDIA, AMD and Google
#   WINDOW=60s SCRAPE_INTERVAL=15s MAX_GAP=90s   times; these are the defaults with DCGM_ENDPOINT
#   COLUMNS=100                             length of a line; the default is the terminal's width
set -euo pipefail

# This must run before other commands. After a command, bash may set COLUMNS without exporting it.
if [[ -z ${COLUMNS:-} && -t 1 ]] && size=$(stty size 2>/dev/null </dev/tty); then
	export COLUMNS=${size#* }
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Ctrl-C interrupts all processes in the terminal's foreground group. The script runs in its own group,
# so that Ctrl-C does not interrupt `make`, which can then report success.
if [[ -t 0 && -z ${QUICKSTART_IN_GROUP:-} ]]; then
	set -m
	QUICKSTART_IN_GROUP=yes examples/quickstart.sh
	exit
fi

port=${DCGMSIM_PORT:-9400}
export VIEW_PORT=${VIEW_PORT:-9411}
log=bin/quickstart.log
programs=${OTELCOL_GPU_BIN:-bin} # directory of the built programs
scratch=$(mktemp -d)
sim='' collector='' view=''
more=() # arguments of the collector

finish() {
	trap '' INT TERM HUP
	stop "$view"
	stop "$collector"
	stop "$sim"
	rm -rf "$scratch"
}
# Stops a process, and kills it if it still runs after 5 s. Within a trap, only `wait` detects that
# a process has ended.
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
# Waits some seconds without starting a process that could outlive this one.
mkfifo "$scratch/idle"
exec 3<>"$scratch/idle"
pause() { read -r -t "$1" <&3 || true; }

if reachable "$VIEW_PORT"; then
	fail "port $VIEW_PORT is in use; stop the program that uses it, or choose another port for the page with VIEW_PORT"
fi
if [[ -n ${DCGM_ENDPOINT:-} ]]; then
	export WINDOW=${WINDOW:-60s} SCRAPE_INTERVAL=${SCRAPE_INTERVAL:-15s} MAX_GAP=${MAX_GAP:-90s}
	# The URL is printed without user and password.
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
# The table reads the keyboard. Without <&0, bash would disconnect a background program from it.
"$programs/gpudoctor" top -interval 1s "http://localhost:$VIEW_PORT" <&0 &
view=$!

while running "$collector" && running "$view"; do
	# In its own group, the script receives no signal when `make` ends.
	[[ -z ${QUICKSTART_IN_GROUP:-} ]] || running "$PPID" || exit 0
	pause 1
done
# If a signal ends all processes, the collector may end first. The trap of this script then runs
# during the pause.
pause 0.5
running "$collector" || fail "the collector ended: $(tail -n 5 "$log")"
# The user closed the table, or the reader of its output.
exit 0
