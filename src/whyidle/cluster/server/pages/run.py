"""One run: the report of its diagnosis."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, get_args

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from whyidle.cluster.server.access import Credential
from whyidle.cluster.server.login import read_form
from whyidle.cluster.server.run_index import RunFilter, audience_of
from whyidle.cluster.server.site import NotFoundError, Page, Question, RefusedError, Site
from whyidle.errors import StoreError
from whyidle.model.diagnosis import Diagnosis
from whyidle.reports.html import render_parts
from whyidle.store.entry import Entry, Visibility


def _read_run(question: Question) -> Diagnosis:
    store, entry = question.find_run(question.path["run"])
    try:
        return store.read_diagnosis(entry).without_secrets()
    except StoreError as error:
        if entry.meta is not None and entry.meta.state == "recording":
            raise NotFoundError(
                f"The run {entry.id} has no diagnosis yet.",
                why="It is running, or was killed.",
                hint=f"whyidle report {entry.id}",
            ) from error
        raise


def _render_report(question: Question, document: Any) -> Mapping[str, Any]:
    _, entry = question.find_run(question.path["run"])
    owner, visible, groups = audience_of(entry, question.site.settings.visible)
    return {
        "parts": render_parts(document),
        "entry": entry,
        "before": _find_previous(question, entry),
        "visible": visible,
        "groups": groups,
        "audiences": get_args(Visibility) if may_change(question.viewer, owner) else (),
    }


def read_audience(word: str) -> Visibility:
    """Who may see a run.

    Raises:
        RefusedError: it is none of the words for that.
    """
    try:
        return msgspec.convert(word, Visibility)
    except msgspec.ValidationError:
        words = ", ".join(get_args(Visibility))
        raise RefusedError(f"visible={word[:40]!r} is not one of {words}.") from None


def may_change(viewer: Credential, owner: str | None) -> bool:
    """Whether a viewer may say who sees a run: its owner and administrators."""
    return viewer.role == "admin" or viewer.name == owner


def list_routes(site: Site) -> list[Route]:
    """The route of the form that says who may see a run: a field ``visible``."""

    async def change_audience(request: Request) -> Response:
        form, viewer = await read_form(request), request.state.viewer
        store, entry = await run_in_threadpool(site.find_run, request.path_params["run"], viewer)
        if not may_change(viewer, audience_of(entry, site.settings.visible)[0]):
            raise RefusedError("The run is not yours.", status=403)
        visible = read_audience(form.get("visible", ""))
        await run_in_threadpool(store.show_run, entry, visible)
        await run_in_threadpool(site.index.refresh, force=True)
        return RedirectResponse(f"/runs/{entry.id}", 303)

    return [Route("/runs/{run}", change_audience, methods=["POST"])]


def _find_previous(question: Question, entry: Entry) -> str | None:
    """The newest earlier run of the same command that has a diagnosis."""
    command = entry.meta.command if entry.meta else None
    if not entry.meta or not command:
        return None
    wanted = RunFilter(words=command[:20], until=entry.meta.created, viewer=question.viewer)
    runs, _ = question.site.index.find_runs(wanted, limit=20)
    alike = (run for run in runs if run.id < entry.id and run.attribution is not None)
    return next((run.id for run in alike if run.command == shlex.join(command)), None)


PAGE = Page(
    path="/runs/{run}",
    title="Run",
    template="run.html",
    document=Diagnosis,
    read=_read_run,
    view=_render_report,
    section="runs",
)
