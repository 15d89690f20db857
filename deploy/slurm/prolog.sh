#!/bin/sh
# Slurm's Prolog, as root on each node of a job: writes which job has which GPU, for dcgm-exporter's
# --hpc-job-mapping-dir. Its readings then carry the label hpc_job, by which `whyidle fleet` joins
# them to the job. It always ends well: a Prolog that fails drains the node.
folder=${WHYIDLE_JOB_MAPPING:-/run/whyidle/jobs}
mkdir -p "$folder" || exit 0
for gpu in $(echo "${SLURM_JOB_GPUS:-}" | tr ',' ' '); do
  case $gpu in *[!0-9]*) continue ;; esac
  echo "$SLURM_JOB_ID" >>"$folder/$gpu"
done
exit 0
