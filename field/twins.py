"""The lines of a job beside those of its cured twin: where the account of a step goes wrong.

A line that both have should take the same time in both. Where it does not, its time belongs to the
cause (contention, after-effects), and a gain that counts only the cause's own lines is too small.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from field.processes import run_process, scratch_folder, split_command
from field.truth import Job

MARKED = 1.25
"""a shared line that takes so many times as long beside the cause is marked; runs of a line on a
quiet machine differ by less"""


class Row(msgspec.Struct, frozen=True):
    """One line of the user's program: seconds of a step in each twin, None where it has none."""

    text: str
    sick_s: float | None
    cured_s: float | None


class Twins(msgspec.Struct, frozen=True):
    """Both tables of a job.

    Attributes:
        told: the removal of the first finding: speed-up, low and high; None where none is told.
    """

    sick_s: float
    cured_s: float
    told: tuple[float, float, float] | None
    rows: tuple[Row, ...]


def watch_twins(job: Job, python: str) -> Twins:
    """Watch a job, then its cured twin. Raises JobError."""
    with scratch_folder() as folder:
        sick, cured = (_watch(c, python, folder) for c in (job.command, job.cured_command))
    removals = [one["removal"] for one in sick["findings"] if one["severity"] != "info"]
    told = removals[0] if removals and removals[0] and removals[0]["speedup"] else None
    return Twins(
        sick_s=sick["steps"]["mean_s"] or sick["steps"]["p50_s"],
        cured_s=cured["steps"]["mean_s"] or cured["steps"]["p50_s"],
        told=(told["speedup"], told["low"], told["high"]) if told else None,
        rows=pair_lines(_lines_of(sick), _lines_of(cured)),
    )


def pair_lines(sick: dict[str, float], cured: dict[str, float]) -> tuple[Row, ...]:
    """Lines by their text, since a cure moves numbers of lines; those with the largest difference
    first."""
    rows = [Row(text, sick.get(text), cured.get(text)) for text in {**sick, **cured}]
    return tuple(sorted(rows, key=lambda row: -abs((row.sick_s or 0.0) - (row.cured_s or 0.0))))


def render_twins(name: str, twins: Twins) -> str:
    """The table of a job, times in ms."""
    told = "-" if twins.told is None else "{:.2f} ({:.2f} to {:.2f})".format(*twins.told)
    gain = twins.sick_s / twins.cured_s
    lines = [
        f"## {name}: measured {gain:.2f}, told {told}",
        "",
        "| sick, ms | cured, ms | line |",
        "|--:|--:|---|",
        f"| {twins.sick_s * 1e3:.2f} | {twins.cured_s * 1e3:.2f} | **step** |",
    ]
    for row in twins.rows:
        times = (f"{s * 1e3:.2f}" if s is not None else "" for s in (row.sick_s, row.cured_s))
        both = row.sick_s is not None and row.cured_s
        slower = " **slower beside the cause**" if both and _ratio(row) >= MARKED else ""
        lines.append(f"| {' | '.join(times)} | `{row.text}`{slower} |")
    return "\n".join([*lines, ""])


def _ratio(row: Row) -> float:
    return (row.sick_s or 0.0) / row.cured_s if row.cured_s else 0.0


def _watch(command: str, python: str, folder: Path) -> Any:
    document = folder / "diagnosis.json"
    words = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-live", "--look", "profile"]
    words += ["--store", str(folder / "store"), "--json", str(document)]
    run_process([*words, *split_command(command, python)], folder)
    return msgspec.json.decode(document.read_bytes())


def _lines_of(document: Any) -> dict[str, float]:
    times: dict[str, float] = {}
    for row in document["detail"]["lines"]:
        text = f"{row['purpose']}: {row['text'].strip()}"
        times[text] = times.get(text, 0.0) + row["seconds"]
    return times
