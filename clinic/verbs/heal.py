"""Cases are healed."""

from __future__ import annotations

import argparse

from clinic.healed import rows, score
from clinic.healing import heal
from clinic.outcome import Results
from clinic.verbs import FAILED
from clinic.verbs._chosen import startable


def healed(args: argparse.Namespace) -> int:
    """Fix cases, print how far that heals them"""
    jobs, results = startable(args), Results(args.results)
    found = []
    for number, (case, mode) in enumerate(jobs, 1):
        one = heal(case, mode, results, float(args.budget), args.lock)
        found.append(one)
        kept = ", ".join(trial.treatment for trial in one.tried if trial.kept)
        said = f"x{one.gain:.2f}" if one.gain else one.error[-120:]
        oracle = f" of x{one.oracle:.2f}" if one.oracle else ""
        print(f"[{number}/{len(jobs)}] {case.id} {said}{oracle} {kept}", flush=True)
    text = "\n".join([*score(found), "", *rows(found)])
    print(text)
    if args.write:
        args.write.write_text(f"{text}\n", encoding="utf-8")
    return FAILED if any(one.error for one in found) else 0
