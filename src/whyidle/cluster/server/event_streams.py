"""Sends the content of live pages again while they are open, as server-sent events.

What several viewers see is made once. A stream ends with what it shows, when its viewer may no
longer view, or when the browser goes.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from whyidle.cluster.server.answers import render_main
from whyidle.cluster.server.site import Page, Question, RefusedError, Site
from whyidle.errors import WhyidleError

EVERY_S: Final = 1.0
MOST_STREAMS: Final = 500
KEEP_S: Final = 0.8


class MainCache:
    """The content of live pages, made once for all who look in the same second."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[float, str, bool]] = {}
        self._locks: dict[object, threading.Lock] = {}

    def render(self, page: Page, question: Question) -> tuple[str, bool]:
        """The content, and whether its subject has ended."""
        viewer = question.viewer
        who = (viewer.name, viewer.role, viewer.groups)
        key = (page.path, tuple(question.path.items()), tuple(question.query), who)
        with self._locks.setdefault(key, threading.Lock()):
            made = self._made.get(key)
            if made is None or time.monotonic() - made[0] > KEEP_S:
                document = page.read(question)
                text, is_over = render_main(page, question, document), page.is_over(document)
                made = self._made[key] = (time.monotonic(), text, is_over)
            if len(self._made) > MOST_STREAMS:
                self._made.clear()
                self._locks.clear()
        return made[1:]


def open_stream_route(site: Site, page: Page, cache: MainCache) -> Route:
    """The route of a live page's events."""
    count = 0

    async def stream(request: Request) -> Response:
        if count >= MOST_STREAMS:
            raise RefusedError("Too many pages are open.", status=503)
        question = Question.of_request(site, request)
        await run_in_threadpool(page.read, question)  # an unknown subject is an error, no stream
        return StreamingResponse(count_events(question), media_type="text/event-stream")

    async def count_events(question: Question) -> AsyncIterator[str]:
        nonlocal count
        count += 1
        try:
            async for event in _send_events(site, page, cache, question):
                yield event
        finally:
            count -= 1

    return Route(f"{page.api_path}/events", stream)


async def _send_events(
    site: Site, page: Page, cache: MainCache, question: Question
) -> AsyncIterator[str]:
    before = ""
    while not site.is_closing:
        try:
            text, is_over = await run_in_threadpool(cache.render, page, question)
        except WhyidleError:  # the run was deleted while it was shown
            yield "event: over\ndata: 1\n\n"
            return
        if text != before:
            yield f"event: main\ndata: {json.dumps(text)}\n\n"
            before = text
        else:
            yield ": nothing new\n\n"
        if is_over:
            yield "event: over\ndata: 1\n\n"
            return
        if not site.access.is_valid(question.viewer):
            return
        await asyncio.sleep(EVERY_S)
