"""What healing all cases shows, in lines of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from clinic.healing import HARM, Healed

WORTH = 1.02
"""times as fast: from here on a cure counts"""
GIVEN = ("none", "rounding")
"""what may be changed without being asked: only cures that need no more are held against a plan"""


def score(found: Sequence[Healed]) -> list[str]:
    """What the whole of it shows, in lines of Markdown."""
    whole = [one for one in found if one.gain is not None]
    given = [one for one in whole if one.consent in GIVEN]
    share = sorted(_shares((one.gain, one.oracle) for one in given))
    applied = sorted(_shares((one.gain, one.oracle) for one in given if not one.by_hand))
    safe = sorted(_shares((one.safe_gain, one.oracle) for one in given))
    harmed = [one.id for one in whole if one.harmed]
    unsafe = [one.id for one in whole if one.safe_gain is not None and one.safe_gain < HARM]
    errors = sorted(
        abs(1 / t.predicted - 1 / t.speedup)
        for one in whole
        for t in one.tried
        if t.predicted and t.speedup
    )
    lines = ["| what | here | target |", "|---|---|---|"]
    lines.append(f"| healed over oracle, median of {len(share)} | {_at(share, 0.5)} | ≥ 0.95 |")
    lines.append(f"| the same, 10th percentile | {_at(share, 0.1)} | ≥ 0.85 |")
    lines.append(f"| the median without those left to the user, {len(applied)} | "
                 f"{_at(applied, 0.5)} | |")  # fmt: skip
    lines.append(f"| their 10th percentile | {_at(applied, 0.1)} | |")
    lines.append(f"| slower by over 3 % with the plan, of {len(whole)} | {len(harmed)} | 0 |")
    lines.append(f"| slower by over 3 % with every safe fix | {len(unsafe)} | |")
    lines.append(f"| every safe fix over oracle, median | {_at(safe, 0.5)} | |")
    lines.append(f"| predicted beside measured step, median of {len(errors)} | "
                 f"{_at(errors, 0.5)} | ≤ 0.05 |")  # fmt: skip
    lines.append(f"| the same, 90th percentile | {_at(errors, 0.9)} | ≤ 0.15 |")
    return lines


def _shares(gains: Iterable[tuple[float | None, float | None]]) -> list[float]:
    """Of what the oracle gains, where that is worth anything."""
    return [gain / oracle for gain, oracle in gains if gain and oracle and oracle > WORTH]


def _at(values: Sequence[float], share: float) -> str:
    return f"{values[round(share * (len(values) - 1))]:.2f}" if values else "–"


def rows(found: Sequence[Healed]) -> list[str]:
    """Case by case."""
    lines = [
        "| case | oracle | plan | every safe fix | kept | not kept |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        kept = ", ".join(t.treatment for t in one.tried if t.kept)
        other = ", ".join(f"{t.treatment} ({t.why[:60]})" for t in one.tried if not t.kept)
        numbers = " | ".join(f"{x:.2f}" if x else "" for x in (one.oracle, one.gain, one.safe_gain))
        lines.append(f"| {one.id} | {numbers} | {kept or one.error[-80:]} | {other} |")
    return lines
