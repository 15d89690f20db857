"""Measures the fixes of exchanges at run time: two gloo ranks on a slow network, each fix in turn.

    python bench/scale/exchange_fixes.py [--only NAME ...] [--mbit 400]

Each job has one fault. It runs as it is and with a plan that sets the knob of its fix, both under
``whyidle run``, in a network of its own (``unshare --net``; ``tc`` shapes it; needs root). Told are
the median step after the tenth and the loss of the last one, for the same data and seeds.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
NETWORK = "ip link set lo up && tc qdisc add dev lo root tbf rate {mbit}mbit burst 128kb latency 1s"


class Fault(NamedTuple):
    """A job's options, and the knob that mends it."""

    name: str
    options: str
    knob: str
    value: object
    consent: str = "none"


FAULTS = (
    Fault("buckets of 10 kB", "--bucket-mb 0.01 --layers 48 --width 64", "ddp.bucket_cap_mb", 25),
    Fault("gradients copied into buckets", "", "ddp.gradient_as_bucket_view", True),
    Fault("unused parameters looked for", "--find-unused --layers 48 --width 64",
          "ddp.static_graph", True),
    Fault("gradients in fp32: fp16", "", "ddp.comm_hook", "fp16_compress", "numerics"),
    Fault("exchange in each of 4 micro-batches", "--accumulate 4", "ddp.no_sync", 4),
)  # fmt: skip


def run_job(fault, mbit, plan):
    """Median step, ms, and last loss of one run."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "whyidle", "run", "-q", "--store", folder]
        if plan:
            path = Path(folder) / "plan.toml"
            path.write_text(
                'schema = "whyidle/plan/1"\ncommand = []\nmade = ""\nwhyidle = ""\n[[fix]]\n'
                f'fix = "{fault.name}"\nconsent = "{fault.consent}"\n[fix.edits]\n'
                f"{fault.knob} = {json.dumps(fault.value)}\n"
            )
            words += ["--plan", str(path)]
        job = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
        job += ["--master-addr=127.0.0.1", "--master-port=29533", str(HERE / "exchange_job.py")]
        command = " ".join([*words, "--", *job, fault.options])
        script = f"{NETWORK.format(mbit=mbit)} && {command}"
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script], check=True, capture_output=True, text=True
        )
    result = json.loads(done.stdout.strip().splitlines()[-1])
    return result["step_ms"], result["loss"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=int, nargs="+", default=range(len(FAULTS)))
    parser.add_argument("--mbit", type=int, default=400, help="of both directions together")
    args = parser.parse_args()
    if shutil.which("tc") is None:
        parser.error("needs tc (package iproute2) and root")
    print("| fault | knob | as it is, ms | mended, ms | times as fast | loss as it is | mended |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for number in args.only:
        fault = FAULTS[number]
        (before, loss), (after, mended) = (run_job(fault, args.mbit, p) for p in (False, True))
        cells = f"{before:.1f} | {after:.1f} | {before / after:.2f} | {loss:.6f} | {mended:.6f}"
        print(f"| {fault.name} | `{fault.knob} = {fault.value}` | {cells} |", flush=True)


main()
