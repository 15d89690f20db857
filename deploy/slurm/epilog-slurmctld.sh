#!/bin/sh
# Slurm's EpilogSlurmctld, as SlurmUser on the controller, once a job: keeps its summary in
# AdminComment (`sacct -o JobID,AdminComment`), where SlurmUser is an operator of the accounting.
# Nothing waits for it: accounting and readings need a minute. It leaves Slurm's process group, which
# is killed when this script ends. WHYIDLE_PROMETHEUS names Prometheus.
export WHYIDLE="${WHYIDLE:-/opt/whyidle/bin/whyidle}"
export WHYIDLE_PROMETHEUS="${WHYIDLE_PROMETHEUS:-http://127.0.0.1:9090}"
export WHYIDLE_CACHE="${WHYIDLE_CACHE:-/var/tmp/whyidle-jobs}/$SLURM_JOB_ID"
setsid sh -c '(
  sleep "${WHYIDLE_EPILOG_DELAY:-90}"
  line=$(nice timeout 300 "$WHYIDLE" fleet job "$SLURM_JOB_ID" --line --cache "$WHYIDLE_CACHE" \
    --meter "prometheus:$WHYIDLE_PROMETHEUS") &&
    sacctmgr -i modify job where jobid="$SLURM_JOB_ID" set admincomment="$line"
  rm -rf "$WHYIDLE_CACHE"
) </dev/null >/dev/null 2>&1 &'
exit 0
