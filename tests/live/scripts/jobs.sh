#!/bin/sh
# Two jobs, one after the other; the second one's status is the script's.
set -u
here=$(dirname "$0")
echo "first"
"$PYTHON" "$here/gan.py" | tail -n 30
echo "second: $*" >&2
"$PYTHON" "$here/trainer.py"
status=$?
echo "status $status"
exit $status
