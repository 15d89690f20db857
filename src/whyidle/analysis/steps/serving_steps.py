"""The steps that a serving engine marks. Tools that patch an engine add marks in vLLM's form beside
its own, which count."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.integer_codes import is_among
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline


def serving_steps(timeline: Timeline) -> tuple[str | None, I64]:
    """Return the engine and its marks (host rows); None and no rows without any."""
    rows = timeline.rows_of(Role.SERVING_STEP)
    engines: dict[str, list[int]] = {}
    for name in np.unique(timeline.host.name[rows]).tolist():
        parts = timeline.vocabulary.parts(Role.SERVING_STEP, timeline.names[name])
        for engine in (key for key, text in parts.items() if text):
            engines.setdefault(engine, []).append(name)
    if not engines:
        return None, rows[:0]
    engine = min(engines)  # vLLM comes last
    return engine, rows[is_among(timeline.host.name[rows], engines[engine])]
