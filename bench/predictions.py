"""Natural experiments: what we predict from one recording, beside its recorded twin.

Pairs of public traces differ in one setting; the first is diagnosed, the second shows what that
setting really brought. The first table is of loader workers (P1), in speed-ups of the median step:
one or two steps at the ends of such short recordings (six or three steps) are a third longer than
the rest. The second is of the Particle Transformer at larger batches, in samples per second,
predicted from the recording of one size (P6). Run::

    python bench/predictions.py FOLDER

Exit status 1 where an interval misses its outcome.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations
from pathlib import Path

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import predict_larger_batch
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.readers import kineto

PAIRS = (
    ("resnet50_v100_workers0_a", "resnet50_v100_workers4_a", "loader-workers"),
    ("resnet50_v100_workers0_b", "resnet50_v100_workers4_b", "loader-workers"),
    ("resnet50_v100_workers0_c", "resnet50_v100_workers4_c", "loader-workers"),
    ("mlp_rtx3080_workers0_bs16", "mlp_rtx3080_workers8_bs16", "loader-workers"),
)
"""(before, after, the fix between them)"""
BATCHES = (2, 8, 32, 128)
"""recorded batch sizes of the Particle Transformer"""
ROW = "{:28} {:16} {:>8} {:>8}   {:24} {:>8}  {}"
BATCH_ROW = "{:12} {:>10}   {:16} {:>9}  {}"


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of *.pt.trace.json.gz")
    folder = parser.parse_args().folder
    header = "recording", "fix", "before", "after", "predicted speed-up", "measured", "covered"
    print(ROW.format(*header))
    missed = [experiment(folder, *pair) for pair in PAIRS]
    print()
    print(BATCH_ROW.format("batch", "predicted", "interval", "measured", "covered"))
    recorded = {
        size: Facts(_load(folder, f"particle_transformer_a100_bs{size}")) for size in BATCHES
    }
    for small, large in combinations(BATCHES, 2):
        missed.append(larger_batch(recorded[small], recorded[large], small, large))
    return max(missed)


def larger_batch(before: Facts, after: Facts, small: int, large: int) -> int:
    """One row, in samples per second; 1 where the interval misses."""
    forecast, real = predict_larger_batch(before, large / small), large / after.step_s
    label = f"{small} -> {large}"
    if forecast is None:
        print(BATCH_ROW.format(label, "none", "", f"{real:.0f}/s", "no"))
        return 1
    low, high = large / forecast.worst_s, large / forecast.best_s
    covered = low <= real <= high
    interval = f"[{low:.0f}, {high:.0f}]"
    told = f"{large / forecast.step_s:.0f}/s"
    mark = "yes" if covered else "NO"
    print(BATCH_ROW.format(label, told, interval, f"{real:.0f}/s", mark))
    return int(not covered)


def experiment(folder: Path, before: str, after: str, fix: str) -> int:
    """One row; 1 where the interval misses."""
    told = [
        each.predicted
        for finding in diagnose_job([_load(folder, before)]).findings
        for each in finding.fixes
        if each.fix == fix and each.predicted
    ]
    old, new = _median_ms(folder, before), _median_ms(folder, after)
    if not told:
        print(ROW.format(before, fix, f"{old:.2f}", f"{new:.2f}", "none", f"{old / new:.3f}", "no"))
        return 1
    best = told[0]
    covered = best.low <= old / new <= best.high
    interval = f"{best.speedup:.3f} [{best.low:.3f}, {best.high:.3f}]"
    cells = f"{old:.2f} ms", f"{new:.2f} ms", interval, f"{old / new:.3f}"
    print(ROW.format(before, fix, *cells, "yes" if covered else "NO"))
    return int(not covered)


def _load(folder: Path, name: str):  # type: ignore[no-untyped-def]
    return kineto.load(folder / f"{name}.pt.trace.json.gz")


def _median_ms(folder: Path, name: str) -> float:
    steps = Facts(_load(folder, name)).steps
    return float(np.median(steps.end - steps.start)) / 1e6


if __name__ == "__main__":
    sys.exit(main())
