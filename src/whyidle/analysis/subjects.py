"""What the fixes of a job can be about: its framework, Python, and what feeds it."""

from __future__ import annotations

from typing import Final

from whyidle.model.knobs import JAX, KERAS, LOADERS, PYTHON, TENSORFLOW, TORCH, Subject
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

COMPUTES: Final[dict[str, frozenset[Subject]]] = {
    "pytorch": frozenset({TORCH, LOADERS}),
    "tensorflow": frozenset({TENSORFLOW, KERAS}),
    "jax": frozenset({JAX}),
}
"""name of the framework that computes -> what comes with it"""
LOADER_CALLS: Final = (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS)


def find_subjects(timeline: Timeline) -> frozenset[Subject] | None:
    """Return the subjects of a recorded process; None where its framework is unknown, so that any
    may be present."""
    computes = COMPUTES.get(timeline.framework or "")
    if computes is None:
        return None
    process, subjects = timeline.process, {*computes, PYTHON}
    if process.py_dataset is not None:
        subjects.add(KERAS)
    if process.pipelines:
        subjects.add(TENSORFLOW)
    if timeline.loading.loaders or any(len(timeline.rows_of(role)) for role in LOADER_CALLS):
        subjects.add(LOADERS)
    return frozenset(subjects)
