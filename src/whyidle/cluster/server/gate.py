"""The gate in front of every page: host names, origins, credentials, and headers of answers."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whyidle.cluster.server.access import ANYONE, AccessList, Credential
from whyidle.cluster.server.answers import refuse
from whyidle.cluster.server.site import SiteSettings
from whyidle.errors import WhyidleError

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
PUBLIC: Final = ("/login", "/healthz")
STATIC: Final = "/static/"
READING: Final = ("GET", "HEAD")


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, access: AccessList, settings: SiteSettings) -> None:
        self._app, self._access = app, access
        self._is_open, self._proxy = settings.is_open, settings.proxy
        own = ("localhost", socket.gethostname(), socket.getfqdn())
        self._names = {name.lower() for name in (*own, *settings.names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that may not pass, and hand on any other."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        from_proxy = self._proxy.is_trusted(connection)
        if from_proxy and connection.headers.get("x-forwarded-proto") == "https":
            scope["scheme"] = "https"  # so that cookies are Secure

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith(STATIC):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            viewer, from_cookie = self._identify(connection, from_proxy)
        except WhyidleError as error:  # the file of credentials is damaged
            await refuse(scope, 500, str(error))(scope, receive, send_with_headers)
            return
        scope.setdefault("state", {})["viewer"] = viewer
        problem = self._problem(connection, scope["method"], viewer, from_cookie)
        if problem is None:
            await self._app(scope, receive, send_with_headers)
        else:
            status, text = problem
            await refuse(scope, status, text)(scope, receive, send_with_headers)

    def _problem(
        self, connection: HTTPConnection, method: str, viewer: Credential | None, from_cookie: bool
    ) -> tuple[int, str] | None:
        path = connection.scope["path"]
        if not self.is_allowed_host(connection.headers.get("host", "")):
            return 400, "The server does not answer to this host name: whyidle serve --name NAME."
        if method not in READING and not _has_own_origin(connection, from_cookie):
            return 403, "The request comes from a page of another site."
        if path in PUBLIC or path.startswith(STATIC):
            return None
        if viewer is None:
            return 401, "A token is needed."
        return None

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

    def _identify(
        self, connection: HTTPConnection, from_proxy: bool
    ) -> tuple[Credential | None, bool]:
        """Who asks, and whether a browser sends that by itself, as it does cookies."""
        kind, _, secret = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._access.identify(secret.strip(), "token"), False
        secret = connection.cookies.get(cookie_name(connection), "")
        if session := self._access.identify(secret, "session"):
            return session, True
        if from_proxy and (person := self._proxy.identify(connection)):
            return person, True
        return (ANYONE if self._is_open else None), False


def cookie_name(connection: HTTPConnection) -> str:
    """The session's cookie: browsers send cookies to every port of a host, so the port is in it."""
    return f"whyidle_{connection.url.port or 'session'}"


def _has_own_origin(connection: HTTPConnection, from_cookie: bool) -> bool:
    """Whether a changing request comes from a page of this server, or from no browser."""
    origin = connection.headers.get("origin")
    if origin is None:
        return not from_cookie
    return urlsplit(origin).netloc.lower() == connection.headers.get("host", "").lower()
