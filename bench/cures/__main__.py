"""Sick jobs under ``whyidle run``, their predicted cure, and the cure itself, measured.

Each row is one job in two versions that differ by one habit. The sick one is watched; both are then
run alone, in turn, and the ratio of their median runs of steps is what the cure really brought
here. Run on a machine that does nothing else::

    python bench/cures [--rounds 3] [--only NAME]

Exit status 1 where the first
finding is another cause than the planted one, or the interval misses the outcome.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

JOB = Path(__file__).with_name("job.py")
DROPPED = 0.1
"""share of the steps, the first ones, that are left out as warm-up"""


@dataclass(frozen=True)
class Case:
    """The planted cause; the job's options, the sick habit's, and what cures it."""

    cause: str
    same: str
    sick: str
    cured: str


CASES = {
    "no workers": Case("dataloader-no-workers", "--work 2", "", "--workers 2 --persistent"),
    "no workers, storage": Case(
        "dataloader-no-workers", "--wait 4", "", "--workers 4 --persistent"
    ),
    "one worker": Case(
        "dataloader-too-few-workers", "--work 1.5 --persistent", "--workers 1", "--workers 2"
    ),
    "restarted workers": Case(
        "worker-restart-per-epoch",
        "--workers 2 --epochs 10 --steps 200 --work 0.1",
        "",
        "--persistent",
    ),
    "shallow queue": Case(
        "bursty-loader-shallow-prefetch",
        "--workers 1 --wait 0.4 --burst 96 --persistent --rows 12",
        "--prefetch 2",
        "--prefetch 16",
    ),
    "collector asked": Case("python-gc-pauses", "--heap 300000", "--collect", ""),
    "python between": Case("python-overhead-in-step", "", "--python 15", ""),
    "anomaly mode": Case("debug-mode-left-on", "--width 64 --layers 24", "--anomaly", ""),
    "blocking call": Case("blocking-logging-upload", "", "--log 20", ""),
    "checkpoints": Case(
        "sync-checkpoint",
        "--width 1024 --batch 1 --rows 1 --save-to model.pt",
        "--save-every 2",
        "",
    ),
    "evaluations": Case("heavy-evaluation", "", "--evaluate-every 4", ""),
    "optimizer": Case("unfused-optimizer", "--width 48 --layers 60 --rows 1", "", "--fused"),
}
ROW = "{:22} {:32} {:24} {:>16}  {}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=CASES, action="append")
    args = parser.parse_args()
    print(ROW.format("job", "first finding", "predicted", "measured", "covered"))
    rows = []
    for name in args.only or CASES:
        rows.append(examine(name, CASES[name], args.rounds))
        print(ROW.format(*rows[-1][:5]), flush=True)
    return 0 if all(row[4] == "yes" for row in rows) else 1


def examine(name: str, case: Case, rounds: int) -> tuple[str, ...]:
    """Diagnose the sick job, then measure both."""
    diagnosis = watched(case)
    first = diagnosis["findings"][0] if diagnosis["findings"] else {"cause": "none"}
    sick, cured = [], []
    for _ in range(rounds):
        sick.append(seconds(case.same, case.sick))
        cured.append(seconds(case.same, case.cured))
    ratios = np.array(sick) / np.array(cured)
    ratio, low, high = np.median(sick) / np.median(cured), ratios.min(), ratios.max()
    measured = f"{ratio:.2f} ({low:.2f}-{high:.2f})"
    offers = [p["predicted"] for p in first.get("fixes", []) if p["predicted"]]
    if first["cause"] != case.cause or not offers:
        return name, first["cause"], "-", measured, "no: another finding"
    told = max(offers, key=lambda offer: offer["speedup"])
    predicted = f"{told['speedup']:.2f} ({told['low']:.2f} to {told['high']:.2f})"
    covered = told["low"] <= high and low <= told["high"]
    return name, first["cause"], predicted, measured, "yes" if covered else "no"


def watched(case: Case) -> dict:
    """The diagnosis of the sick job."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        command = [sys.executable, "-m", "whyidle", "run", "--no-store", "--quiet"]
        job = [sys.executable, str(JOB), *case.same.split(), *case.sick.split()]
        subprocess.run(
            [*command, "--json", str(told), *job],
            check=True,
            capture_output=True,
            env=one_core(),
            cwd=folder,
        )
        return json.loads(told.read_text())


def seconds(*options: str) -> float:
    """Mean length of a step after warm-up, alone."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "steps.json"
        words = [word for option in options for word in option.split()]
        job = [sys.executable, str(JOB), *words, "--tell", str(told)]
        subprocess.run(job, check=True, capture_output=True, env=one_core(), cwd=folder)
        steps = json.loads(told.read_text())
        return float(np.mean(steps[int(DROPPED * len(steps)) :]))


def one_core() -> dict[str, str]:
    """Operators on one thread from the first import on."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


if __name__ == "__main__":
    sys.exit(main())
