"""The page: every stage's table, what was skipped and why, what failed and how."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from bench.gpu import stage
from bench.gpu.target import Target

NAME = "page.md"


def find_target(folder: Path) -> Target | None:
    """The device of which there are results in a folder."""
    stored = stage.read_results(folder)
    if not stored:
        return None
    return Target(
        "emulated" if stored["emulated"] else "cuda", stored["device"], 0.0, stored["short"]
    )


def write_page(folder: Path, target: Target) -> None:
    """Write the page of all results in a folder."""
    lines = [line for name in stage.NAMES for line in _stage_lines(name, folder, target)]
    text = "\n".join([*_head_lines(target), *lines])
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def _head_lines(target: Target) -> Iterator[str]:
    yield f"# whyidle on {target.name}"
    yield ""
    yield f"Page written {date.today().isoformat()}."
    yield ""
    if target.emulated:
        yield (
            "**Rehearsal.** Every number below is `emulated`: it was made on the emulated device, "
            "without a GPU, and proves only that the stages run."
        )
        yield ""


def _stage_lines(name: str, folder: Path, target: Target) -> Iterator[str]:
    chosen = stage.load_stage(name)
    result = stage.StageResult.load(name, target, folder)
    yield f"## {chosen.title}{' (emulated)' if target.emulated else ''}"
    yield ""
    if not result.items:
        yield "Not run."
        yield ""
        return
    done = _results(result, "done")
    if done:
        yield from chosen.table({item: row["result"] for item, row in done.items()})
        yield ""
    for item, row in _results(result, "skipped").items():
        yield f"* {item}: skipped, {row['reason']}"
    for item, row in _results(result, "failed").items():
        yield f"* {item}: **failed**, {row['reason']}"
    seconds = sum(row["seconds"] for row in result.items.values())
    expected_s = sum(row["expected_s"] for row in done.values())
    yield (
        f"* {len(done)} of {len(result.items)} items done, {seconds:.0f} s in all; "
        f"{expected_s:.0f} s were expected of what was done"
    )
    yield ""


def _results(result: stage.StageResult, status: str) -> dict[str, dict[str, Any]]:
    return {name: row for name, row in result.items.items() if row["status"] == status}
