"""Sends a diagnosis to a server of ``whyidle serve``, because the user asked for it."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from whyidle.errors import OutputError, UsageError
from whyidle.model.diagnosis import Diagnosis
from whyidle.version import __version__

TOKEN: Final = "WHYIDLE_TOKEN"
TIMEOUT_S: Final = 30.0
_HOME: Final = ("127.0.0.1", "::1", "localhost")


class _NoRedirects(HTTPRedirectHandler):
    """A token must not follow a redirect to another host."""

    def redirect_request(self, *_: object) -> None:
        """Follow none."""


def check_address(url: str, environ: Mapping[str, str]) -> list[str]:
    """Check before the work that an address can be used; return warnings.

    Raises:
        UsageError: it is no address of a server, or there is no token.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url!r} is not a server address.", hint="http://HOST:8470")
    if not environ.get(TOKEN):
        raise UsageError(
            "An upload needs a token.",
            why=f"The environment variable {TOKEN} is not set.",
            hint="On the server: whyidle serve add-token NAME --role uploader",
        )
    if parts.scheme == "http" and parts.hostname not in _HOME:
        return [f"the token and the diagnosis go to {parts.hostname} without encryption"]
    return []


def upload_run(
    run_id: str,
    diagnosis: Diagnosis,
    url: str,
    environ: Mapping[str, str],
    *,
    visible: str | None = None,
) -> str:
    """Send a diagnosis, without secrets of its command; return the address of its page.
    ``visible``: who may see it there, owner, group or everyone; None: as the server says.

    Raises:
        OutputError: the server cannot be reached, or refuses.
    """
    base = url.rstrip("/")
    body = gzip.compress(msgspec.json.encode(diagnosis.without_secrets()))
    request = Request(
        f"{base}/api/runs/{quote(run_id)}" + (f"?visible={quote(visible)}" if visible else ""),
        data=body,
        method="PUT",
        headers={
            "Authorization": f"Bearer {environ.get(TOKEN, '')}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": f"whyidle/{__version__}",
        },
    )
    try:
        with build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S):
            return f"{base}/runs/{run_id}"
    except HTTPError as error:
        raise OutputError(
            f"{base} did not accept the run.",
            why=_describe_refusal(error),
            hint="whyidle upload RUN URL tries again.",
        ) from error
    except (URLError, OSError, HTTPException, ssl.SSLError) as error:
        raise OutputError(
            f"Cannot reach {base}.",
            why=f"{getattr(error, 'reason', error)}.",
            hint="whyidle upload RUN URL tries again.",
        ) from error


def _describe_refusal(error: HTTPError) -> str:
    try:
        text = str(json.loads(error.read(10_000))["error"])[:300]
    except (ValueError, KeyError, TypeError, OSError):
        text = error.reason
    return f"{error.code}: {text}"
