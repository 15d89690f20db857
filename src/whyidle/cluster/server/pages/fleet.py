"""The fleet: what became of the cluster's allocated GPU-hours, and whose they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from whyidle.cluster.server.site import NothingYetError, Page, Question
from whyidle.model.documents.fleet import FLEET_STATES, FleetReport
from whyidle.reports._fleet_page import MEANINGS, describe_money, describe_total, format_hours

KEYS: Final = ("user", "partition", "node", "job")
WORDS: Final[dict[str, Any]] = {
    "fleet_states": FLEET_STATES,
    "meanings": MEANINGS,
    "hours": format_hours,
}
"""what templates of fleets need"""


def read_report(question: Question) -> FleetReport:
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


def _describe_report(question: Question, document: Any) -> Mapping[str, Any]:
    by = question.value("by")
    by = by if by in KEYS else "user"
    words = {
        "money": describe_money(document),
        "headline": describe_total(document.total.gpu_hours),
    }
    return {**WORDS, **words, "by": by, "keys": KEYS}


PAGE = Page(
    path="/fleet",
    title="Fleet",
    template="fleet.html",
    document=FleetReport,
    read=read_report,
    view=_describe_report,
    section="fleet",
)
