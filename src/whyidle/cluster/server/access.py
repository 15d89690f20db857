"""Who may view: tokens, one-time codes and sessions, of which a file keeps the hashes; and where
the server of a state folder can be reached while it runs.

Secrets are 256 random bits, so that a plain SHA-256 of one cannot be reversed by guessing. The file
has mode 0600. Several processes may change it: the server, and the command line.
"""

from __future__ import annotations

import fcntl
import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from whyidle.errors import InputError, OutputError
from whyidle.store.atomic_write import write_atomic

Kind = Literal["token", "code", "session"]
CODE_S: Final = 600.0
SESSION_S: Final = 30 * 24 * 3600.0
ADDRESS_FILE: Final = "address"
"""its server holds a lock on it, which ends with the process, however that ends"""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """One token, code or session, or a person whom the team's proxy names. ``expires`` is a Unix
    time; None: never."""

    kind: Kind
    name: str
    digest: str
    created: float
    expires: float | None = None


ANYONE: Final = Credential(kind="session", name="anyone", digest="", created=0.0)
"""who views without a token, where that is allowed"""


class AccessList:
    """The credentials in a file, which is created with the first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._known: dict[str, Credential] = {}

    def add_token(self, name: str) -> str:
        """Make a token; return it, the only time it is known.

        Raises:
            InputError: a token has this name.
            OutputError: the file cannot be written.
        """
        if any(one.name == name for one in self.list_tokens()):
            raise InputError(
                f"A token {name!r} already exists.", hint=f"whyidle serve revoke-token {name}"
            )
        with self._change_list() as known:
            return _add_to(known, None, kind="token", name=name)

    def add_code(self, name: str) -> str:
        """Make a code that opens one session within ``CODE_S``."""
        with self._change_list() as known:
            return _add_to(known, CODE_S, kind="code", name=name)

    def open_session(self, secret: str) -> str | None:
        """Exchange a token or a code for the secret of a session; None if it is neither."""
        given = self.identify(secret, "token", "code")
        if given is None:
            return None
        with self._change_list() as known:
            if given.kind == "code" and known.pop(given.digest, None) is None:
                return None  # it was used at the same moment
            return _add_to(known, SESSION_S, kind="session", name=given.name)

    def identify(self, secret: str, *kinds: Kind) -> Credential | None:
        """The credential of a secret, if it is of one of the kinds and has not expired."""
        self._read_again()
        found = self._known.get(_digest(secret))
        if found is None or found.kind not in kinds or _has_expired(found):
            return None
        return found

    def list_tokens(self) -> list[Credential]:
        """The tokens, the oldest first."""
        self._read_again()
        return [one for one in self._known.values() if one.kind == "token"]

    def revoke(self, name: str) -> bool:
        """Remove a token, its codes and its sessions; False if there is none of this name."""
        with self._change_list() as known:
            gone = [digest for digest, one in known.items() if one.name == name]
            for digest in gone:
                del known[digest]
        return bool(gone)

    def close_session(self, secret: str) -> None:
        """Forget a session."""
        with self._change_list() as known:
            known.pop(_digest(secret), None)

    @contextmanager
    def _change_list(self) -> Iterator[dict[str, Credential]]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = self._path.with_suffix(".lock")
            lock.touch(mode=0o600)
            with lock.open("r") as held:
                fcntl.flock(held, fcntl.LOCK_EX)
                self._read_again()
                known = {d: one for d, one in self._known.items() if not _has_expired(one)}
                yield known
                self._path.touch(mode=0o600)
                self._path.chmod(0o600)
                write_atomic(self._path, msgspec.json.encode([*known.values()]))
                self._read_again()
        except OSError as error:
            raise OutputError(
                f"Cannot write {self._path}.",
                why=f"{error.strerror or error}.",
                hint="Choose another folder with --state DIR.",
            ) from error

    def _read_again(self) -> None:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_ino)
            if stamp == self._stamp:
                return
            rows = msgspec.json.decode(self._path.read_bytes() or b"[]", type=list[Credential])
        except FileNotFoundError:
            self._known, self._stamp = {}, None
            return
        except (OSError, msgspec.DecodeError) as error:
            raise InputError(
                f"{self._path} cannot be read.",
                why=f"{error}.",
                hint="Remove it: all tokens and sessions end, and new ones can be made.",
            ) from error
        self._known, self._stamp = {one.digest: one for one in rows}, stamp


def _add_to(known: dict[str, Credential], lifetime_s: float | None, **given: Any) -> str:
    """Add a credential of ``kind`` and ``name``; return its secret."""
    secret, now = secrets.token_urlsafe(32), time.time()
    expires = None if lifetime_s is None else now + lifetime_s
    one = Credential(digest=_digest(secret), created=now, expires=expires, **given)
    known[one.digest] = one
    return secret


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _has_expired(one: Credential) -> bool:
    return one.expires is not None and one.expires <= time.time()


@contextmanager
def hold_address(state: Path, address: str) -> Iterator[None]:
    """Write the address; a second server of the same state leaves that of the first."""
    with (state / ADDRESS_FILE).open("a+", encoding="utf-8") as file:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(address)
            file.flush()
        yield


def read_address(state: Path) -> str | None:
    """The address of the server that runs with a state; None if none does."""
    try:
        with (state / ADDRESS_FILE).open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read()
    except OSError:
        pass
    return None
