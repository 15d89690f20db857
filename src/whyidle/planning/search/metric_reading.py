"""Reads the metric of a running trial from its output, or from what it reports.

``val_loss: {}`` is a pattern of a line of the output, with ``{}`` for the number and, if wanted,
``{step}``. A name without braces is looked for in ``whyidle.report()``, in what the job writes to
TensorBoard, MLflow, Weights & Biases or Lightning's CSV log, and in JSON lines of the output. A
prefix (``tensorboard:val/loss``) restricts it to one of them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whyidle.errors import UsageError
from whyidle.model.documents.search import SOURCES, Direction, Report

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE = rf"\s*(?P<value>{_NUMBER}|[-+]?(?:nan|inf(?:inity)?))"
_STEP = r"(?P<step>\d+)"
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_PIECE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n)")
_LONGEST = 1 << 16
"""bytes of an unfinished line that are kept"""
_STEPS = ("step", "epoch", "global_step", "iteration")
"""keys of a JSON line that hold its step"""
_HIGHER = re.compile(
    r"(?:^|[^a-z])(?:\w*acc(?:uracy)?|auc|auroc|f1|map|bleu|rouge|reward|return|score|precision"
    r"|recall|r2|iou|dice|psnr|ssim)(?:$|[^a-z])",
    re.IGNORECASE,
)


def guess_direction(metric: str) -> Direction:
    """Metrics whose name says accuracy, reward and the like are maximized, others minimized."""
    return "maximize" if _HIGHER.search(metric) else "minimize"


class MetricReader:
    """Reads the values of one trial as its files grow."""

    def __init__(self, metric: str, output: Path, reported: Path) -> None:
        self._source, self._name = split_metric(metric)
        self._pattern = compile_pattern(metric) if "{" in metric else None
        self._output = _GrowingFile(output)
        self._reported = _GrowingFile(reported)
        self._count = 0
        self._last = math.nan

    def read_appended(self, seconds: float) -> list[Report]:
        """The values since the last call; ``seconds`` since the trial's start."""
        lines, reported = self._output.read_lines(), self._reported.read_lines()
        found = [each for text, _ in reported for each in self._reported_in(text)]
        found += [each for text, drawn in lines for each in self._values_in(text, drawn=drawn)]
        reports = []
        for value, step in found:
            self._count += 1
            reports.append(
                Report(step=self._count if step is None else step, value=value, seconds=seconds)
            )
        return reports

    def finish_files(self) -> None:
        """Take the last line as ended, which a program that ends may have left open."""
        self._output.finish_line()
        self._reported.finish_line()

    def _values_in(self, text: str, *, drawn: bool) -> Iterator[tuple[float, int | None]]:
        """Values of a line; a progress bar (``drawn``) repeats its value each time it is drawn."""
        if self._pattern is None:
            if text.lstrip()[:1] == "{" and self._source in (None, "json"):
                yield from self._value_of(_decode_object(text))
            return
        for found in self._pattern.finditer(text):
            value, step = float(found["value"]), found.groupdict().get("step")
            if not (drawn and value == self._last):
                self._last = value
                yield value, int(step) if step else None

    def _value_of(self, record: dict[str, Any]) -> Iterator[tuple[float, int | None]]:
        value: Any = record
        for part in self._name.split(".") if self._name not in record else [self._name]:
            value = value.get(part) if isinstance(value, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            step = next((record[k] for k in _STEPS if isinstance(record.get(k), int)), None)
            yield float(value), step

    def _reported_in(self, text: str) -> Iterator[tuple[float, int | None]]:
        record = _decode_object(text)
        by = record.get("by")
        if record.get("name") == self._name and self._source in (None, by):
            value, step = record.get("value"), record.get("step")
            if isinstance(value, int | float):
                yield float(value), step if isinstance(step, int) else None


def split_metric(metric: str) -> tuple[str | None, str]:
    """The source of a metric (None: any) and its name."""
    source, colon, name = metric.partition(":")
    return (source, name) if colon and source in SOURCES else (None, metric)


def compile_pattern(metric: str) -> re.Pattern[str]:
    """The pattern of a metric such as ``val_loss: {}``.

    Raises:
        UsageError: it does not hold ``{}`` exactly once.
    """
    if metric.count("{}") != 1 or metric.count("{step}") > 1:
        raise UsageError(
            f"The metric {metric!r} must contain {{}} exactly once.",
            why="{} stands for the number in a line of the output, {step} for its step.",
            hint="--metric 'val_loss: {}'",
        )
    parts = re.split(r"(\{\}|\{step\}|\s+)", metric)
    known = {"{}": _VALUE, "{step}": _STEP}
    texts = [known.get(p) or (r"\s*" if p.isspace() else re.escape(p)) for p in parts if p]
    begin = r"(?<![\w/.-])" if re.match(r"\w", metric) else ""  # loss is not val_loss
    return re.compile(begin + "".join(texts), re.IGNORECASE)


def last_lines(output: Path, count: int = 5) -> list[str]:
    """The last lines of a trial's output."""
    try:
        data = output.read_bytes()[-20_000:]
    except OSError:
        return []
    text = _ESCAPES.sub(b"", data).decode("utf-8", "replace").replace("\r", "\n")
    return [line.rstrip() for line in text.split("\n") if line.strip()][-count:]


def _decode_object(text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


class _GrowingFile:
    """A file that is read as it grows, in lines; a carriage return ends one, too."""

    def __init__(self, path: Path) -> None:
        self._path, self._at, self._rest = path, 0, b""
        self._ended = b""

    def read_lines(self) -> Iterator[tuple[str, bool]]:
        """New lines, and whether a carriage return ended each."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except OSError:
            return
        self._at += len(data)
        data, end = self._rest + data + self._ended, 0
        for found in _PIECE.finditer(data):
            end = found.end()
            if end == len(data) and found[2] == b"\r":
                end = found.start()  # perhaps the first half of a line's end
                break
            text = _ESCAPES.sub(b"", found[1]).decode("utf-8", "replace")
            if text:
                yield text, found[2] == b"\r"
        self._rest = data[end:][-_LONGEST:]

    def finish_line(self) -> None:
        """End the last line."""
        self._ended = b"\n"
