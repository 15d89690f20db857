"""`whyidle serve`, without serving."""

from __future__ import annotations

import re
import socket
import sys
import time
from pathlib import Path

import pytest

from whyidle.__main__ import main
from whyidle.cli import serve
from whyidle.errors import OutputError, UsageError


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


def test_the_printed_address_has_the_token_and_opens_in_a_browser(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    store = tmp_path / "store"
    words = ["serve", "--store", str(store), "--listen", "127.0.0.1:0"]
    assert main([*words, "--open"]) == 0
    first = (store / "serve" / "token").read_text()
    assert re.search(rf"http://127.0.0.1:\d+/\?token={first}\n", capsys.readouterr().out)
    assert main([*words, "--new-token"]) == 0
    second = (store / "serve" / "token").read_text()
    assert second != first
    assert second in capsys.readouterr().out
    for _ in range(100):
        if opened:
            break
        time.sleep(0.05)
    assert opened[0].endswith(first)
    assert store.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-auth"], "anyone who can reach the server can read"),
        (["--listen", "0.0.0.0:0"], "not encrypted"),
    ],
)
def test_what_access_means_is_said(
    words: list[str], said: str, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("uvicorn.Server.run", lambda *_, **__: None)
    main(["serve", "--listen", "127.0.0.1:0", *words])
    answer = capsys.readouterr()
    assert said in answer.err
    assert ("token" in answer.out) is ("--no-auth" not in words)
