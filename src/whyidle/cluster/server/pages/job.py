"""A job that runs under ``whyidle run``, followed until it ends."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from whyidle.cluster.server.live_jobs import Status, status_of
from whyidle.cluster.server.run_index import describe_entry
from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Attribution, Document
from whyidle.model.documents.watch_document import GpuState, Reason, WatchedJob, WatchedSteps
from whyidle.model.live.job_news import JobNews
from whyidle.reports._html.element import Markup, tag
from whyidle.store.entry import DIAGNOSIS, RECORDING

WIDTH, HEIGHT = 1040, 120
"""of the picture of step times"""


class LiveJob(Document, frozen=True, kw_only=True):
    """One run while it runs. ``trend_s`` are its step times at the last looks; ``job`` its
    processes, where it runs on the server's machine; ``headline`` and ``report``, the path of its
    report, are there when it has ended."""

    run: str
    command: str
    created: str
    status: Status
    steps: WatchedSteps | None
    state: GpuState | None
    reason: Reason | None
    trend_s: list[float]
    job: WatchedJob | None
    headline: str | None
    report: str | None


def _read_job(question: Question) -> LiveJob:
    site, run = question.site, question.path["run"]
    _, entry = question.find_run(run)
    status = status_of(entry)
    news: JobNews | None = None
    trend: list[float] = []
    if status == "running":
        news, trend = site.jobs.look(entry.path / RECORDING)
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
        trend_s=trend,
        job=next((job for job in jobs if job.steps and job.steps.run == run), None),
        headline=entry.meta.headline if entry.meta and status == "ended" else None,
        report=f"/runs/{run}" if (entry.path / DIAGNOSIS).exists() else None,
    )


def _draw_job(question: Question, document: Any) -> Mapping[str, Any]:
    shares = document.steps.shares if document.steps else None
    attribution = Attribution(**shares) if shares else None
    if document.report:
        _, entry = question.find_run(document.run)
        attribution = describe_entry("", entry).attribution
    return {"attribution": attribution, "picture": draw_trend(document.trend_s)}


def draw_trend(seconds: Sequence[float]) -> Markup | None:
    """The step times at the last looks, as a line above zero."""
    if len(seconds) < 2:
        return None
    top = max(seconds) * 1.15 or 1.0
    across = WIDTH / (len(seconds) - 1)
    points = " ".join(
        f"{number * across:.1f},{HEIGHT - second / top * HEIGHT:.1f}"
        for number, second in enumerate(seconds)
    )
    area = tag("polygon", points=f"0,{HEIGHT} {points} {WIDTH},{HEIGHT}", class_="area")
    return tag(
        "svg",
        area,
        tag("polyline", points=points, class_="line", vector_effect="non-scaling-stroke"),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        class_="trend",
        role="img",
        aria_label=f"Step time at the last {len(seconds)} looks",
    )


PAGE = Page(
    path="/jobs/{run}",
    title="Job",
    template="job.html",
    document=LiveJob,
    read=_read_job,
    view=_draw_job,
    is_over=lambda job: job.status in ("ended", "lost"),
    section="runs",
    live=True,
)
