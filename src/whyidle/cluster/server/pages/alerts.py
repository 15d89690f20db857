"""Alerts of this machine: what fires, what is muted and how, what was, and the rules."""

from __future__ import annotations

import time
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from whyidle.cluster.server.answers import answer_json
from whyidle.cluster.server.login import read_form
from whyidle.cluster.server.site import Page, Question, RefusedError, Site
from whyidle.errors import OutputError
from whyidle.model.diagnosis import Document
from whyidle.model.live.alert import AlertLine, Rule

MOST_HOURS: Final = 24.0 * 90
MOST_LETTERS: Final = 300


class Alerts(Document, frozen=True, kw_only=True):
    """``mutes``: rule or key of an alert -> Unix time at which the mute ends. ``history`` has the
    latest first."""

    firing: list[AlertLine]
    mutes: dict[str, float]
    history: list[AlertLine]
    rules: list[Rule]
    routes: list[str]


def _read_alerts(question: Question) -> Alerts:
    monitor = question.site.monitor
    return Alerts(
        firing=monitor.firing,
        mutes=monitor.mutes(),
        history=monitor.history(),
        rules=monitor.settings.active_rules(),
        routes=[str(table.get("kind")) for table in monitor.settings.route],
    )


PAGE = Page(
    path="/alerts",
    title="Alerts",
    template="alerts.html",
    document=Alerts,
    read=_read_alerts,
    section="alerts",
)


def list_routes(site: Site) -> list[Route]:
    """The routes of mutes: a form with ``name`` and ``hours``; no hours end a mute."""

    async def change_mute(request: Request) -> Response:
        form = await read_form(request)
        name, hours = form.get("name", ""), _read_hours(form.get("hours", "0"))
        known = {rule.id for rule in site.settings.alerts.active_rules()}
        known |= {line.key for line in site.monitor.firing} | site.monitor.mutes().keys()
        if name not in known:
            raise RefusedError(f"There is no alert {name[:MOST_LETTERS]!r}.", status=404)
        until = time.time() + hours * 3600 if hours else None
        try:
            await run_in_threadpool(site.monitor.change_mute, name, until)
        except OSError as error:
            raise OutputError("Cannot write the mutes.", why=f"{error.strerror}.") from error
        if request.url.path.startswith("/api/"):
            return answer_json(site.monitor.mutes())
        return RedirectResponse("/alerts", 303)

    paths = ("/alerts/mutes", "/api/mutes")
    return [Route(path, change_mute, methods=["POST"]) for path in paths]


def _read_hours(text: str) -> float:
    try:
        hours = float(text or "0")
    except ValueError:
        hours = -1.0
    if not 0 <= hours <= MOST_HOURS:
        raise RefusedError(f"{text[:20]!r} is not a number of hours from 0 to {MOST_HOURS:.0f}.")
    return hours
