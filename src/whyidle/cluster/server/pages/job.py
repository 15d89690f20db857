"""A job that runs under ``whyidle run``, followed until it ends."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from whyidle.cluster.server.live_jobs import Status, status_of
from whyidle.cluster.server.run_index import describe_entry
from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Attribution, Document
from whyidle.model.documents.watch_document import GpuState, Reason, WatchedJob, WatchedSteps
from whyidle.model.live.job_news import JobNews
from whyidle.store.entry import DIAGNOSIS, RECORDING


class LiveJob(Document, frozen=True, kw_only=True):
    """One run while it runs. ``job`` are its processes, where it runs on the server's machine;
    ``headline`` and ``report``, the path of its report, are there when it has ended."""

    run: str
    command: str
    created: str
    status: Status
    steps: WatchedSteps | None
    state: GpuState | None
    reason: Reason | None
    job: WatchedJob | None
    headline: str | None
    report: str | None


def _read_job(question: Question) -> LiveJob:
    site, run = question.site, question.path["run"]
    _, entry = question.find_run(run)
    status = status_of(entry)
    news: JobNews | None = None
    if status == "running":
        news = site.jobs.look(entry.path / RECORDING)
    machine = site.monitor.machine
    jobs = machine.jobs if machine else []
    return LiveJob(
        run=run,
        command=shlex.join(entry.meta.command or []) if entry.meta else "",
        created=entry.meta.created if entry.meta else "",
        status=status,
        steps=news.steps if news else None,
        state=news.state if news else None,
        reason=news.reason if news else None,
        job=next((job for job in jobs if job.steps and job.steps.run == run), None),
        headline=entry.meta.headline if entry.meta and status == "ended" else None,
        report=f"/runs/{run}" if (entry.path / DIAGNOSIS).exists() else None,
    )


def _find_shares(question: Question, document: Any) -> Mapping[str, Any]:
    shares = document.steps.shares if document.steps else None
    attribution = Attribution(**shares) if shares else None
    if document.report:
        _, entry = question.find_run(document.run)
        attribution = describe_entry("", entry).attribution
    return {"attribution": attribution}


PAGE = Page(
    path="/jobs/{run}",
    title="Job",
    template="job.html",
    document=LiveJob,
    read=_read_job,
    view=_find_shares,
    is_over=lambda job: job.status in ("ended", "lost"),
    section="runs",
    live=True,
)
