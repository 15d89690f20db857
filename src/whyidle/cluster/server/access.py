"""The one secret that opens the pages: a token in the server's state folder, and the cookie of the
browsers that were opened with it."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from whyidle.errors import OutputError
from whyidle.store.atomic_write import write_atomic

if TYPE_CHECKING:  # the command line reads the token where the extra is missing, too
    from starlette.requests import HTTPConnection

TOKEN_FILE: Final = "token"
STATE_FOLDER: Final = "serve"


def read_token(state: Path, *, is_new: bool = False) -> str:
    """The token of a state folder, which is made at the first start or where a new one is wanted.

    Raises:
        OutputError: the file cannot be read or written.
    """
    path = state / TOKEN_FILE
    try:
        token = path.read_text(encoding="utf-8").strip() if path.exists() and not is_new else ""
        if not token:
            token = secrets.token_urlsafe(32)
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            path.touch(mode=0o600)
            path.chmod(0o600)
            write_atomic(path, token.encode())
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(
            f"Cannot keep the token in {path}.",
            why=f"{error}.",
            hint="Choose another folder with --state DIR.",
        ) from error
    return token


class Access:
    """Tells who has the token; without a token, anyone may view."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        self.cookie = hashlib.sha256(f"session {token}".encode()).hexdigest()

    def is_token(self, given: str) -> bool:
        """Whether somebody gave the token."""
        return self._token is not None and _is_same(given, self._token)

    def admits(self, connection: HTTPConnection) -> bool:
        """Whether a request brings the token, or the cookie that is made from it."""
        if self._token is None:
            return True
        kind, _, given = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self.is_token(given.strip())
        return _is_same(connection.cookies.get(cookie_name(connection), ""), self.cookie)


def cookie_name(connection: HTTPConnection) -> str:
    """The name of the cookie: browsers send cookies to every port of a host, so it has the port."""
    return f"whyidle_{connection.url.port or 'session'}"


def _is_same(given: str, wanted: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
