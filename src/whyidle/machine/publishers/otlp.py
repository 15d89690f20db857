"""Metrics by OpenTelemetry's protocol over HTTP (OTLP/HTTP) in its JSON encoding.

GPUs follow the semantic conventions ``hw.gpu.*`` (status: development), everything else keeps
whyidle's names. ``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_RESOURCE_ATTRIBUTES`` are respected.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final

from whyidle.errors import UsageError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.documents.watch_document import WatchedMachine
from whyidle.model.live.metric_series import Metric
from whyidle.model.live.publisher import Destination, Publisher

FAULTS = (OSError,)
_NAMES: Final = {
    "whyidle_gpu_busy_ratio": ("hw.gpu.utilization", "1"),
    "whyidle_gpu_memory_used_bytes": ("hw.gpu.memory.usage", "By"),
    "whyidle_gpu_memory_size_bytes": ("hw.gpu.memory.limit", "By"),
    "whyidle_gpu_power_watts": ("hw.power", "W"),
    "whyidle_gpu_energy_joules_total": ("hw.energy", "J"),
    "whyidle_gpu_temperature_celsius": ("hw.temperature", "Cel"),
}
_UNITS: Final = {"ratio": "1", "bytes": "By", "seconds": "s", "celsius": "Cel", "joules": "J"}


class _Exporter:
    def __init__(self, url: str, headers: Mapping[str, str], resource: list[Any]) -> None:
        self._url, self._resource = url, resource
        self._headers = {"Content-Type": "application/json", **headers}
        self._start = str(time.time_ns())

    def publish(self, machine: WatchedMachine, metrics: Sequence[Metric]) -> None:
        """Send one look."""
        host = _attributes({"host.name": machine.host.name, "service.name": "whyidle"})
        now = str(time.time_ns())
        body = {
            "resourceMetrics": [
                {
                    "resource": {"attributes": [*host, *self._resource]},
                    "scopeMetrics": [
                        {
                            "scope": {"name": "whyidle"},
                            "metrics": [_encode_metric(one, self._start, now) for one in metrics],
                        }
                    ],
                }
            ]
        }
        request = urllib.request.Request(
            self._url, json.dumps(body).encode(), dict(self._headers), method="POST"
        )
        with urllib.request.urlopen(request, timeout=5.0) as answer:
            answer.read()

    def close(self, diagnosis: Diagnosis | None) -> None:
        """Nothing stays open between looks."""


def _encode_metric(metric: Metric, start: str, now: str) -> dict[str, Any]:
    name, unit = _NAMES.get(metric.name, (metric.name.replace("whyidle_", "whyidle.", 1), ""))
    words = metric.name.removesuffix("_total").split("_")
    points = [
        {
            "attributes": _attributes({_rename(key): text for key, text in labels.items()}),
            "startTimeUnixNano": start,
            "timeUnixNano": now,
            "asDouble": value,
        }
        for labels, value in metric.samples
    ]
    shape: dict[str, Any] = {"dataPoints": points}
    if metric.kind == "counter":
        shape |= {"aggregationTemporality": 2, "isMonotonic": True}
    return {
        "name": name,
        "description": metric.help,
        "unit": unit or _UNITS.get(words[-1], "1"),
        "sum" if metric.kind == "counter" else "gauge": shape,
    }


def _rename(label: str) -> str:
    return {"UUID": "hw.id", "model_name": "hw.name"}.get(label, label)


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in values.items()]


def open(destination: Destination) -> Publisher:  # noqa: A001  # a publisher's verb
    """Send to the URL ``where``, to its path ``/v1/metrics`` unless it names one."""
    parts = urllib.parse.urlsplit(destination.where)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(
            f"{destination.where!r} is not a URL.", hint="--otlp http://localhost:4318"
        )
    path = parts.path.rstrip("/")
    url = parts._replace(path=path if path.endswith("/v1/metrics") else f"{path}/v1/metrics")
    environ = destination.environ
    resource = _attributes(_parse_pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")))
    headers = _parse_pairs(environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
    return _Exporter(urllib.parse.urlunsplit(url), headers, resource)


def _parse_pairs(text: str) -> dict[str, str]:
    pairs = (item.partition("=") for item in text.split(",") if "=" in item)
    return {name.strip(): urllib.parse.unquote(value.strip()) for name, _, value in pairs}
