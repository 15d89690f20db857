"""One user's part of the fleet: their GPU-hours, their jobs, and what they could change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyidle.cluster.server.pages.fleet import WORDS, read_report
from whyidle.cluster.server.site import NotFoundError, Page, Question
from whyidle.model.diagnosis import Document
from whyidle.model.documents.fleet import Advice, FleetJobRow, GroupRow


class UserDigest(Document, frozen=True, kw_only=True):
    """The rows of a fleet report that are of one user. ``jobs`` has those that waste most first."""

    user: str
    since: str
    until: str
    row: GroupRow
    jobs: list[FleetJobRow]
    advice: list[Advice]


def _read_digest(question: Question) -> UserDigest:
    report, user = read_report(question), question.path["user"]
    row = next((row for row in report.groups.get("user", []) if row.key == user), None)
    if row is None:
        raise NotFoundError(f"The report has no jobs of {user[:60]!r}.", hint="See the fleet.")
    jobs = [job for job in report.jobs if job.user == user]
    own = {job.job for job in jobs}
    return UserDigest(
        user=user,
        since=report.since,
        until=report.until,
        row=row,
        jobs=sorted(jobs, key=lambda job: -job.account.gpu_hours["wasted"]),
        advice=[one for one in report.advice if own.intersection(one.jobs)],
    )


def _add_words(question: Question, document: Any) -> Mapping[str, Any]:
    return WORDS


PAGE = Page(
    path="/fleet/users/{user}",
    title="User",
    summary="One user's part of the fleet: GPU-hours, jobs, and what could change.",
    template="user_digest.html",
    document=UserDigest,
    read=_read_digest,
    view=_add_words,
    section="fleet",
)
