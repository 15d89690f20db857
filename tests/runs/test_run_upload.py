"""Sending runs to a real server on this machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
import uvicorn

from imagined_jobs import healthy
from whyidle.__main__ import main
from whyidle.cli.serve import bind
from whyidle.cluster.server.app import build_app
from whyidle.cluster.server.site import Site, SiteSettings
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.errors import OutputError, UsageError
from whyidle.runs.run_upload import check_address, upload_run
from whyidle.store.run_store import Store

RUN = "20261120-120000-000001"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Site]]:
    site = Site(SiteSettings(stores=[tmp_path / "team"], state=tmp_path / "state"))
    bound = bind("127.0.0.1:0")
    server = uvicorn.Server(uvicorn.Config(build_app(site), log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    until = time.monotonic() + 10
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{bound.getsockname()[1]}", site
    server.should_exit = True
    thread.join(10)
    bound.close()


def test_runs_are_sent(
    served: tuple[str, Site],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    url, site = served
    token = site.access.add_token("ci", "uploader")
    diagnosis = diagnose_job([healthy().timeline()])
    store = Store(tmp_path / "own")
    entry = store.add_run(diagnosis)
    monkeypatch.setenv("WHYIDLE_TOKEN", token)
    words = ["upload", "last", url, "--store", str(store.root)]
    assert main(words) == 0
    assert f"{url}/runs/{entry.id}" in capsys.readouterr().err
    assert main(words) == 0
    stored = site.stores["team"].find_run(entry.id)
    assert site.stores["team"].read_diagnosis(stored) == diagnosis.with_id(entry.id)
    other = msgspec.structs.replace(
        diagnosis, verdict=msgspec.structs.replace(diagnosis.verdict, headline="another")
    )
    with pytest.raises(OutputError, match=r"409: The run .* is stored already"):
        upload_run(entry.id, other, url, {"WHYIDLE_TOKEN": token})
    with pytest.raises(OutputError, match="401: A token is needed"):
        upload_run(entry.id, other, url, {"WHYIDLE_TOKEN": "none"})
    reader = site.access.add_token("v", "viewer")
    with pytest.raises(OutputError, match="403"):
        upload_run(entry.id, other, url, {"WHYIDLE_TOKEN": reader})


def test_a_token_follows_no_redirect():
    asked: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(302)
            self.send_header("Location", "/stolen")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    diagnosis = diagnose_job([healthy().timeline()])
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with pytest.raises(OutputError, match="302"):
        upload_run(RUN, diagnosis, url, {"WHYIDLE_TOKEN": "x"})
    server.shutdown()
    server.server_close()
    assert asked == [f"/api/runs/{RUN}"]


def test_nobody_answers():
    diagnosis = diagnose_job([healthy().timeline()])
    with bind("127.0.0.1:0") as closed:
        port = closed.getsockname()[1]
    with pytest.raises(OutputError, match="Cannot reach"):
        upload_run(RUN, diagnosis, f"http://127.0.0.1:{port}", {"WHYIDLE_TOKEN": "x"})


@pytest.mark.parametrize("url", ["host:8470", "ftp://host", "http://", "nonsense"])
def test_addresses_that_are_none(url: str):
    with pytest.raises(UsageError, match="not a server address"):
        check_address(url, {"WHYIDLE_TOKEN": "x"})


def test_a_token_is_needed_and_plain_text_is_warned_of():
    with pytest.raises(UsageError, match="WHYIDLE_TOKEN"):
        check_address("http://127.0.0.1:8470", {})
    assert check_address("http://127.0.0.1:8470", {"WHYIDLE_TOKEN": "x"}) == []
    assert check_address("https://team.example", {"WHYIDLE_TOKEN": "x"}) == []
    assert "encryption" in check_address("http://team.example", {"WHYIDLE_TOKEN": "x"})[0]


def test_run_checks_the_address_before_the_job(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("WHYIDLE_TOKEN", raising=False)
    assert main(["run", "--upload", "http://127.0.0.1:1", "true"]) == 2
    monkeypatch.setenv("WHYIDLE_TOKEN", "x")
    assert main(["run", "--no-store", "--upload", "http://127.0.0.1:1", "true"]) == 2
