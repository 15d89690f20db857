"""What is known of cases, said and written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from clinic.card import Mode
from clinic.outcome import Outcome, Results
from clinic.page.picture import matrix
from clinic.page.report import judged, page
from clinic.score import Pair, marks
from clinic.turns import Job

Known = dict[tuple[str, Mode], Outcome]
"""by case and mode"""


def loaded(jobs: Sequence[Job], results: Results, oracle: bool) -> Known:
    """What was kept of cases; where an ``oracle`` is asked for, only with their cures timed."""
    known = {(case.id, mode): results.load(case, mode, oracle) for case, mode in jobs}
    return {key: outcome for key, outcome in known.items() if outcome}


def paired(jobs: Sequence[Job], known: Known) -> list[Pair]:
    """Cases with their outcomes, of which there is one."""
    return [(case, known[case.id, mode]) for case, mode in jobs if (case.id, mode) in known]


def say(
    args: argparse.Namespace, pairs: Sequence[Pair], results: Results, missing: int = 0
) -> None:
    """Print the page, and write it where that is asked for."""
    print(page(pairs, _words(args), missing=missing, real=_real(pairs, results)))
    write(args, pairs, results, missing)


def write(args: argparse.Namespace, pairs: Sequence[Pair], results: Results, missing: int) -> None:
    """The page and its picture, where they are asked for."""
    if not args.write:
        return
    picture = args.write.with_suffix(".svg")
    drawn = matrix(marks("whyidle", judged(pairs)))
    args.write.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(drawn, encoding="utf-8")
    text = page(pairs, _words(args), picture.name, missing, _real(pairs, results))
    args.write.write_text(text, encoding="utf-8")


def _real(pairs: Sequence[Pair], results: Results) -> dict[str, Outcome]:
    """What a GPU showed of emulated cases, where one was at hand."""
    emulated = [case for case, outcome in pairs if outcome.mode == "emulated"]
    return {case.id: one for case in emulated if (one := results.elsewhere(case, "gpu"))}


def _words(args: argparse.Namespace) -> str:
    """What was typed, but for where things lie."""
    words = f"python -m clinic run --mode {args.mode}"
    words += f" --reseed {args.reseed}" if args.reseed is not None else ""
    words += " --fixed-subset" if args.fixed_subset else ""
    words += f" --cases {' '.join(args.cases)}" if args.cases else ""
    return words + (" --no-oracle" if args.no_oracle else "")
