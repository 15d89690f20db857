"""Predicts four ranks from two on the emulated device, and then runs four.

    python bench/scale/measure.py [--only NUMBER ...] [--keep FOLDER]

The device sleeps instead of computing, so that four ranks do not share two cores; their hosts do,
and the error says that too. Needs a PyTorch with collectives; about 40 s a setting.
"""

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from whyidle.__main__ import main as whyidle
from whyidle.planning.rank_scaling import Question, predict_scaling

sys.path.insert(0, str(Path(__file__).parents[2]))  # the emulator is not installed
from emulator.environment import add_emulator

SETTINGS = (
    (80e6, 0.02),
    (80e6, 0.15),
    (80e6, 0.3),
    (20e6, 0.02),
    (20e6, 0.15),
    (20e6, 0.3),
    (6e6, 0.05),
    (6e6, 0.2),
    (300e6, 0.1),
    (300e6, 0.4),
)
"""bandwidth of the network, bytes/s, and spread of the ranks' steps"""
JOB = Path(__file__).parent / "job.py"


def measure(ranks, bandwidth, sigma, store):
    """Run the job on so many ranks; return its recording."""
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    job = [str(JOB), "--bandwidth", str(bandwidth), "--sigma", str(sigma)]
    options = ["--to", str(ranks), "--quiet", "--store", str(store)]
    whyidle(["scale", *options, "--", *words, f"--nproc-per-node={ranks}", *job])
    return sorted(store.glob("runs/*/recording"))[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=int, nargs="+", default=range(len(SETTINGS)))
    parser.add_argument("--keep", type=Path, help="keep the recordings in this folder")
    args = parser.parse_args()
    os.environ.update(add_emulator(os.environ), OMP_NUM_THREADS="1")
    errors = []
    print("| network, MB/s | spread | predicted, ms | interval | measured, ms | error |")
    print("|--:|--:|--:|--:|--:|--:|")
    for number in args.only:
        bandwidth, sigma = SETTINGS[number]
        kept = args.keep / str(number) if args.keep else None
        with contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory() as folder:
            two = measure(2, bandwidth, sigma, Path(folder))
            point = predict_scaling(two, "two", Question([4], per_node=4)).points[0]
            four = measure(4, bandwidth, sigma, Path(folder))
            truth = predict_scaling(four, "four", Question([4], per_node=4)).points[0].measured_s
        errors.append(point.step_s / truth - 1)
        low, high = point.interval.low, point.interval.high
        print(
            f"| {bandwidth / 1e6:.0f} | {sigma} | {1e3 * point.step_s:.0f} | {1e3 * low:.0f} to "
            f"{1e3 * high:.0f} | {1e3 * truth:.0f} | {errors[-1]:+.1%} |",
            flush=True,
        )
    within = sum(abs(error) <= 0.1 for error in errors)
    middle = statistics.median(map(abs, errors))
    print(f"within 10 %: {within} of {len(errors)}; median error {middle:.1%}")
    print(json.dumps([round(error, 4) for error in errors]), file=sys.stderr)


main()
