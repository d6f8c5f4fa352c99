#!/usr/bin/env bash
# Starts simulated GPUs, a collector with quickstart.yaml and its page, and a table of the windows: a
# full screen on a terminal, otherwise one line per device and window. Ctrl-C stops all three.
# `make run` builds the programs and runs this script.
#
#   DCGM_ENDPOINT=http://HOST:9400/metrics  scrape that exporter instead of simulated ones
#   DCGMSIM_PORT=9400                       loopback port of the simulated exporters
#   VIEW_PORT=9411                          loopback port of the page
#   DCGMSIM_FLAGS=...                       one node with another scenario, GPUs or exporter generation
#                                           instead of one each of NVIDIA, AMD and Google
#   WINDOW=60s SCRAPE_INTERVAL=15s MAX_GAP=90s   other times; these are those of a real exporter
#   COLUMNS=100                             length of a line, where it is not the terminal's
set -euo pipefail

# Before any other command: after one bash may set COLUMNS by itself, and does not export it.
if [[ -z ${COLUMNS:-} && -t 1 ]] && size=$(stty size 2>/dev/null </dev/tty); then
	export COLUMNS=${size#* }
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Ctrl-C goes to every process of the terminal's foreground group. With a group of our own,
# `make` is not among them and can report success instead of an interrupt.
if [[ -t 0 && -z ${QUICKSTART_IN_GROUP:-} ]]; then
	set -m
	QUICKSTART_IN_GROUP=yes examples/quickstart.sh
	exit
fi

port=${DCGMSIM_PORT:-9400}
export VIEW_PORT=${VIEW_PORT:-9411}
log=bin/quickstart.log
programs=${OTELCOL_GPU_BIN:-bin} # where the built programs are
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
# Gives a process 5s to end. Within a trap only `wait` learns that a process has ended.
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
	fail "port $VIEW_PORT is in use; stop what listens there, or choose another for the page with VIEW_PORT"
fi
if [[ -n ${DCGM_ENDPOINT:-} ]]; then
	export WINDOW=${WINDOW:-60s} SCRAPE_INTERVAL=${SCRAPE_INTERVAL:-15s} MAX_GAP=${MAX_GAP:-90s}
	# Without user and password.
	echo "Scraping ${DCGM_ENDPOINT/\/\/*@///} every $SCRAPE_INTERVAL for windows of $WINDOW: dcgm-exporter reads its GPUs every 30s."
else
	export WINDOW=${WINDOW:-10s} SCRAPE_INTERVAL=${SCRAPE_INTERVAL:-1s} MAX_GAP=${MAX_GAP:-5s}
	if reachable "$port"; then
		fail "port $port is in use; stop what listens there, or choose another with DCGMSIM_PORT"
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
# The keyboard is for the table; bash takes it from programs behind &.
"$programs/gpudoctor" top -interval 1s "http://localhost:$VIEW_PORT" <&0 &
view=$!

while running "$collector" && running "$view"; do
	# In a group of our own nobody else tells us that `make` was ended.
	[[ -z ${QUICKSTART_IN_GROUP:-} ]] || running "$PPID" || exit 0
	pause 1
done
# A signal to all of them may end the others first.
pause 0.5
running "$collector" || fail "the collector ended: $(tail -n 5 "$log")"
# Whoever quits the table, or reads no further, is done.
exit 0
