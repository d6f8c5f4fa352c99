#!/usr/bin/env bash
# Checks the requirement accelerator_metrics of the Kubernetes AI conformance program on any cluster. An
# endpoint must expose each accelerator's utilization and memory in a standard format and with
# OpenTelemetry's names. It should also expose temperature, power and interconnect bandwidth, if the
# hardware measures them. The script changes nothing.
#
#   examples/conformance.sh >evidence.md                     read the chart's agents through kubectl
#   examples/conformance.sh -n NAMESPACE -l LABELS -p PORT   read other pods through kubectl
#   examples/conformance.sh -f FILE                          read a saved answer; - is standard input
#   examples/conformance.sh -h                               print this text
#
# The chart's prometheus.enabled opens the port. Exit status: 0 if the requirement is met, 1 if it is not
# met, 2 if the script cannot check it.
set -euo pipefail

namespace=otelcol-gpu labels=app.kubernetes.io/name=otelcol-gpu,app.kubernetes.io/component=agent port=9464 file=''
while getopts hn:l:p:f: option; do
	case $option in
	n) namespace=$OPTARG ;;
	l) labels=$OPTARG ;;
	p) port=$OPTARG ;;
	f) file=$OPTARG ;;
	h) # Print the comment at the top of this file.
		sed -n '2,/^set /s/^# \{0,1\}//p' -- "${BASH_SOURCE[0]}"
		exit
		;;
	*)
		echo "conformance: -h prints the options" >&2
		exit 2
		;;
	esac
done

fail() {
	echo "conformance: $*" >&2
	exit 2
}

metrics=$(mktemp)
trap 'rm -f "$metrics"' EXIT
if [[ -n $file ]]; then
	cat -- "$file" >"$metrics" || fail "cannot read $file"
	from=$file
else
	command -v kubectl >/dev/null || fail "no kubectl on this machine"
	pods=$(kubectl get pods -n "$namespace" -l "$labels" --field-selector=status.phase=Running -o name) ||
		fail "kubectl cannot list pods in namespace $namespace"
	[[ -n $pods ]] || fail "no running pod with labels $labels in namespace $namespace: choose others with -n and -l"
	for pod in $pods; do
		# The API server forwards the request, so the pods do not have to be reachable from this
		# machine.
		kubectl get --raw "/api/v1/namespaces/$namespace/pods/${pod#pod/}:$port/proxy/metrics" >>"$metrics" ||
			fail "$pod does not answer on port $port: is prometheus.enabled set?"
		echo >>"$metrics"
	done
	from="$(wc -w <<<"$pods") pods of namespace $namespace, $(kubectl get --raw /version | sed -n 's/.*"gitVersion": *"\([^"]*\)".*/Kubernetes \1/p')"
fi

awk -v from="$from" '
	# Adds a requirement: its description, its level, the metric names, and a pattern that matches
	# the Prometheus names of the metrics.
	function ask(what, level, names, pattern) { n++; asked[n] = what; must[n] = level; named[n] = names; wanted[n] = pattern }
	BEGIN {
		ask("utilization", "MUST", "gpu.utilization.avg, hw.gpu.utilization", "^(gpu_utilization_avg_ratio|hw_gpu_utilization_ratio)$")
		ask("memory usage", "MUST", "hw.gpu.memory.usage, gpu.saturation.memory.utilization.avg", "^(hw_gpu_memory_usage_bytes|gpu_saturation_memory_utilization_avg_ratio)$")
		ask("temperature", "SHOULD", "hw.temperature", "^hw_temperature_celsius$")
		ask("power draw", "SHOULD", "hw.power", "^hw_power_watts$")
		ask("interconnect bandwidth", "SHOULD", "gpu.nvlink.throughput, gpu.pcie.throughput", "^gpu_(saturation_)?(nvlink|pcie)_throughput_.*$")
	}
	/^#/ || !match($0, /hw_id="[^"]*"/) { next }
	{
		device = substr($0, RSTART + 7, RLENGTH - 8)
		name = $0; sub(/[{ ].*/, "", name)
		# Some metrics belong to a MIG instance, and others to its board. Metrics of a MIG instance
		# also count as metrics of its board.
		if (match($0, /[{,]hw_parent="[^"]*"/)) device = substr($0, RSTART + 12, RLENGTH - 13)
		if (!(device in devices)) { devices[device]; count++ }
		for (i = 1; i <= n; i++) if (name ~ wanted[i] && !((i, device) in seen)) { seen[i, device]; found[i]++; if (!(i in example)) example[i] = $0 }
	}
	END {
		if (!count) { print "conformance: the endpoint exposes no metric of an accelerator" >"/dev/stderr"; exit 2 }
		print "# Accelerator metrics"
		print "From " from ": " count " accelerators, in the text format of Prometheus.\n"
		print "| requirement | level | OpenTelemetry metrics | accelerators with these metrics | result |"
		print "|---|---|---|---|---|"
		for (i = 1; i <= n; i++) {
			ok = found[i] + 0 == count
			if (!ok && must[i] == "MUST") unmet = 1
			print "| " asked[i] " | " must[i] " | `" named[i] "` | " found[i] + 0 " of " count " | " (ok ? "met" : must[i] == "MUST" ? "NOT MET" : "expected only if the hardware measures it") " |"
		}
		print "\n```"
		for (i = 1; i <= n; i++) if (i in example) print example[i]
		print "```"
		print "\naccelerator_metrics: " (unmet ? "Not Implemented" : "Implemented")
		exit unmet
	}' "$metrics"
