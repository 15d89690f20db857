"""Tests against real services: ``make test-services`` installs them where it can."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

REASON = "servers and jobs of their own start, listen and end beside the test"


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.services)
            item.add_marker(pytest.mark.real_processes(REASON))


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts programs that end with the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*command: str, **more: object) -> subprocess.Popen[bytes]:
        log = (tmp_path / f"{Path(command[0]).name}-{len(running)}.log").open("wb")
        options = {"cwd": tmp_path, "stdout": log, "stderr": log, **more}
        running.append(subprocess.Popen(command, **options))  # type: ignore[call-overload]
        log.close()
        return running[-1]

    yield begin
    for process in running:
        process.terminate()
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()  # nothing, if it has ended
        process.wait()


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict]]]:
    """A webhook: its URL, and what it received."""
    got: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/hook", got
    server.shutdown()
    server.server_close()
