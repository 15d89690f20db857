"""Puts the values of a trial into the command: ``{lr}``, ``{config}``, environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.errors import UsageError
from whyidle.model.documents.search import Dimension, Values
from whyidle.planning.search.space import format_value

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)\}")
OWN = ("config", "trial", "folder")
"""placeholders of whyidle: a JSON file of all values, the trial's number, the trial's folder"""


@dataclass(frozen=True, slots=True)
class FilledCommand:
    """The command of one trial, and its variables."""

    words: list[str]
    variables: dict[str, str]


def check_template(words: Sequence[str], dimensions: Sequence[Dimension]) -> None:
    """Check that the command and the space name the same hyperparameters.

    Raises:
        UsageError: a placeholder has no space, or a dimension is not used.
    """
    used = {name for word in words for name in _PLACEHOLDER.findall(word)}
    known = {dimension.name for dimension in dimensions if not dimension.env}
    if absent := sorted(used - known - {*OWN}):
        raise UsageError(
            f"The command has {{{absent[0]}}}, and the space does not.",
            hint=f"--space {absent[0]}=log:1e-5..1e-1 or --space {absent[0]}=32,64",
        )
    unused = sorted(known - used)
    if unused and "config" not in used:
        raise UsageError(
            f"The space has {unused[0]}, but the command does not use it.",
            why="Nothing would change from trial to trial.",
            hint=f"Write {{{unused[0]}}} where the command takes it, {{config}} for the path of a "
            f"JSON file with all values, or --space env:{unused[0]}=... for a variable.",
        )


def fill_command(
    words: Sequence[str], dimensions: Sequence[Dimension], values: Values, number: int, folder: Path
) -> FilledCommand:
    """Fill in the values of a trial; writes ``config.json`` in its ``folder`` if it is named."""
    own = {"trial": str(number), "folder": str(folder), "config": str(folder / "config.json")}
    env = {dimension.name for dimension in dimensions if dimension.env}
    shown = {name: format_value(value) for name, value in values.items() if name not in env}
    if any("{config}" in word for word in words):
        content = {name: value for name, value in values.items() if name not in env}
        (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")

    def fill_placeholder(found: re.Match[str]) -> str:
        return (own | shown).get(found[1], found[0])

    return FilledCommand(
        [_PLACEHOLDER.sub(fill_placeholder, word) for word in words],
        {name: format_value(values[name]) for name in env},
    )
