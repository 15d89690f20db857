"""Reports the jobs of a command: the longest ones in full, each other one in a line.

A script may train several times, and so may each process that it forks. Of several jobs with the
same result only one is reported in full.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from whyidle.cli import _next_steps, _output
from whyidle.cli._options import STDOUT, store_of
from whyidle.errors import StoreError

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis
    from whyidle.store.entry import Entry

MAX_DETAILED = 3
"""jobs of a command that are reported in full"""
MIN_LENGTH = 0.05
"""share of the longest job's training time below which a job is reported in a line"""


class Job(NamedTuple):
    """A job's diagnosis and the id of its stored run (None: not stored)."""

    diagnosis: Diagnosis
    id: str | None


def report_jobs(args: argparse.Namespace, recording: Path, entry: Entry | None) -> Diagnosis:
    """Diagnose the jobs of a recording, store and report them; return that of the longest.

    Raises:
        InputError: there is nothing to diagnose, or an output cannot be written.
    """
    from whyidle.record.recording_diagnosis import diagnose_jobs

    diagnoses = diagnose_jobs(recording)
    jobs = [_store_job(args, document, entry, i) for i, document in enumerate(diagnoses)]
    order = list(range(len(jobs))) if args.all else choose_detailed_jobs(diagnoses)
    names = {number: turn for turn, number in enumerate(order, 1)}
    for number in sorted(order):
        _print_job(_numbered_options(args, names[number]), jobs[number], alone=len(jobs) == 1)
    rest = [job for number, job in enumerate(jobs) if number not in order]
    if rest and not args.quiet:
        _print_other_jobs(rest, args.store)
    return diagnoses[order[0]]


def choose_detailed_jobs(jobs: Sequence[Diagnosis]) -> list[int]:
    """Choose the jobs to report in full, the longest first, as indices."""
    length = [trained_s(job) for job in jobs]
    chosen: list[int] = []
    for number in sorted(range(len(jobs)), key=lambda number: -length[number]):
        is_new = all(_job_summary(jobs[number]) != _job_summary(jobs[i]) for i in chosen)
        if len(chosen) < MAX_DETAILED and is_new and length[number] >= MIN_LENGTH * max(length):
            chosen.append(number)
    return chosen


def trained_s(job: Diagnosis) -> float:
    """The time that a job trained, s: all its steps at the mean length of its steady steps."""
    return (job.steps.count + job.steps.warmup) * (job.steps.mean_s or 0.0)


def _job_summary(job: Diagnosis) -> object:
    """Verdict and first finding: jobs with the same summary are not reported twice."""
    first = next((finding for finding in job.findings if finding.severity != "info"), None)
    return job.verdict.state, first and (first.cause, first.where[:1])


def _store_job(
    args: argparse.Namespace, diagnosis: Diagnosis, entry: Entry | None, number: int
) -> Job:
    if entry is None:
        return Job(diagnosis, None)
    store = store_of(args)
    try:
        if number:
            entry = store.begin_run(diagnosis.run.command or [])
            diagnosis = diagnosis.with_id(entry.id)
        store.complete_run(entry, diagnosis)
    except StoreError as error:  # the report is printed even if the disk is full
        print(f"whyidle: not stored: {error.what} {error.why}", file=sys.stderr)
        return Job(diagnosis, None)
    return Job(diagnosis, entry.id)


def _print_job(args: argparse.Namespace, job: Job, *, alone: bool) -> None:
    stored = "last" if job.id and alone else job.id
    steps = _next_steps.next_steps(job.diagnosis, [], stored, args.store)
    _output.write_report(args, job.diagnosis, steps, stream=sys.stderr, stored=stored)


def _numbered_options(args: argparse.Namespace, turn: int) -> argparse.Namespace:
    if turn == 1:
        return args
    options = argparse.Namespace(**vars(args))
    for form in _output.FORMS:
        setattr(options, form, _number_path(getattr(args, form), turn))
    options.export = [
        (form, _number_path(target, turn)) for form, target in args.export if target != STDOUT
    ]
    return options


def _number_path(target: str | None, turn: int) -> str | None:
    if target is None or target == STDOUT:  # standard output is the first document's
        return None
    path = Path(target)
    return str(path.with_name(f"{path.stem}-{turn}{path.suffix}"))


def _print_other_jobs(jobs: Sequence[Job], store: Path | None) -> None:
    from whyidle.reports.terminal import in_brief

    rows = [(job.id or "", job.diagnosis) for job in jobs]
    option = _next_steps.store_option(store)
    steps = [(f"whyidle report RUN{option}", "one of them in full")] if rows[0][0] else []
    text = in_brief(
        rows,
        width=_output.output_width(),
        colours=_output.stream_colours(sys.stderr),
        next_steps=steps,
    )
    sys.stderr.write(text)
    sys.stderr.flush()
