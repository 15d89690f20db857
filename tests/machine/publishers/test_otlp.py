"""OTLP/HTTP, received by a server that reads its JSON encoding."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from whyidle.errors import UsageError
from whyidle.machine.publishers import otlp
from whyidle.model.live.metric_series import SeriesBuilder
from whyidle.model.live.publisher import Destination


@pytest.fixture
def receiver():
    got: list[tuple[str, dict[str, str], dict]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], got
    server.shutdown()
    server.server_close()


def test_metrics_arrive(look, receiver):
    port, got = receiver
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20abc",
        "OTEL_RESOURCE_ATTRIBUTES": "team=vision",
    }
    sent = otlp.open(Destination(where=f"http://127.0.0.1:{port}", environ=environ))
    sent.publish(look(), SeriesBuilder().add_look(look()))
    sent.close(None)
    ((path, headers, body),) = got
    assert path == "/v1/metrics"
    assert headers["Authorization"] == "Bearer abc"
    (resource,) = body["resourceMetrics"]
    assert {"key": "team", "value": {"stringValue": "vision"}} in resource["resource"]["attributes"]
    metrics = {one["name"]: one for one in resource["scopeMetrics"][0]["metrics"]}
    assert metrics["hw.gpu.utilization"]["gauge"]["dataPoints"][0]["asDouble"] == 0.3
    assert metrics["hw.energy"]["sum"]["isMonotonic"]
    assert metrics["whyidle.step_time_seconds_total"]["unit"] == "s"
    attributes = metrics["hw.gpu.utilization"]["gauge"]["dataPoints"][0]["attributes"]
    assert {"key": "hw.id", "value": {"stringValue": "GPU-1"}} in attributes


@pytest.mark.parametrize("where", ["collector:4318", "file:///etc/passwd", ""])
def test_only_urls_are_taken(where):
    with pytest.raises(UsageError, match="not a URL"):
        otlp.open(Destination(where=where))
