"""The server's process: how it listens, and how it ends."""

from __future__ import annotations

from types import FrameType

import uvicorn

from whyidle.cluster.server.app import build_app
from whyidle.cluster.server.site import Site, SiteSettings

END_S = 3
"""after which pages that are still open are cut off; their streams end within a second"""


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
                h11_max_incomplete_event_size=64 << 10,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams of open pages first, which nothing else would end."""
        self._site.is_closing = True
        super().handle_exit(sig, frame)
