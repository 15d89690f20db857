"""Alerts of this machine: what fires, what is muted, what was, and the rules."""

from __future__ import annotations

from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Document
from whyidle.model.live.alert import AlertLine, Rule


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
    summary="What fires on the server's machine, what is muted, and what was.",
    template="alerts.html",
    document=Alerts,
    read=_read_alerts,
    section="alerts",
)
