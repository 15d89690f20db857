"""Diagnoses of what was recorded, and comparisons of them."""

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
        paths: profiler traces, folders or zips of one job's ranks; or one diagnosis that was
            written as JSON, or the folder of a stored run.

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
    """The diagnosis of a stored run.

    Args:
        name: an id as ``whyidle runs`` lists it, or its beginning; ``last``, or ``last~1`` for the
            one before; or a file that was written as JSON.
        store: the folder of the store; the default is ``$WHYIDLE_HOME``, else ``.whyidle`` in the
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
    """What changed from one run to another, and whether it is real.

    Args:
        before: a diagnosis, a path that ``explain`` takes, or the name of a stored run.
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
