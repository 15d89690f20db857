"""`whyidle serve`, without serving."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from whyidle.__main__ import main
from whyidle.cli import serve
from whyidle.errors import OutputError, UsageError


def test_tokens_are_made_listed_and_revoked(capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "add-token", "ci"]) == 0
    secret = capsys.readouterr().out.strip()
    assert len(secret) > 40
    assert main(["serve", "tokens"]) == 0
    listed = capsys.readouterr().out
    assert "ci" in listed
    assert secret not in listed
    assert main(["serve", "revoke-token", "ci"]) == 0
    assert main(["serve", "revoke-token", "ci"]) == 1
    assert "whyidle serve tokens" in capsys.readouterr().err


def test_an_address_that_signs_in(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["serve", "login", "--state", str(tmp_path / "state"), "--listen", "9000"]) == 0
    assert capsys.readouterr().out.startswith("http://127.0.0.1:9000/login?code=")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("words", [["add-token"], ["start", "x"], ["fly"]])
def test_wrong_use(words: list[str]):
    assert main(["serve", *words]) == 2


@pytest.mark.parametrize("where", ["x", "1.2.3.4:", ":9000", "127.0.0.1:70000"])
def test_addresses_that_are_none(where: str):
    with pytest.raises(UsageError):
        serve.bind(where)


def test_an_address_in_use(tmp_path: Path):
    with serve.bind("127.0.0.1:0") as first:
        port = first.getsockname()[1]
        with pytest.raises(OutputError, match="--listen"):
            serve.bind(f"127.0.0.1:{port}")
    with serve.bind(f"unix:{tmp_path / 'socket'}") as bound:
        assert bound.family == socket.AF_UNIX


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "whyidle.cluster.server.web_server", raising=False)
    assert main(["serve", "--listen", "127.0.0.1:0"]) == 1
    assert "pip install 'whyidle[serve]'" in capsys.readouterr().err


def test_login_prints_the_address_of_the_running_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    words = ["serve", "login", "--state", str(tmp_path / "store" / "serve")]

    def ask(server: object, sockets: list[socket.socket]) -> None:
        port = sockets[0].getsockname()[1]
        capsys.readouterr()
        assert main(words) == 0
        assert capsys.readouterr().out.startswith(f"http://127.0.0.1:{port}/login?code=")

    monkeypatch.setattr("uvicorn.Server.run", ask)
    store = ["--store", str(tmp_path / "store")]
    assert main(["serve", *store, "--listen", "127.0.0.1:0", "--open"]) == 0
    assert main(words) == 0
    answer = capsys.readouterr()
    assert answer.out.startswith("http://127.0.0.1:8470/login?code=")
    assert "No server is running" in answer.err
    for _ in range(100):
        if opened:
            break
        time.sleep(0.05)
    assert "/login?code=" in opened[0]
    assert (tmp_path / "store").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--proxy", "127.0.0.1"], "claim any name"),
        (["--proxy", "proxy.example"], "--proxy 10.0.0.5"),
        (["--no-auth"], "anyone who can reach the server can read"),
    ],
)
def test_what_access_means_is_said(
    words: list[str], said: str, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    main(["serve", "--listen", "127.0.0.1:0", *words])
    assert said in capsys.readouterr().err
