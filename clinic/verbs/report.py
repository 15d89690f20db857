"""The score of what is known, without running anything."""

from __future__ import annotations

import argparse
import sys

from clinic.outcome import Results
from clinic.verbs._chosen import chosen
from clinic.verbs._outcomes import loaded, paired, say


def report(args: argparse.Namespace) -> int:
    """Print the score of what is known"""
    jobs, results = chosen(args), Results(args.results)
    known = loaded(jobs, results, False)
    if not (args.no_oracle or args.fixed_subset):
        known |= loaded(jobs, results, True)  # where cures were timed, with that
    if args.any_version:
        latest = {(case.id, mode): results.latest(case, mode) for case, mode in jobs}
        known = {key: outcome for key, outcome in latest.items() if outcome} | known
    missing = len(jobs) - len(known)
    if missing:
        print(f"clinic: {missing} cases have no outcome by this version", file=sys.stderr)
    say(args, paired(jobs, known), results, missing)
    return 0
