"""The fleet: what became of the cluster's allocated GPU-hours, and whose they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyidle.cluster.server.site import NothingYetError, Page, Question
from whyidle.model.documents.fleet import FleetReport
from whyidle.reports._fleet_page import report_parts
from whyidle.reports._html.sections import render_parts


def _read_report(question: Question) -> FleetReport:
    """The report that the server was given.

    Raises:
        NothingYetError: it was given none.
        InputError: it cannot be read.
    """
    report = question.site.fleet.read()
    if report is None:
        raise NothingYetError(
            "The server has no fleet report.",
            why="Have a timer write one: whyidle fleet report --ledger slurm ... --json "
            "fleet.json. "
            "It is reloaded when it changes.",
            hint="whyidle serve --fleet fleet.json",
        )
    return report


def _render_report(question: Question, document: Any) -> Mapping[str, Any]:
    return {"sections": render_parts(report_parts(document))}


PAGE = Page(
    path="/fleet",
    title="Fleet",
    template="fleet.html",
    document=FleetReport,
    read=_read_report,
    view=_render_report,
    section="fleet",
)
