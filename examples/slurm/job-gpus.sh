#!/bin/sh
# Slurm's Prolog and Epilog: writes which jobs have which GPU where dcgm-exporter reads it, one file
# per GPU with one job id per line. In slurm.conf:
#
#   Prolog=/etc/slurm/job-gpus.sh
#   Epilog=/etc/slurm/job-gpus.sh
#
# and start dcgm-exporter with --hpc-job-mapping-dir=/run/dcgm-exporter/jobs. It exits with 0
# whatever happens: an error here would drain the node.
dir=${JOB_MAPPING_DIR:-/run/dcgm-exporter/jobs}
umask 022
mkdir -p "$dir" || exit 0
# Jobs that share a GPU begin and end at any time.
exec 9>"$dir.lock" && flock 9 || exit 0
for gpu in $(echo "$SLURM_JOB_GPUS" | tr ',' ' '); do
	# Written outside of the directory and moved into it: the exporter never reads half a file.
	{
		grep -sxvF "$SLURM_JOB_ID" "$dir/$gpu"
		if [ "$SLURM_SCRIPT_CONTEXT" = prolog_slurmd ]; then echo "$SLURM_JOB_ID"; fi
	} >"$dir.new"
	if [ -s "$dir.new" ]; then mv "$dir.new" "$dir/$gpu"; else rm -f "$dir.new" "$dir/$gpu"; fi
done
exit 0
