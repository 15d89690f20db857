"""What the user has configured once: ``config.toml`` in ``$XDG_CONFIG_HOME/whyidle`` (by default
``~/.config/whyidle``), and ``[tool.whyidle]`` in the ``pyproject.toml`` of the working folder,
which goes before it. Options of a command go before both."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from whyidle.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``track``: ``auto`` joins the runs that a job opens in its trackers, as ``--track`` does."""

    track: Literal["auto", "off"] = "off"


FORMS = {"track": 'track = "auto" or "off"'}
"""key -> how it is written"""


def read_configuration() -> Configuration:
    """The configuration; the defaults where there is none.

    Raises:
        InputError: a file is not TOML, or holds something that is not understood.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  # never fails
    path, project = Path(home, "whyidle", "config.toml"), Path("pyproject.toml")
    tool = _read_toml(project, "[tool.whyidle").get("tool", {})
    tables = {path: _read_toml(path), project: tool.get("whyidle", {})}
    for source, table in tables.items():
        _check_table(source, table)
    merged: dict[str, Any] = {
        key: value for table in tables.values() for key, value in table.items()
    }
    return msgspec.convert(merged, Configuration)


def _check_table(path: Path, table: dict[str, Any]) -> None:
    try:
        msgspec.convert(table, Configuration)
    except msgspec.ValidationError as error:
        key = next(key for key in table if key not in FORMS or f"$.{key}`" in str(error))
        before = re.split(rf"^\s*[\"']?{re.escape(key)}\b", path.read_text("utf-8"), flags=re.M)[0]
        raise InputError(
            f"{path}, line {before.count(chr(10)) + 1}: {key} = {table[key]!r} is not understood.",
            why=f"{error}. Keys: {', '.join(FORMS)}.",
            hint="; ".join(FORMS.values()),
        ) from error


def _read_toml(path: Path, needed: str = "") -> dict[str, Any]:
    """A file, if it has the text ``needed``: what else a project's file holds is not checked."""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text) if needed in text else {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"The configuration {path} cannot be read.", why=f"{why}.") from error
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        number = line[1] if line else text.count("\n") + 1
        hint = "; ".join(FORMS.values())
        raise InputError(f"{path}, line {number}: not TOML.", why=f"{error}.", hint=hint) from error
