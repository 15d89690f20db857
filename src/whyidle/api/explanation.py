"""Diagnoses and comparisons of recordings."""

from __future__ import annotations

from pathlib import Path

from whyidle.api.documents import Comparison, Diagnosis
from whyidle.engine import compare as comparing
from whyidle.engine import explain as explaining
from whyidle.errors import UsageError
from whyidle.model import diagnosis
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


def compare(
    before: diagnosis.Diagnosis | str | Path,
    after: diagnosis.Diagnosis | str | Path,
    store: str | Path | None = None,
) -> Comparison:
    """Compare two runs: what changed, and whether the change exceeds the spread.

    Args:
        before: a diagnosis, a path for ``explain``, or the name of a stored run.
        after: the same.
        store: the folder of the store, as for ``load``.

    Raises:
        InputError: a path cannot be used.
        StoreError: there is no such run, or it cannot be read.
    """
    sides = (_find_diagnosis(before, store), _find_diagnosis(after, store))
    return Comparison.from_document(comparing.compare_diagnoses(*sides))


def _find_diagnosis(
    side: diagnosis.Diagnosis | str | Path, store: str | Path | None
) -> diagnosis.Diagnosis:
    if isinstance(side, diagnosis.Diagnosis):
        return side
    return explain(side) if Path(side).exists() else load(side, store)
