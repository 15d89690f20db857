"""What happens now: this machine's GPUs over the last hour, and the jobs that run."""

from __future__ import annotations

from whyidle.cluster.server.machine_monitor import Strip
from whyidle.cluster.server.run_index import RunFilter, RunRecord
from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Document
from whyidle.model.documents.watch_document import WatchedMachine


class Now(Document, frozen=True, kw_only=True):
    """The first page. ``machine`` is None before the first look; ``wasted_gpu_minutes`` are those
    of the last hour in which somebody held a GPU that did nothing."""

    machine: WatchedMachine | None
    strips: list[Strip]
    wasted_gpu_minutes: float
    running: list[RunRecord]
    recent: list[RunRecord]


def _read_now(question: Question) -> Now:
    site = question.site
    runs, _ = site.index.find_runs(RunFilter(), limit=8)
    running = site.running_runs()
    shown = {run.id for run in running}
    return Now(
        machine=question.machine(),
        strips=site.monitor.strips(),
        wasted_gpu_minutes=site.monitor.wasted_gpu_minutes(),
        running=running,
        recent=[run for run in runs if run.id not in shown],
    )


PAGE = Page(
    path="/",
    title="Now",
    template="now.html",
    document=Now,
    read=_read_now,
    section="now",
    live=True,
)
