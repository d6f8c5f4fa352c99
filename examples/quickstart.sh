#!/usr/bin/env bash
# Simulated GPUs, the collector on quickstart.yaml with its page, and a table of its windows;
# Ctrl-C ends all three. `make run` builds and starts it.
#
#   DCGM_ENDPOINT=http://HOST:9400/metrics  scrape that exporter instead of simulated GPUs
#   DCGMSIM_PORT=9400                       loopback port of the simulated exporter
#   VIEW_PORT=9411                          loopback port of the page
#   DCGMSIM_FLAGS=...                       another scenario, node count or exporter generation
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

finish() {
	trap '' INT TERM HUP
	# The collector first: its last windows still want a reader, and the reader ends with them.
	stop "$collector"
	if [[ -n $view ]]; then
		# Lets go a reader that waits for a collector which never opened the pipe.
		: <>"$scratch/windows"
		await "$view"
	fi
	stop "$sim"
	rm -rf "$scratch"
}
stop() {
	[[ -n $1 ]] || return 0
	kill -TERM "$1" 2>/dev/null || true
	await "$1"
}
# Gives a process 5s to end: a collector whose reader is gone waits for ever for room in the
# pipe, and so does a table. Within a trap only `wait` learns that a process has ended.
await() {
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
	"$programs/dcgmsim" --listen "127.0.0.1:$port" ${DCGMSIM_FLAGS:---scenario mixed --gpus 8} >"$scratch/dcgmsim.log" 2>&1 &
	sim=$!
	until reachable "$port"; do
		running "$sim" || fail "dcgmsim did not start: $(cat "$scratch/dcgmsim.log")"
		pause 0.1
	done
	export DCGM_ENDPOINT=http://127.0.0.1:$port/metrics
	echo "Simulated GPUs at $DCGM_ENDPOINT, scraped every $SCRAPE_INTERVAL for windows of $WINDOW."
fi

mkfifo "$scratch/windows"
"$programs/gpuwindows" <"$scratch/windows" &
view=$!
WINDOWS_FILE=$scratch/windows "$programs/otelcol-gpu-agent" --config examples/quickstart.yaml 2>"$log" &
collector=$!
echo "Live page: http://localhost:$VIEW_PORT"
echo "The first window comes within $WINDOW and 2s. Why a scrape fails is in $log. Ctrl-C ends it."

while running "$collector" && running "$view"; do
	# In a group of our own nobody else tells us that `make` was ended.
	[[ -z ${QUICKSTART_IN_GROUP:-} ]] || running "$PPID" || exit 0
	pause 1
done
# A signal to all of them may end the others first.
pause 0.5
running "$collector" || fail "the collector ended: $(tail -n 5 "$log")"
fail "gpuwindows ended"
