"""What is said of a command's jobs: those that tell most in full, a line of each other one.

A script may train several times, and so may every child that it forks. Nobody reads nine reports:
the jobs that trained longest are told, and of those that would say the same again only one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import STDOUT
from whyidle.cli._store import store_of
from whyidle.errors import StoreError

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis
    from whyidle.store.entry import Entry

MOST = 3
"""jobs of a command that are told in full"""
LEAST = 0.05
"""of the time that the longest job trained: shorter ones are told in a line"""


class Job(NamedTuple):
    """A job's diagnosis, and the id under which it can be read again (None: nowhere)."""

    diagnosis: Diagnosis
    id: str | None


def report_jobs(args: argparse.Namespace, recording: Path, entry: Entry | None) -> None:
    """Diagnose, keep and say.

    Raises:
        InputError: there is nothing to diagnose, or an output cannot be written.
    """
    from whyidle.engine.recording.recording_diagnosis import diagnose_jobs

    found = diagnose_jobs(recording)
    jobs = [_store_job(args, diagnosis, entry, number) for number, diagnosis in enumerate(found)]
    order = list(range(len(jobs))) if args.all else choose_detailed_jobs(found)
    names = {number: turn for turn, number in enumerate(order, 1)}
    for number in sorted(order):
        _print_job(_numbered_options(args, names[number]), jobs[number], alone=len(jobs) == 1)
    rest = [job for number, job in enumerate(jobs) if number not in order]
    if rest and not args.quiet:
        _print_other_jobs(rest, args.store)


def choose_detailed_jobs(jobs: Sequence[Diagnosis]) -> list[int]:
    """Which jobs are told in full, by how long they trained."""
    length = [trained_s(job) for job in jobs]
    told: list[int] = []
    for number in sorted(range(len(jobs)), key=lambda number: -length[number]):
        news = all(_job_summary(jobs[number]) != _job_summary(jobs[other]) for other in told)
        if len(told) < MOST and news and length[number] >= LEAST * max(length):
            told.append(number)
    return told


def trained_s(job: Diagnosis) -> float:
    """How long a job trained, s: all its steps at the length of its steady ones."""
    return (job.steps.count + job.steps.warmup) * (job.steps.mean_s or 0.0)


def _job_summary(job: Diagnosis) -> object:
    """What a reader takes home: jobs of which this is the same say the same."""
    first = next((one for one in job.findings if one.severity != "info"), None)
    return job.verdict.state, first and (first.cause, first.where[:1])


def _store_job(
    args: argparse.Namespace, diagnosis: Diagnosis, entry: Entry | None, number: int
) -> Job:
    """Put a diagnosis into the store: the first beside the evidence, a run for each other."""
    from msgspec.structs import replace

    if entry is None:
        return Job(diagnosis, None)
    store, found, kept = store_of(args), diagnosis, entry
    try:
        if number:
            kept = store.begin_run(diagnosis.run.command or [])
            found = replace(diagnosis, run=replace(diagnosis.run, id=kept.id))
        store.complete_run(kept, found)
    except StoreError as error:  # a disk that is full costs what is kept, not what is said
        print(f"whyidle: not stored: {error.what} {error.why}", file=sys.stderr)
        return Job(found, None)
    return Job(found, kept.id)


def _print_job(args: argparse.Namespace, job: Job, *, alone: bool) -> None:
    stored = "last" if job.id and alone else job.id
    steps = _next_steps.next_steps(job.diagnosis, [], stored, args.store)
    _output.write_report(args, job.diagnosis, steps, stream=sys.stderr, stored=stored)


def _numbered_options(args: argparse.Namespace, turn: int) -> argparse.Namespace:
    """The options, with a number in the name of every output but the first job's."""
    if turn == 1:
        return args
    named = argparse.Namespace(**vars(args))
    for form in _output.FORMS:
        setattr(named, form, _numbered(getattr(args, form), turn))
    named.export = [(form, _numbered(target, turn)) for form, target in args.export]
    return named


def _numbered(target: str | None, turn: int) -> str | None:
    if target is None or target == STDOUT:
        return target
    path = Path(target)
    return str(path.with_name(f"{path.stem}-{turn}{path.suffix}"))


def _print_other_jobs(jobs: Sequence[Job], store: Path | None) -> None:
    from whyidle.exporters.terminal import in_brief

    rows = [(job.id or "", job.diagnosis) for job in jobs]
    option = _next_steps.store_option(store)
    steps = [(f"whyidle report RUN{option}", "any of them in full")] if rows[0][0] else []
    text = in_brief(
        rows,
        width=_output.output_width(),
        colours=_output.stream_colours(sys.stderr),
        next_steps=steps,
    )
    sys.stderr.write(text)
    sys.stderr.flush()
