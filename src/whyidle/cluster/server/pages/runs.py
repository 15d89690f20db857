"""The stored runs, the newest first, with a search."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from urllib.parse import urlencode

from whyidle.cluster.server.run_index import RunFilter, RunRecord
from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Document

IN_A_PAGE: Final = 50
PERIODS: Final = {"1": "a day", "7": "a week", "30": "a month", "365": "a year"}
"""days -> words"""
STATES: Final = ("starved", "inefficient", "saturated", "inconclusive", "failed", "recording")


class RunList(Document, frozen=True, kw_only=True):
    """One page of the list. ``states`` counts all runs that may be seen by state."""

    runs: list[RunRecord]
    total: int
    page: int
    pages: int
    states: dict[str, int]
    stores: list[str]


def _read_list(question: Question) -> RunList:
    index, number = question.site.index, question.number("page", 1, 10_000)
    wanted = RunFilter(
        words=(question.value("q") or "")[:200].split()[:10],
        state=question.value("state"),
        store=question.value("store"),
        since=_read_moment(question),
    )
    runs, total = index.find_runs(wanted, limit=IN_A_PAGE, offset=(number - 1) * IN_A_PAGE)
    return RunList(
        runs=runs,
        total=total,
        page=number,
        pages=max(1, -(-total // IN_A_PAGE)),
        states=index.count_states(),
        stores=list(question.site.stores),
    )


def _read_moment(question: Question) -> str | None:
    days = question.number("days", 0, 36_500)
    if not days:
        return None
    moment = datetime.now(timezone.utc) - timedelta(days=days)
    return moment.isoformat(timespec="seconds")


def _describe_choices(question: Question, document: Any) -> Mapping[str, Any]:
    kept = [(name, value) for name, value in question.query if name != "page" and value]

    def link(number: int) -> str:
        return f"/runs?{urlencode([*kept, ('page', str(number))])}"

    chosen = {name: question.value(name) or "" for name in ("q", "state", "store", "days")}
    return {"chosen": chosen, "periods": PERIODS, "all_states": STATES, "link": link}


PAGE = Page(
    path="/runs",
    title="Runs",
    template="runs.html",
    document=RunList,
    read=_read_list,
    view=_describe_choices,
    section="runs",
)
