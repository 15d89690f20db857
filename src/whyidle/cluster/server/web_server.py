"""The server's process: how it listens, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles

from whyidle.cluster.server.access import Access
from whyidle.cluster.server.answers import answer_json, refuse, render_page
from whyidle.cluster.server.gate import Gate
from whyidle.cluster.server.site import (
    NotFoundError,
    NothingYetError,
    Page,
    Question,
    Site,
    SiteSettings,
)
from whyidle.errors import InputError, StoreError, WhyidleError
from whyidle.reports._html.page import page_script, style_sheet

PAGES: Final = ("now", "runs", "run", "job", "machine", "fleet")
"""modules of ``pages``"""
STATIC: Final = Path(__file__).with_name("static")


def build_app(site: Site) -> Starlette:
    """The application of a site, which it closes at its end."""

    @asynccontextmanager
    async def live(_: Starlette) -> AsyncIterator[None]:
        site.monitor.start()
        await run_in_threadpool(site.index.refresh)  # the first viewer does not wait for it
        yield
        site.close()

    access = Access(site.settings.token)
    gate = Middleware(Gate, access=access, names=site.settings.names)
    app = Starlette(
        routes=_list_routes(site),
        middleware=[gate],
        lifespan=live,
        exception_handlers={
            HTTPException: _answer_http_error,
            WhyidleError: _answer_error,
            ClientDisconnect: _answer_http_error,  # which nobody reads; it is no failure of ours
        },
    )
    app.state.site = site
    return app


def list_pages() -> list[Page]:
    """Every page."""
    return [import_module(f"whyidle.cluster.server.pages.{name}").PAGE for name in PAGES]


def _list_routes(site: Site) -> list[BaseRoute]:
    routes: list[BaseRoute] = []
    for page in list_pages():
        routes.append(Route(page.path, _answer_page(site, page)))
        routes.append(Route(page.api_path, _answer_document(site, page)))
    return [
        *routes,
        Route("/healthz", lambda _: PlainTextResponse("ok\n")),
        Route("/static/report.css", _send_text(style_sheet(), "text/css")),
        Route("/static/report.js", _send_text(page_script(), "text/javascript")),
        Route("/static/{path:path}", _send_static),
    ]


def _answer_page(site: Site, page: Page) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        question = Question.of_request(site, request)
        return HTMLResponse(render_page(page, question, page.read(question)))

    return answer


def _answer_document(site: Site, page: Page) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        return answer_json(page.read(Question.of_request(site, request)))

    return answer


def _send_text(text: str, kind: str) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        return Response(text, media_type=kind, headers={"Cache-Control": "max-age=3600"})

    return answer


_files = StaticFiles(directory=STATIC)


async def _send_static(request: Request) -> Response:
    return await _files.get_response(request.path_params["path"], request.scope)


def _answer_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = "Page not found." if status == 404 else "The request cannot be answered."
    return refuse(request.scope, status, text)


def _answer_error(request: Request, error: Exception) -> Response:
    """An error of whyidle: what happened and why, never a traceback."""
    status = 404 if isinstance(error, NotFoundError) else 500
    if isinstance(error, NothingYetError) and not request.url.path.startswith("/api/"):
        status = 200
    elif status == 500 and isinstance(error, (InputError, StoreError)):
        status = 503  # a file that the administrator can mend
    if not isinstance(error, WhyidleError):
        return refuse(request.scope, status, "The server failed.")
    return refuse(request.scope, status, f"{error.what} {error.why}".strip(), error.hint)


class WebServer(uvicorn.Server):
    """Serves a site until it is interrupted."""

    def __init__(self, settings: SiteSettings) -> None:
        self._site = Site(settings)
        super().__init__(
            uvicorn.Config(
                build_app(self._site),
                log_level="warning",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=3,  # after which open requests are cut off
                limit_concurrency=1000,
            )
        )
