"""Tokens, codes and sessions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from whyidle.cluster.server import access
from whyidle.cluster.server.access import AccessList
from whyidle.errors import InputError


@pytest.fixture
def known(tmp_path: Path) -> AccessList:
    return AccessList(tmp_path / "serve" / "access.json")


def test_only_hashes_lie_on_the_disk_and_only_the_owner_reads_them(tmp_path: Path):
    path = tmp_path / "access.json"
    secret = AccessList(path).add_token("ada")
    assert secret not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_process_sees_a_token_at_once(known: AccessList, tmp_path: Path):
    secret = AccessList(tmp_path / "serve" / "access.json").add_token("ada")
    found = known.identify(secret, "token")
    assert found is not None
    assert found.name == "ada"
    assert known.identify(secret, "session") is None
    assert known.identify(f"{secret}x", "token") is None


def test_a_code_opens_one_session(known: AccessList):
    code = known.add_code("ada")
    session = known.open_session(code)
    assert session is not None
    assert known.open_session(code) is None
    assert known.identify(session, "session") is not None
    known.close_session(session)
    assert known.identify(session, "session") is None


def test_what_has_expired_is_nothing(known: AccessList, monkeypatch: pytest.MonkeyPatch):
    code = known.add_code("ada")
    now = time.time()
    monkeypatch.setattr(access.time, "time", lambda: now + access.CODE_S + 1)
    assert known.open_session(code) is None


def test_a_revoked_token_takes_its_sessions_along(known: AccessList):
    secret = known.add_token("ada")
    session = known.open_session(secret)
    assert known.revoke("ada")
    assert not known.revoke("ada")
    assert known.identify(secret, "token") is None
    assert known.identify(session or "", "session") is None


def test_a_name_is_used_once(known: AccessList):
    known.add_token("ada")
    with pytest.raises(InputError, match="revoke-token ada"):
        known.add_token("ada")


def test_a_damaged_file_is_told(known: AccessList, tmp_path: Path):
    known.add_token("ada")
    (tmp_path / "serve" / "access.json").write_text("{")
    with pytest.raises(InputError, match="Remove it"):
        known.list_tokens()
