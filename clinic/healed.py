"""What healing cases shows, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clinic.card import GIVEN
from clinic.healing import Healed

WORTH = 1.02
"""times as fast: from here on a cure counts"""


HOW = """
* **oracle** is the cured twin, **plan** what `whyidle fix` handed over, applied by `whyidle run
  --plan`, **every safe fix** a check-list's plan: workers, garbage collector, fused optimizer,
  evaluation without gradients, checkpoints beside the training. Each runs in turn with the job as
  it is, under `whyidle run --profile off`, three times, for six seconds of training or as long as
  its sheet says, of which the first fifth does not count, and the job itself tells its rate:
  numbers are medians of pairs. Without a plan the job is as it was, 1.00.
* **healed over oracle** is the plan's rate beside the cured twin's of the same turn, the median of
  the pairs. It counts cases whose cure is worth over 2 % and changes no more than rounding. Its
  second pair of rows leaves out those whose sheet calls a part of the cure **advice**: what no
  process can be given while it runs, as something is done less often (evaluations, checkpoints,
  reports), elsewhere (more cores, a cooler device) or by other code. The sheet says so, not the
  product.
* **Slower** is one that has under 98 % of the sick job's rate, and less in every pair; where it has
  under 98 % there are up to five pairs.
* **Predicted beside measured**: of each fix that was tried, as shares of the sick step.
"""


def page(found: Sequence[Healed], command: str, made: str) -> str:
    """All of it; ``made`` says when and where."""
    emulated = sum(one.mode == "emulated" for one in found)
    device = f"**{emulated} of them ran on the emulated device, which is no GPU.**"
    lines = [
        f"# Healed by `whyidle fix`: {len(found)} jobs with known cures",
        "",
        f"Made on {made} by `{command}`.",
        *(["", device] if emulated else []),
        "",
        *score(found),
        "",
        "## Case by case",
        "",
        *rows(found),
        "",
        "## How it is computed",
        HOW,
    ]
    return "\n".join(lines)


def score(found: Sequence[Healed]) -> list[str]:
    """What the whole of it shows."""
    whole = [one for one in found if one.gain is not None]
    given = [one for one in whole if one.consent in GIVEN]
    worth = [one for one in given if one.oracle and one.oracle > WORTH]
    plain = [one for one in worth if not one.advice]
    share, applied = (_sorted(one.share for one in some) for some in (worth, plain))
    safe, safe_applied = (_sorted(one.safe_share for one in some) for some in (worth, plain))
    errors = sorted(_errors(whole))
    harmed, unsafe = sum(one.harmed for one in whole), sum(one.safe_harmed for one in whole)
    return [
        "| what | here | every safe fix | target |",
        "|---|---|---|---|",
        f"| healed over oracle, median of {len(share)} "
        f"| {_at(share, 0.5)} | {_at(safe, 0.5)} | ≥ 0.95 |",
        f"| the same, 10th percentile | {_at(share, 0.1)} | {_at(safe, 0.1)} | ≥ 0.85 |",
        f"| without advice, median of {len(applied)} "
        f"| {_at(applied, 0.5)} | {_at(safe_applied, 0.5)} | ≥ 0.95 |",
        f"| the same, 10th percentile | {_at(applied, 0.1)} | {_at(safe_applied, 0.1)} | ≥ 0.85 |",
        f"| left slower, of {len(whole)} | {harmed} | {unsafe} | 0 |",
        f"| predicted beside measured step, median of {len(errors)} "
        f"| {_at(errors, 0.5)} | | ≤ 0.05 |",
        f"| the same, 90th percentile | {_at(errors, 0.9)} | | ≤ 0.15 |",
        f"| failed | {len(found) - len(whole)} | | |",
    ]


def _errors(whole: Iterable[Healed]) -> Iterator[float]:
    """By how much of the step without it each trial went another way than was predicted."""
    tried = (t for one in whole for t in one.tried)
    yield from (abs(1 / t.predicted - 1 / t.speedup) for t in tried if t.predicted and t.speedup)


def _sorted(shares: Iterable[float | None]) -> list[float]:
    return sorted(share for share in shares if share is not None)


def _at(values: Sequence[float], share: float) -> str:
    return f"{values[round(share * (len(values) - 1))]:.2f}" if values else "–"


def rows(found: Sequence[Healed]) -> list[str]:
    """Case by case."""
    lines = [
        "| case | oracle | plan | every safe fix | kept | not kept |",
        "|---|---|---|---|---|---|",
    ]
    for one in found:
        kept = ", ".join(t.fix for t in one.tried if t.kept)
        other = ", ".join(f"{t.fix} ({t.why[:60]})" for t in one.tried if not t.kept)
        numbers = " | ".join(f"{x:.2f}" if x else "" for x in (one.oracle, one.gain, one.safe_gain))
        name = f"{one.id} (advice)" if one.advice else one.id
        lines.append(f"| {name} | {numbers} | {kept or one.error[-80:]} | {other} |")
    return lines
