"""What the user has configured once: ``config.toml`` in ``$XDG_CONFIG_HOME/whyidle`` (by default
``~/.config/whyidle``), and ``[tool.whyidle]`` in the ``pyproject.toml`` of the working folder,
which goes before it. Options of a command go before both."""

from __future__ import annotations

import os
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


def read_configuration() -> Configuration:
    """The configuration; the defaults where there is none.

    Raises:
        InputError: a file is no TOML, or holds something that is not understood.
    """
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  # never fails
    path, project = Path(home, "whyidle", "config.toml"), Path("pyproject.toml")
    tool = _read_toml(project, "[tool.whyidle").get("tool", {})
    tables = {path: _read_toml(path), project: tool.get("whyidle", {})}
    merged: dict[str, Any] = {}
    for source, table in tables.items():
        try:
            msgspec.convert(table, Configuration)
        except msgspec.ValidationError as error:
            raise _complain(source, str(error)) from error
        merged |= table
    return msgspec.convert(merged, Configuration)


def _read_toml(path: Path, needed: str = "") -> dict[str, Any]:
    """A file, if it has the text ``needed``: what else a project's file holds is not checked."""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text) if needed in text else {}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _complain(path, why) from error
    except tomllib.TOMLDecodeError as error:
        raise _complain(path, f"It is not TOML: {error}") from error


def _complain(path: Path, why: str) -> InputError:
    return InputError(
        f"The configuration {path} cannot be read.", why=f"{why}.", hint='track = "auto" or "off"'
    )
