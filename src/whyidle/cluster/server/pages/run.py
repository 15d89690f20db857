"""One run: the report of its diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyidle.cluster.server.site import NotFoundError, Page, Question
from whyidle.errors import StoreError
from whyidle.model.diagnosis import Diagnosis
from whyidle.reports.html import render_parts


def _read_run(question: Question) -> Diagnosis:
    store, entry = question.find_run(question.path["run"])
    try:
        return store.read_diagnosis(entry).without_secrets()
    except StoreError as error:
        if entry.meta is not None and entry.meta.state == "recording":
            raise NotFoundError(
                f"The run {entry.id} has no diagnosis yet.",
                why="It is running, or was killed.",
                hint=f"whyidle report {entry.id}",
            ) from error
        raise


def _render_report(question: Question, document: Any) -> Mapping[str, Any]:
    _, entry = question.find_run(question.path["run"])
    return {"parts": render_parts(document), "entry": entry}


PAGE = Page(
    path="/runs/{run}",
    title="Run",
    template="run.html",
    document=Diagnosis,
    read=_read_run,
    view=_render_report,
    section="runs",
)
