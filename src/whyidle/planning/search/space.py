"""Reads the space of a search: ``lr=log:1e-5..1e-1`` on the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from whyidle.errors import UsageError
from whyidle.model.documents.search import Dimension, Value

FORMS = "--space lr=log:1e-5..1e-1 or --space batch_size=32,64"
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_WHOLE = re.compile(r"-?(0|[1-9]\d*)")
_RANGE = re.compile(r"((?:log:|int:)*)(\S+?)\.\.(\S+?)(?:/(\d+))?")


def read_space(texts: Sequence[str]) -> list[Dimension]:
    """Read dimensions from texts of the form ``NAME=RANGE``.

    Raises:
        UsageError: a text is no dimension, or the space is empty.
    """
    pairs = [text.partition("=") for text in texts]
    dimensions = [_read_dimension(name.strip(), values.strip()) for name, _, values in pairs]
    if not dimensions:
        raise UsageError("The space is empty.", hint=FORMS)
    names = [dimension.name for dimension in dimensions]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"The space has {sorted(doubled)[0]} twice.", hint="Remove one.")
    return dimensions


def _read_dimension(name: str, text: str) -> Dimension:
    env = name.startswith("env:")
    bare = name.removeprefix("env:")
    if not _NAME.fullmatch(bare):
        raise UsageError(f"{name!r} is not a valid hyperparameter name.", hint=FORMS)
    if found := _RANGE.fullmatch(text):
        return _make_range(bare, found[1], found[2], found[3], found[4], env=env)
    choices = [word.strip() for word in text.split(",")]
    if not all(choices):
        raise UsageError(f"The space of {name} is empty: {name}={text}.", hint=FORMS)
    return Dimension(name=bare, choices=[parse_value(word) for word in choices], env=env)


def _make_range(
    name: str, marks: str, low: str, high: str, points: str | None, *, env: bool
) -> Dimension:
    try:
        ends = float(low), float(high)
    except ValueError:
        ends = math.nan, math.nan
    whole = "int:" in marks or bool(_WHOLE.fullmatch(low) and _WHOLE.fullmatch(high))
    log = "log:" in marks
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < ends[1]):
        raise UsageError(f"{name}={low}..{high} is not a range from a lower to a higher number.")
    if log and ends[0] <= 0.0:
        raise UsageError(f"{name}: a logarithmic range begins above 0, not at {low}.")
    return Dimension(
        name=name,
        low=ends[0],
        high=ends[1],
        log=log,
        whole=whole,
        points=max(int(points or 5), 2),
        env=env,
    )


def parse_value(text: str) -> Value:
    """A word as a number or truth value if it is written as one."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text


def format_value(value: Value) -> str:
    """A value as a word of a command."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def grid_values(dimension: Dimension) -> list[Value]:
    """The values of a dimension on a grid."""
    if dimension.choices:
        return dimension.choices
    space = np.geomspace if dimension.log else np.linspace
    points = space(dimension.low, dimension.high, dimension.points).tolist()
    if dimension.whole:
        return list(dict.fromkeys(round(point) for point in points))
    return [float(f"{point:.6g}") for point in points]
