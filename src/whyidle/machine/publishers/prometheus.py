"""A page that Prometheus scrapes, ``http://ADDRESS:PORT/metrics``.

It listens on this machine alone, unless another address is named; then it wants a token (the
environment variable ``WHYIDLE_METRICS_TOKEN``, sent as ``Authorization: Bearer``), because metrics
name jobs and users' habits.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from whyidle.errors import OutputError, UsageError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination

FAULTS = (OSError,)
TOKEN = "WHYIDLE_METRICS_TOKEN"
_HOME = ("127.0.0.1", "::1", "localhost")
_KIND = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Page:
    """A page on a thread; ``port`` is where it listens."""

    def __init__(self, address: str, port: int, token: str) -> None:
        self._text = b""
        page = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10  # a client that connects and says nothing must not keep a thread

            def do_GET(self) -> None:  # the base class's name
                given = self.headers.get("Authorization", "")
                if token and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                    self.send_error(401)
                elif self.path.partition("?")[0] not in ("/metrics", "/"):
                    self.send_error(404)
                else:
                    self._send_page()

            def _send_page(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", _KIND)
                self.send_header("Content-Length", str(len(page._text)))
                self.end_headers()
                self.wfile.write(page._text)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing: the terminal belongs to the job."""

        self._server = ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, name="whyidle-metrics", daemon=True
        ).start()

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Show this look from now on."""
        del machine
        self._text = format_page(metrics).encode()

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Stop listening."""
        del diagnosis
        self._server.shutdown()
        self._server.server_close()


def format_page(metrics: Sequence[Metric]) -> str:
    """Metrics in Prometheus' text format, version 0.0.4; an empty page without any."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            inside = ",".join(
                f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()
            )
            lines.append(f"{metric.name}{{{inside}}} {value!r}")
    return "".join(f"{line}\n" for line in lines)


def open(destination: Destination) -> Page:  # noqa: A001  # a publisher's verb
    """Listen at ``[ADDRESS:]PORT``; port 0 is any free one."""
    address, colon, port = destination.where.rpartition(":")
    address = address.strip("[]") if colon else _HOME[0]
    token = destination.environ.get(TOKEN, "")
    if not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{destination.where!r} is not [ADDRESS:]PORT.", hint="--prometheus 9470")
    if address not in _HOME and not token:
        raise UsageError(
            f"{address} can be reached from other machines, and no token is set.",
            why="Metrics reveal jobs and what they wait for.",
            hint=f"Set {TOKEN}, or listen on 127.0.0.1 behind a proxy.",
        )
    try:
        return Page(address, int(port), token)
    except OSError as error:
        raise OutputError(
            f"Cannot listen at {destination.where}.",
            why=f"{error.strerror or error}.",
            hint="Choose another port.",
        ) from error
