"""The server's process: how it listens, and how it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from whyidle.cluster.server.app import build_app
from whyidle.cluster.server.site import Site, SiteSettings

END_S = 3
"""after which requests that are still open are cut off"""


HEADER_S: Final = 10.0
"""in which the head of a request must have come: browsers and clients send it at once"""
BODY_S: Final = 90.0
"""in which its body must have come; the form of a mute is a few bytes"""
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
                timeout_graceful_shutdown=END_S,
                limit_concurrency=1000,
                http=PunctualProtocol,
                proxy_headers=False,  # the gate trusts only the addresses that it is told
                h11_max_incomplete_event_size=64 << 10,
            )
        )
