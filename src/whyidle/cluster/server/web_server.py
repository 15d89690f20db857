"""The server's process: how it listens, and how it ends."""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from whyidle.cluster.server import login
from whyidle.cluster.server.answers import answer_json, refuse, render_page
from whyidle.cluster.server.gate import Gate
from whyidle.cluster.server.site import (
    NotFoundError,
    NothingYetError,
    Page,
    Question,
    RefusedError,
    Site,
    SiteSettings,
)
from whyidle.errors import InputError, StoreError, WhyidleError
from whyidle.machine.publishers._text_format import format_page
from whyidle.reports._html.page import page_script, style_sheet

PAGES: Final = ("now", "runs", "run", "job", "compare", "machine", "fleet", "settings")
"""modules of ``pages``"""
FULL: Final = (errno.ENOSPC, errno.EDQUOT)
STATIC: Final = Path(__file__).with_name("static")


def build_app(site: Site) -> Starlette:
    """The application of a site, which it closes at its end."""

    @asynccontextmanager
    async def live(_: Starlette) -> AsyncIterator[None]:
        site.monitor.start()
        await run_in_threadpool(site.index.refresh)  # the first viewer does not wait for it
        yield
        site.close()

    gate = Middleware(Gate, access=site.access, settings=site.settings)
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
        *login.list_routes(site),
        Route("/metrics", _answer_metrics(site)),
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


def _answer_metrics(site: Site) -> Callable[[Request], Response]:
    def answer(_: Request) -> Response:
        text = format_page(site.monitor.metrics)
        for state, count in sorted(site.index.count_runs("state").items()):
            text += f'whyidle_stored_runs{{state="{state}"}} {count}\n'
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

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
    if isinstance(error.__cause__, OSError) and error.__cause__.errno in FULL:
        status = 507
    if isinstance(error, NothingYetError) and not request.url.path.startswith("/api/"):
        status = 200
    elif isinstance(error, RefusedError):
        status = error.status
    elif status == 500 and isinstance(error, (InputError, StoreError)):
        status = 503  # a file that the administrator can mend
    if not isinstance(error, WhyidleError):
        return refuse(request.scope, status, "The server failed.")
    return refuse(request.scope, status, f"{error.what} {error.why}".strip(), error.hint)


HEADER_S: Final = 10.0
"""in which the head of a request must have come: browsers and clients send it at once"""
BODY_S: Final = 90.0
"""in which its body must have come; the form of a sign-in is a few bytes"""
MOST_WAITING: Final = 100
"""connections of one address whose request has not come yet, and a fifth of those of all together:
with as many pages that follow, they are as many as the server takes. The oldest is cut off, of all
together the oldest of the address that has most"""


class PunctualProtocol(H11Protocol):
    """HTTP with deadlines for requests, so that connections without one hold no place."""

    _waiting: ClassVar[dict[PunctualProtocol, str]] = {}
    _counts: ClassVar[Counter[str]] = Counter()
    _timer: asyncio.TimerHandle | None = None
    _awaited: Any = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._await(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a request that has come ends the deadline."""
        super().data_received(data)
        state = self.conn.their_state
        self._await(state if state in (h11.IDLE, h11.SEND_BODY) else None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadline."""
        super().connection_lost(exc)
        self._await(None)

    def _await(self, state: Any) -> None:
        """Wait for a head (IDLE), a body (SEND_BODY) or nothing; the same wait goes on."""
        if state is self._awaited:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._awaited = state
        self._leave()
        if state is not None:
            seconds = HEADER_S if state is h11.IDLE else BODY_S
            self._timer = self.loop.call_later(seconds, self.transport.abort)
        if state is h11.IDLE:
            address = self.client[0] if self.client else ""
            self._waiting[self] = address
            self._counts[address] += 1
            if self._counts[address] <= MOST_WAITING:
                if len(self._waiting) <= 5 * MOST_WAITING:
                    return
                ((address, _),) = self._counts.most_common(1)
            oldest = next(one for one, whose in self._waiting.items() if whose == address)
            oldest._leave()
            oldest.transport.abort()

    def _leave(self) -> None:
        """Wait for no head any more."""
        address = self._waiting.pop(self, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]


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
                http=PunctualProtocol,
                proxy_headers=False,  # the gate trusts only the addresses that it is told
                h11_max_incomplete_event_size=64 << 10,
            )
        )
