#!/bin/sh
# Slurm's Epilog, as root on each node of a job: takes the job out of what the prolog wrote.
folder=${WHYIDLE_JOB_MAPPING:-/run/whyidle/jobs}
for gpu in $(echo "${SLURM_JOB_GPUS:-}" | tr ',' ' '); do
  case $gpu in *[!0-9]*) continue ;; esac
  [ -f "$folder/$gpu" ] || continue
  rest=$(grep -vx "$SLURM_JOB_ID" "$folder/$gpu") # jobs that share the GPU stay
  if [ -n "$rest" ]; then echo "$rest" >"$folder/$gpu"; else rm -f "$folder/$gpu"; fi
done
exit 0
