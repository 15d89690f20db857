"""Cases are healed."""

from __future__ import annotations

import argparse
from datetime import date

from clinic.healed import page
from clinic.healing import heal
from clinic.outcome import Results, machine
from clinic.verbs import FAILED
from clinic.verbs._chosen import drawn, startable


def healed(args: argparse.Namespace) -> int:
    """Fix cases, print how far that heals them"""
    jobs, results = startable(args), Results(args.results)
    jobs = drawn(jobs, args.reseed) if args.sample else jobs
    found = []
    for number, (case, mode) in enumerate(jobs, 1):
        one = heal(case, mode, results, float(args.budget), args.lock)
        found.append(one)
        kept = ", ".join(trial.fix for trial in one.tried if trial.kept)
        said = f"x{one.gain:.2f}" if one.gain else one.error[-120:]
        oracle = f" of x{one.oracle:.2f}" if one.oracle else ""
        print(f"[{number}/{len(jobs)}] {case.id} {said}{oracle} {kept}", flush=True)
    text = page(found, _words(args), f"{date.today()} on {machine()}")
    print(text)
    if args.write:
        args.write.parent.mkdir(parents=True, exist_ok=True)
        args.write.write_text(text, encoding="utf-8")
    return FAILED if any(one.error for one in found) else 0


def _words(args: argparse.Namespace) -> str:
    words = f"python -m clinic heal --mode {args.mode} --budget {args.budget}"
    words += f" --reseed {args.reseed}" if args.reseed is not None else ""
    return words + (" --sample" if args.sample else "")
