"""Any two or more runs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from whyidle.cluster.server.site import NotFoundError, Page, Question, RefusedError
from whyidle.errors import StoreError
from whyidle.model.documents.run_table import RunTable
from whyidle.reports._html.sections import render_parts
from whyidle.reports._run_table import table_parts
from whyidle.runs.run_table import build_run_table

MOST_RUNS: Final = 20


def _read_table(question: Question) -> RunTable:
    names = list(dict.fromkeys(question.values("run")))
    if not 2 <= len(names) <= MOST_RUNS:
        raise RefusedError(
            f"2 to {MOST_RUNS} runs can be compared, not {len(names)}.",
            hint="Select them in the list of runs.",
        )
    diagnoses = []
    for name in names:
        store, entry = question.find_run(name)
        try:
            diagnoses.append(store.read_diagnosis(entry).without_secrets())
        except StoreError as error:
            raise NotFoundError(f"The run {name} has no diagnosis.", why=error.why) from error
    baseline = question.value("baseline")
    return build_run_table(diagnoses, names.index(baseline) if baseline in names else 0)


def _render_table(question: Question, document: Any) -> Mapping[str, Any]:
    return {"sections": render_parts(table_parts(document)), "names": question.values("run")}


PAGE = Page(
    path="/compare",
    title="Comparison",
    template="compare.html",
    document=RunTable,
    read=_read_table,
    view=_render_table,
    section="runs",
)
