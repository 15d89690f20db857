"""Puts several diagnoses side by side, each compared with a baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePath

from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.comparison import SAME_SIZE, Comparison, StepChange
from whyidle.model.documents.run_table import RunRow, RunTable
from whyidle.runs.compare import (
    compare_diagnoses,
    explain_missing_kernels,
    list_subjects,
    steady_lengths,
)
from whyidle.version import __version__

_PYTHON = ("python", "torchrun", "accelerate")


def name_runs(diagnoses: Sequence[Diagnosis]) -> list[str]:
    """Name each run by its script or file. Where several have the same name, the framework, the
    arguments that not all runs share, and a number are added."""
    common = set.intersection(*(set(_arguments(diagnosis)) for diagnosis in diagnoses))
    names = [_script_name(diagnosis) for diagnosis in diagnoses]
    more: list[Callable[[Diagnosis], str]] = [
        lambda diagnosis: diagnosis.run.framework or "",
        lambda diagnosis: " ".join(a for a in _arguments(diagnosis) if a not in common),
    ]
    for describe in more:
        names = _extend_duplicates(names, [describe(diagnosis) for diagnosis in diagnoses])
    return _number_duplicates(names)


def _extend_duplicates(names: list[str], parts: list[str]) -> list[str]:
    """Names with their part, where runs of one name have different parts."""
    extended = []
    for name, part in zip(names, parts, strict=True):
        theirs = {p for n, p in zip(names, parts, strict=True) if n == name}
        extended.append(f"{name} {part}".strip() if len(theirs) > 1 else name)
    return extended


def _number_duplicates(names: list[str]) -> list[str]:
    counts, seen = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} #{seen[name]}" if counts[name] > 1 else name)
    return numbered


def _script_name(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    if not run.command:
        return PurePath([*list_subjects(run), run.id or "run"][0]).name
    words = run.command[_script_index(run.command) :]
    return PurePath(words[1] if words[0] == "-m" and len(words) > 1 else words[0]).name


def _arguments(diagnosis: Diagnosis) -> list[str]:
    """The words after the script."""
    command = diagnosis.run.command or []
    return command[_script_index(command) + 1 :] if command else []


def _script_index(command: list[str]) -> int:
    """The position of the script or of ``-m``; of the program if it is no Python."""
    if not PurePath(command[0]).name.startswith(_PYTHON):
        return 0
    for index, word in enumerate(command[1:], 1):
        if word == "-m" or word.endswith(".py"):
            return index
    return 0


def build_run_table(diagnoses: Sequence[Diagnosis], baseline: int = 0) -> RunTable:
    """Compare every run with ``diagnoses[baseline]``."""
    names, base = name_runs(diagnoses), diagnoses[baseline]
    comparisons = [
        None if number == baseline else compare_diagnoses(base, diagnosis)
        for number, diagnosis in enumerate(diagnoses)
    ]
    rows = [
        _describe_run(name, diagnosis, comparison.step if comparison else None)
        for name, diagnosis, comparison in zip(names, diagnoses, comparisons, strict=True)
    ]
    compared = [comparison for comparison in comparisons if comparison]
    return RunTable(
        whyidle=__version__,
        baseline=names[baseline],
        runs=rows,
        comparisons=compared,
        notes=_table_notes(rows, compared, diagnoses, base),
    )


def _describe_run(name: str, diagnosis: Diagnosis, change: StepChange | None) -> RunRow:
    run, steps, used = diagnosis.run, diagnosis.steps, diagnosis.utilization
    first = next((f for f in diagnosis.findings if f.severity != "info"), None)
    times = diagnosis.detail.step_times_s
    return RunRow(
        name=name,
        run=run.id,
        sources=list_subjects(run),
        folder=(run.folder or "").rstrip("/") or None,
        framework=run.framework,
        device=diagnosis.device,
        state=diagnosis.verdict.state,
        headline=diagnosis.verdict.headline,
        cause=first.cause if first else None,
        finding=(first.title or first.headline) if first else "",
        where=first.where[0] if first and first.where else None,
        first_step_s=times[0] if run.command and times and steps.detected_by else None,
        step_s=steps.mean_s,
        p50_s=steps.p50_s,
        p95_s=steps.p95_s,
        steps=steps.count,
        samples_per_s=steps.samples_per_s,
        host_memory_peak_bytes=used.host_memory_peak_bytes,
        device_memory_peak_bytes=used.memory_peak_bytes,
        attribution=diagnosis.attribution,
        host_s=None if steps.mean_s is None else diagnosis.attribution.host * steps.mean_s,
        change=change,
        step_times_s=steady_lengths(diagnosis),
    )


def _table_notes(
    rows: list[RunRow], comparisons: list[Comparison], runs: Sequence[Diagnosis], base: Diagnosis
) -> list[str]:
    sizes = [size for row in rows if (size := row.samples_per_step)]
    notes = []
    if sizes and max(sizes) > min(sizes) * (1 + SAME_SIZE):
        notes.append(
            f"steps have {min(sizes):.0f} to {max(sizes):.0f} samples: compare samples per second"
        )
    kernels = {explain_missing_kernels(base, run) for run in runs}
    found = [note for one in comparisons for note in one.notes if note not in kernels]
    return notes + list(dict.fromkeys(found))
