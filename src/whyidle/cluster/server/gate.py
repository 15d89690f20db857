"""The gate in front of every page: host names, origins, the token, and headers of answers."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyidle.cluster.server.access import Access, cookie_name
from whyidle.cluster.server.answers import refuse

POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""no inline script. Styles of elements are allowed: lengths and colours of the pictures are such"""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
HEALTH: Final = "/healthz"
STATIC: Final = "/static/"
SESSION_S: Final = 30 * 24 * 3600


class Gate:
    """ASGI middleware. ``names`` are host names by which browsers may address the server."""

    def __init__(self, app: ASGIApp, *, access: Access, names: Sequence[str]) -> None:
        self._app, self._access = app, access
        own = ("localhost", socket.gethostname(), socket.getfqdn())
        self._names = {name.lower() for name in (*own, *names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may not pass, and hand on any other."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith(STATIC):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        answer = self._answer_first(HTTPConnection(scope)) or self._app
        await answer(scope, receive, send_with_headers)

    def _answer_first(self, connection: HTTPConnection) -> Response | None:
        """The answer to a request that may not pass, or that signs a browser in."""
        scope, headers = connection.scope, connection.headers
        if not self.is_allowed_host(headers.get("host", "")):
            text = "The server does not answer to this host name: whyidle serve --name NAME."
            return refuse(scope, 400, text)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != headers["host"].lower():
            return refuse(scope, 403, "The request comes from a page of another site.")
        if self._access.is_token(connection.query_params.get("token", "")):
            return self._sign_in(connection)
        if scope["path"] == HEALTH or scope["path"].startswith(STATIC):
            return None
        return None if self._access.admits(connection) else refuse(scope, 401, "A token is needed.")

    def _sign_in(self, connection: HTTPConnection) -> Response:
        """The same page, without the token in its address; a cookie stands for it."""
        # as a proxy with TLS says; who claims it falsely only restricts a cookie of their own
        scheme = connection.headers.get("x-forwarded-proto", connection.url.scheme)
        scheme = "https" if scheme == "https" else "http"
        page = connection.url.remove_query_params("token").replace(scheme=scheme)
        answer = RedirectResponse(page, 303)
        answer.set_cookie(
            cookie_name(connection),
            self._access.cookie,
            max_age=SESSION_S,
            httponly=True,
            samesite="lax",  # a link in a chat may open a page; none changes anything
            secure=scheme == "https",
        )
        return answer

    def is_allowed_host(self, host: str) -> bool:
        """Whether a Host header names this server. A page of another site whose name was rebound to
        this address always sends a name, never an address; so every address is allowed."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._names
        return True
