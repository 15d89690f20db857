"""The page of results, in Markdown; what is printed is the same text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from clinic.account import accounted, validity
from clinic.card import Mode
from clinic.outcome import Outcome, machine, timed
from clinic.page.cost import cost
from clinic.page.listing import listed
from clinic.page.tables import families, frameworks, predictions, rivals
from clinic.page.targets import targets
from clinic.rivals import DOCTORS
from clinic.score import Pair, Score, score
from clinic.sittings import sittings

HOW = Path(__file__).with_name("how.md")


def page(
    pairs: Sequence[Pair],
    command: str,
    picture: str = "",
    missing: int = 0,
    real: Mapping[str, Outcome] = MappingProxyType({}),
) -> str:
    """All of it; ``real`` are outcomes on a GPU, by case, which emulated ones are held against."""
    found, modes = score(_counted(pairs)), _modes(pairs)
    counted: dict[Mode, Score] = {m: one for m, one in modes.items() if m != "recorded"}
    counted = counted if len(counted) > 1 else {}
    emulated = [pair for pair in judged(pairs) if pair[1].mode == "emulated"]
    made = max((outcome.made for _, outcome in pairs), default="")
    lines = [
        f"# The clinic: {len(pairs)} jobs with known truth",
        "",
        f"Made on {made[:10]} by `{command}` on {machine()}.",
        "How each number is computed stands below, and in `clinic/README.md`.",
        "",
        *_reserve(pairs, missing),
        *targets(found, modes),
        *rivals(found, counted),
        *families(found, counted),
        *frameworks(_counted(pairs)),
        *predictions(found, counted),
        *(accounted(found.attribution) if found.attribution else ()),
        *(validity(emulated, real) if emulated else ()),
        *cost(found, counted, sittings(outcome for _, outcome in pairs), missing),
        *([f"![What was planted, and what was named first]({picture})", ""] if picture else []),
        *listed(pairs),
        *_how(),
    ]
    return "\n".join(lines)


def judged(pairs: Sequence[Pair]) -> list[Pair]:
    """Those that count, and did not fail."""
    return [(case, outcome) for case, outcome in _counted(pairs) if not outcome.error]


def _counted(pairs: Sequence[Pair]) -> list[Pair]:
    """Recordings of other people guard, they do not prove: beside other jobs they do not count."""
    own = [pair for pair in pairs if pair[1].mode != "recorded"]
    return own or list(pairs)


def _modes(pairs: Sequence[Pair]) -> dict[Mode, Score]:
    """The score of each mode, where there are several."""
    modes = dict.fromkeys(outcome.mode for _, outcome in pairs)
    if len(modes) < 2:
        return {}
    return {mode: score(pair for pair in pairs if pair[1].mode == mode) for mode in modes}


def _reserve(pairs: Sequence[Pair], missing: int) -> Iterator[str]:
    """What speaks against the numbers."""
    emulated = sum(outcome.mode == "emulated" for _, outcome in pairs)
    if emulated:
        many = "All jobs" if emulated == len(pairs) else f"{emulated} of these jobs"
        yield f"**{many} ran on the emulated device (`docs/emulated.md`), which is no GPU.** What"
        yield "is told of them stands by itself under that word; no number of theirs is a GPU's."
        yield ""
    if missing:
        yield from (f"**{missing} more cases of this mode were not run.**", "")
    untimed = sum(timed(c) and not outcome.gains and not outcome.error for c, outcome in pairs)
    if untimed:
        yield f"**The cures of {untimed} cases were not timed: these count as what is planted.**"
        yield ""
    versions = {outcome.product for _, outcome in pairs}
    if len(versions) > 1:
        yield f"**Outcomes of {len(versions)} versions of whyidle stand side by side here.**"
        yield ""


def _how() -> Iterator[str]:
    yield HOW.read_text(encoding="utf-8").rstrip()
    for name, doctor in DOCTORS.items():
        yield f"* **{name}**: {' '.join((doctor.__doc__ or '').split())}"
    yield ""
