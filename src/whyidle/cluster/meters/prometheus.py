"""Readings of GPUs from Prometheus (``prometheus:URL``, with ``?step=60`` for another step).

It asks for the names of dcgm-exporter, of whyidle and of whyidle's recording rules
(``deploy/prometheus/recording.yml``), which it prefers: five minutes a point, not thirty seconds.
Prometheus refuses more than 11,000 points a series, so it is asked by day and by group of hosts.
Each answer is kept; an interrupted reading goes on. Busy shares are means over the step, memory is
the largest of the step. A token is taken from ``$WHYIDLE_PROMETHEUS_TOKEN``.
"""

from __future__ import annotations

import csv
import hashlib
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit
from urllib.request import Request, urlopen

import msgspec

from whyidle.cluster.meters._columns import NAMES, import_duckdb, quote_text
from whyidle.errors import InputError
from whyidle.model.fleet_rows import DAY_MS, HOUR_MS, READING_COLUMNS, MeterTable, Progress, Window
from whyidle.model.node_lists import short_name

TOKEN: Final = "WHYIDLE_PROMETHEUS_TOKEN"
HOSTS: Final = 50
"""of a query: 400 GPUs with a point a minute are 20 MB"""
_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    "busy": (
        *("gpu:busy:ratio5m", "whyidle_gpu_busy_ratio", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"),
        "DCGM_FI_DEV_GPU_UTIL",
    ),
    "sm": ("gpu:sm:ratio5m", "whyidle_gpu_sm_active_ratio", "DCGM_FI_PROF_SM_ACTIVE"),
    "memory_bytes": (
        *("gpu:memory:bytes5m", "whyidle_gpu_memory_used_bytes", "DCGM_FI_DEV_FB_USED"),
    ),
    "power_w": ("gpu:power:watts5m", "whyidle_gpu_power_watts", "DCGM_FI_DEV_POWER_USAGE"),
}
"""what is read -> its metrics, the preferred first; where one lacks a GPU the next is asked"""
_HOST: Final = ("Hostname", "hostname", "node", "instance")
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "node": _HOST,
    "uuid": ("UUID", "uuid"),
    "job": ("slurm_job", "hpc_job", "slurmjobid", "jobid", "exported_pod", "pod"),
    "owner": ("user", "exported_namespace", "namespace"),
}
"""column -> labels of series; ``job`` is none of them: it is the scrape job"""


class _Request(NamedTuple):
    """What is asked, apart from when and of which hosts; ``label`` names hosts, or is empty."""

    server: str
    wanted: Mapping[str, Sequence[str]]
    label: str
    step_s: int


def read(where: str, window: Window, work: Path, progress: Progress) -> MeterTable:
    """The readings of the window, by day and group of hosts."""
    server, step = _parse_where(where)
    if window.end_ms - window.start_ms > 400 * DAY_MS:
        raise InputError(
            "A Prometheus query needs a time window.", hint="Give one, such as --since 30d"
        )
    present = set(_ask(server, "label/__name__/values", _span(window)))
    wanted = {
        field: [name for name in names if name in present] for field, names in _METRICS.items()
    }
    if not wanted["busy"]:
        known = ", ".join(_METRICS["busy"])
        raise InputError(
            f"{server} has no GPU metrics in the window.",
            why=f"Known metrics: {known}.",
            hint="Is dcgm-exporter, or `whyidle watch --prometheus`, scraped?",
        )
    # recording rules, whose names have colons, keep five minutes a point
    step_s = step or (300 if ":" in wanted["busy"][0] else 60)
    label, groups = _group_hosts(server, wanted["busy"], window)
    days = _split_window(window, step_s)
    asked = [(day, group) for day in days for group in groups]
    request = _Request(server, wanted, label, step_s)
    files = []
    for number, (day, group) in enumerate(asked):
        progress(number, len(asked))
        files.append(_fetch_part(request, day, group, work))
    listed = ", ".join(quote_text(file) for file in files)
    table = MeterTable(
        query=f"SELECT * FROM read_parquet([{listed}])",
        is_parquet=True,
        version=";".join(f"{file}:{file.stat().st_mtime_ns}" for file in files),
    )
    if not wanted["memory_bytes"]:
        table.notes.append("Prometheus has no GPU memory metrics: idle time cannot be judged.")
    return table


def _parse_where(where: str) -> tuple[str, int | None]:
    parts = urlsplit(where)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise InputError(
            f"{where!r} is not the address of a Prometheus server.",
            hint="--meter prometheus:http://HOST:9090",
        )
    step = parse_qs(parts.query).get("step", [""])[0]
    if step and not (step.isdigit() and 1 <= int(step) <= 3600):
        raise InputError(f"step={step} is not a number of seconds.", why="It must be 1 to 3600.")
    return urlunsplit((*parts[:3], "", "")).rstrip("/"), int(step) if step else None


def _span(window: Window) -> dict[str, str]:
    return {"start": str(window.start_ms / 1000), "end": str(window.end_ms / 1000)}


def _ask(server: str, path: str, values: Mapping[str, str]) -> Any:
    """The data of an answer of Prometheus' interface.

    Raises:
        InputError: it refuses, cannot be reached, or answers something else.
    """
    token = os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = Request(f"{server}/api/v1/{path}?{urlencode(values)}", headers=headers)
    try:
        with urlopen(request, timeout=120) as answer:
            document = msgspec.json.decode(answer.read())
    except HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            reason = str(msgspec.json.decode(text)["error"])
        except (msgspec.DecodeError, KeyError, TypeError):
            reason = f"HTTP status {error.code}"
        hint = f"Set ${TOKEN}." if error.code in (401, 403) else ""
        raise InputError(f"{server} refuses.", why=f"{reason.rstrip('.')}.", hint=hint) from error
    except (URLError, OSError, ValueError) as error:
        why: object = error.reason if isinstance(error, URLError) else error
        raise InputError(f"{server} does not answer.", why=f"{why}.") from error
    if not isinstance(document, dict) or document.get("status") != "success":
        raise InputError(
            f"{server} is not a Prometheus server.", why="Its response has another format."
        )
    return document["data"]


def _group_hosts(
    server: str, metrics: Sequence[str], window: Window
) -> tuple[str, list[list[str]]]:
    """The label that names hosts, and groups of its values; one empty group if there is none."""
    for label in _HOST:
        values = {**_span(window), "match[]": metrics[0]}
        if hosts := _ask(server, f"label/{label}/values", values):
            return label, [hosts[at : at + HOSTS] for at in range(0, len(hosts), HOSTS)]
    return "", [[]]


def _split_window(window: Window, step_s: int) -> list[Window]:
    """Days, or shorter parts where a day has too many points, cut at multiples of the step."""
    # Prometheus allows 11,000 points a series
    length = min(DAY_MS, step_s * 10_000 * 1000)
    cuts = range(window.start_ms - window.start_ms % length + length, window.end_ms, length)
    edges = [window.start_ms, *cuts, window.end_ms]
    return [Window(low, high) for low, high in pairwise(edges) if low < high]


def _fetch_part(request: _Request, day: Window, hosts: Sequence[str], work: Path) -> Path:
    key = hashlib.sha256(repr((request, day, hosts)).encode()).hexdigest()[:20]
    file = work / f"prometheus-{key}.parquet"
    if file.exists() and day.end_ms < time.time() * 1000 - HOUR_MS:
        return file
    rows = file.with_suffix(".csv")
    with rows.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        for field in request.wanted:
            if request.wanted[field]:
                writer.writerows(_query_range(request, field, day, hosts))
    draft = file.with_suffix(".draft")
    types = ", ".join(f"'{name}': '{kind}'" for name, kind in READING_COLUMNS.items())
    import_duckdb().connect().execute(
        f"COPY (SELECT * FROM read_csv({quote_text(rows)}, header=false, auto_detect=false, "
        f"delim=',', quote='\"', escape='\"', columns={{{types}}}) ORDER BY time_ms) "
        f"TO {quote_text(draft)} (FORMAT parquet)"
    )
    rows.unlink()
    return draft.replace(file)


def _write_query(request: _Request, field: str, hosts: Sequence[str]) -> str:
    """PromQL of one field: the preferred metric, or the next where a GPU has none, as utilization
    does not exist of MIG slices."""
    pattern = "|".join(_escape(name) for name in hosts)
    chosen = f'{{{request.label}=~"{pattern}"}}' if request.label else ""
    take = "max_over_time" if field == "memory_bytes" else "avg_over_time"
    parts = []
    for metric in request.wanted[field]:
        factor = NAMES[metric.lower()].factor
        scale = "" if factor == 1 else f" * {factor:g}"
        parts.append(f"{take}({metric}{chosen}[{request.step_s}s]){scale}")
    return " or ".join(parts)


def _escape(name: str) -> str:
    """A host name in a regular expression in a string of PromQL."""
    quoted = "".join(f"\\{char}" if char in r"\.+*?()|[]{}^$" else char for char in name)
    return quoted.replace("\\", "\\\\").replace('"', '\\"')


def _query_range(
    request: _Request, field: str, day: Window, hosts: Sequence[str]
) -> Iterator[list[object]]:
    """The rows of a range query: a point at *t* is of the step before it."""
    step_ms = request.step_s * 1000
    first = day.start_ms - day.start_ms % step_ms + step_ms
    if first > day.end_ms:
        return
    values = {
        "query": _write_query(request, field, hosts), "start": str(first / 1000),
        "end": str(day.end_ms / 1000), "step": str(request.step_s),
    }  # fmt: skip
    data = _ask(request.server, "query_range", values)
    names = list(READING_COLUMNS)
    place = names.index(field)
    whole = READING_COLUMNS[field] == "BIGINT"
    for series in data.get("result", []):
        fixed = _series_columns(series["metric"])
        for moment, value in series["values"]:
            number = float(value)
            if math.isfinite(number):
                row: list[object] = [round(moment * 1000), *fixed, *[""] * (len(names) - 6)]
                row[place] = round(number) if whole else f"{number:.6g}"
                yield row


def _series_columns(labels: Mapping[str, str]) -> Iterable[str]:
    """Node, GPU, UUID, job and owner of a series."""
    found = {
        column: next((labels[name] for name in names if labels.get(name)), "")
        for column, names in _LABELS.items()
    }
    host = short_name(found["node"].partition(":")[0])
    gpu, slice_ = labels.get("gpu", ""), labels.get("GPU_I_ID", "")
    return host, f"{gpu}/{slice_}" if slice_ else gpu, found["uuid"], found["job"], found["owner"]
