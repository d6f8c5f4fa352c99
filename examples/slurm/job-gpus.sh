#!/bin/sh
# Runs as Slurm's Prolog and Epilog. For each GPU, this script writes a file with one job ID per line
# to the directory that dcgm-exporter reads. In slurm.conf, set:
#
#   Prolog=/etc/slurm/job-gpus.sh
#   Epilog=/etc/slurm/job-gpus.sh
#
# Start dcgm-exporter with --hpc-job-mapping-dir=/run/dcgm-exporter/jobs. The script always exits
# with status 0, because Slurm would drain the node after any other status.
dir=${JOB_MAPPING_DIR:-/run/dcgm-exporter/jobs}
umask 022
mkdir -p "$dir" || exit 0
# Take a lock, because jobs that share a GPU may begin or end at the same time.
exec 9>"$dir.lock" && flock 9 || exit 0
for gpu in $(echo "$SLURM_JOB_GPUS" | tr ',' ' '); do
	# Write a temporary file first and then rename it, so that dcgm-exporter never reads an
	# incomplete file.
	{
		grep -sxvF "$SLURM_JOB_ID" "$dir/$gpu"
		if [ "$SLURM_SCRIPT_CONTEXT" = prolog_slurmd ]; then echo "$SLURM_JOB_ID"; fi
	} >"$dir.new"
	if [ -s "$dir.new" ]; then mv "$dir.new" "$dir/$gpu"; else rm -f "$dir.new" "$dir/$gpu"; fi
done
exit 0
