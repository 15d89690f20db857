"""Natural experiments: what one recording predicts, against recordings of the changed job.

Samples per second of the Particle Transformer at larger batches, predicted from recordings at
batch 2, 8 and 32 (P6 from one size), against the recordings at 32 and 128.

Usage: python bench/experiments.py [FOLDER OF TRACES]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from whyidle.analysis.batch import grown
from whyidle.analysis.facts import Facts
from whyidle.importers import kineto

BATCHES = (2, 8, 32, 128)


def folder() -> Path:
    told = (
        sys.argv[1] if len(sys.argv) > 1 else os.environ.get("WHYIDLE_TRACES", "../shared/traces")
    )
    path = Path(told)
    return path / "kineto" if (path / "kineto").is_dir() else path


def batches(where: Path) -> list[tuple[str, ...]]:
    recorded = {
        batch: Facts(kineto.load(where / f"particle_transformer_a100_bs{batch}.pt.trace.json.gz"))
        for batch in BATCHES
    }
    rows: list[tuple[str, ...]] = []
    for small in BATCHES:
        for large in (batch for batch in BATCHES if batch > small):
            forecast = grown(recorded[small], large / small)
            real = large / recorded[large].step_s
            if forecast is None:
                rows.append((f"{small} -> {large}", "-", "-", f"{real:.0f}", "no prediction"))
                continue
            low, high = large / forecast.worst_s, large / forecast.best_s
            covered = "covered" if low <= real <= high else "NOT covered"
            off = (large / forecast.step_s) / real - 1
            rows.append(
                (
                    f"{small} -> {large}",
                    f"{large / forecast.step_s:.0f}",
                    f"{low:.0f} to {high:.0f}",
                    f"{real:.0f}",
                    f"{covered}, {off:+.0%}",
                )
            )
    return rows


def main() -> int:
    where = folder()
    if not where.is_dir():
        print(f"no folder {where}; give the folder of traces as argument")
        return 2
    head = ("batch", "predicted samples/s", "interval", "recorded", "verdict")
    table = [head, *batches(where)]
    widths = [max(len(row[i]) for row in table) for i in range(len(head))]
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
