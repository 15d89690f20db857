"""Diagnoses and comparisons of recordings."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias, overload

from whyidle.api.documents import Comparison, Diagnosis, RunTable
from whyidle.errors import UsageError
from whyidle.model import diagnosis
from whyidle.recordings import explain as explaining
from whyidle.runs.run_table import build_run_table
from whyidle.store.location import locate_store


def explain(*paths: str | Path) -> Diagnosis:
    """Diagnose recorded evidence. Nothing is stored.

    Args:
        paths: profiler traces, folders or zips of one job's ranks; or one diagnosis written as
            JSON, or the folder of a stored run.

    Raises:
        UsageError: no path was given.
        InputError: a path cannot be used.
        StoreError: a diagnosis cannot be read.
    """
    if not paths:
        raise UsageError("There is no recording to explain.", hint="whyidle.explain(PATH)")
    explanation = explaining.explain_paths([Path(path) for path in paths])
    return Diagnosis.from_document(explanation.diagnosis)


def load(name: str | Path = "last", store: str | Path | None = None) -> Diagnosis:
    """Load the diagnosis of a stored run.

    Args:
        name: an id from ``whyidle runs`` or its beginning; ``last``, or ``last~1`` for the run
            before; or a file written as JSON.
        store: the folder of the store; the default is ``$WHYIDLE_HOME``, or ``.whyidle`` in the
            working directory.

    Raises:
        StoreError: there is no such run, or it cannot be read.
    """
    if explaining.document_at(Path(name)) is not None:
        return explain(name)
    return explain(locate_store(store).find_run(str(name)).path)


Run: TypeAlias = "diagnosis.Diagnosis | str | Path"


@overload
def compare(before: Run, after: Run, /, *, store: str | Path | None = None) -> Comparison: ...
@overload
def compare(*runs: Run, store: str | Path | None = None) -> Comparison | RunTable: ...
def compare(*runs: Run, store: str | Path | None = None) -> Comparison | RunTable:
    """Compare runs: what changed between two, and whether the change exceeds the spread; three or
    more in a table.

    Args:
        runs: each a diagnosis, a path for ``explain``, or the name of a stored run.
        store: the folder of the store, as for ``load``.

    Raises:
        UsageError: there are fewer than two runs.
        InputError: a path cannot be used.
        StoreError: there is no such run, or it cannot be read.
    """
    if len(runs) < 2:
        raise UsageError("There is nothing to compare.", hint="whyidle.compare(BEFORE, AFTER)")
    table = build_run_table([_find_diagnosis(run, store) for run in runs])
    if len(runs) == 2:
        return Comparison.from_document(table.comparisons[0])
    return RunTable.from_document(table)


def _find_diagnosis(side: Run, store: str | Path | None) -> diagnosis.Diagnosis:
    if isinstance(side, diagnosis.Diagnosis):
        return side
    return explain(side) if Path(side).exists() else load(side, store)
