"""Reads and writes ``plan.toml``, which people read and edit."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from whyidle.errors import InputError
from whyidle.model.fix import CONSENTS
from whyidle.model.knobs import KNOBS, Knob, Setting, setting_problem
from whyidle.model.number_text import has_only_low_end
from whyidle.model.plan import SCHEMA, FixPlan, PlannedFix, Speedup
from whyidle.model.redaction import redact_command
from whyidle.store.document import describe_error

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def text_of(plan: FixPlan) -> str:
    """The plan as TOML, with comments on each fix and its measured gain."""
    words = redact_command(plan.command)
    command = _toml_comment(shlex.join(words))
    lines = [
        f"# Fixes that whyidle kept for: {command}",
        "# Apply them without editing the program:",
        f"#     whyidle run --plan plan.toml {command}",
        "# Set `enabled` to false to leave a fix out. You may change the values under `fix.edits`;",
        "# whyidle has not tested that other values are as fast or as safe.",
        "# The fixes take effect in the running program only.",
        "",
        f"schema = {_toml_value(plan.schema)}",
        f"command = {_toml_value(words)}",
        f"made = {_toml_value(plan.made)}",
        f"whyidle = {_toml_value(plan.whyidle)}",
    ]
    if not plan.fix:
        lines += ["", "# No fix was kept."]
    for number, fix in enumerate(plan.fix, 1):
        lines += ["", *_fix_lines(number, fix)]
    return "\n".join(lines) + "\n"


def _fix_lines(number: int, fix: PlannedFix) -> list[str]:
    lines = [f"# {number}. {_toml_comment(fix.summary or fix.fix)}", f"#    {_gain_comment(fix)}"]
    lines += [f"#    {CONSENTS[fix.consent]}", "[[fix]]"]
    lines += [f"fix = {_toml_value(fix.fix)}", f"consent = {_toml_value(fix.consent)}"]
    lines += [f"enabled = {_toml_value(fix.enabled)}"]
    lines += [f"summary = {_toml_value(fix.summary)}"] if fix.summary else []
    for name in ("predicted", "measured"):
        gain: Speedup | None = getattr(fix, name)
        if gain is not None:
            numbers = f"times = {gain.times!r}, low = {gain.low!r}, high = {gain.high!r}"
            lines.append(f"{name} = {{ {numbers} }}")
    for name, settings in (("edits", fix.edits), ("was", fix.was)):
        if settings or name == "edits":
            lines += ["", f"[fix.{name}]"]
            lines += [
                f"{_toml_key(knob)} = {_toml_value(value)}" for knob, value in settings.items()
            ]
    return lines


def _gain_comment(fix: PlannedFix) -> str:
    gains = [
        f"{name} {_describe_speedup(gain)}"
        for name, gain in (("measured", fix.measured), ("predicted", fix.predicted))
        if gain is not None
    ]
    return ", ".join(gains) or "neither predicted nor measured"


def _describe_speedup(gain: Speedup) -> str:
    if has_only_low_end(gain.low, gain.high):
        return f"at least {gain.low:.2f} times as fast"
    return f"{gain.times:.2f} times as fast ({gain.low:.2f} to {gain.high:.2f})"


def _toml_comment(text: str) -> str:
    return "".join(c for c in " ".join(text.split()) if c >= " " and c != "\x7f")


def _toml_key(name: str) -> str:
    family, dot, rest = name.partition(".")
    parts = (family, rest) if dot else (family,)
    return ".".join(part if _BARE.fullmatch(part) else _toml_value(part) for part in parts)


def _toml_value(value: Setting | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + "".join(_escape_character(character) for character in value) + '"'
    return repr(value)


def _escape_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character >= " " and character != "\x7f" else f"\\u{ord(character):04x}"


def read_plan(path: Path, knobs: Mapping[str, Knob] = KNOBS) -> FixPlan:
    """Read a plan that may set ``knobs``.

    Raises:
        InputError: the file cannot be read, or is not a plan that this version can apply.
    """
    hint = "Name the plan that whyidle fix wrote."
    try:
        text = path.read_bytes().decode()
    except IsADirectoryError as error:
        inside = path / "plan.toml"
        raise InputError(
            f"Cannot read the plan {path.resolve()}.",
            why="It is a folder.",
            hint=f"--plan {inside}" if inside.is_file() else hint,
        ) from error
    except OSError as error:
        raise InputError(
            f"Cannot read the plan {path}.", why=f"{error.strerror or error}.", hint=hint
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not a plan.", why="It is not UTF-8 text.", hint=hint
        ) from error
    return parse_plan(text, str(path), knobs)


def parse_plan(text: str, name: str, knobs: Mapping[str, Knob] = KNOBS) -> FixPlan:
    """Parse the text of a plan; ``name`` is the file's name in messages.

    Raises:
        InputError: see ``read_plan``.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{name} is not TOML.",
            why=f"{error}.",
            hint="Correct that line, or run whyidle fix again.",
        ) from error
    _check_schema(document.get("schema"), name)
    tables = document.get("fix")
    for number, table in enumerate(tables if isinstance(tables, list) else [], 1):
        if isinstance(table, dict):
            _check_consent(table.get("consent"), f"{name}, fix {number}")
            for part in ("edits", "was"):
                if isinstance(table.get(part), dict):
                    table[part] = _flatten_edits(table[part])
    try:
        plan = msgspec.convert(document, FixPlan)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{name} cannot be applied as a plan.",
            why=f"{_error_place(error)}.",
            hint="Correct that entry, or remove it.",
        ) from error
    _check_edits(plan, name, knobs)
    return plan


def _check_schema(schema: object, name: str) -> None:
    if schema == SCHEMA:
        return
    if schema is None:
        why, hint = "It has no `schema`.", f'Begin the plan with schema = "{SCHEMA}".'
    elif isinstance(schema, str) and schema.startswith("whyidle/plan/"):
        why = f"Its schema is {schema}; this version reads {SCHEMA}."
        hint = "Update whyidle, or run whyidle fix again."
    else:
        why, hint = f"Its `schema` is {schema!r}.", f"This version reads {SCHEMA}."
    raise InputError(f"{name} cannot be applied as a plan.", why=why, hint=hint)


def _check_consent(consent: object, where: str) -> None:
    if isinstance(consent, str) and consent not in CONSENTS:
        allowed = ", ".join(f'"{word}" ({meaning})' for word, meaning in CONSENTS.items())
        raise InputError(
            f"{where} cannot be applied.",
            why=f"Its `consent` is {_toml_value(consent)}, which is not a consent class.",
            hint=f"Use one of {allowed}.",
        )


def _flatten_edits(edits: dict[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in edits.items():
        name = f"{above}{key}"
        flat |= _flatten_edits(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


def _error_place(error: Exception) -> str:
    return re.sub(r"\bfix\[(\d+)\]", lambda m: f"fix {int(m[1]) + 1}", describe_error(error))


def _check_edits(plan: FixPlan, name: str, knobs: Mapping[str, Knob]) -> None:
    set_by: dict[str, tuple[Setting, int]] = {}
    for number, fix in enumerate(plan.fix, 1):
        for knob, value in fix.edits.items():
            where = f"{name}, fix {number} ({fix.fix})"
            if wrong := setting_problem(knob, value, knobs):
                raise InputError(
                    f"{where} cannot be applied.", why=wrong, hint="Correct it, or remove it."
                )
            before, first = set_by.get(knob, (value, number))
            if fix.enabled and before != value:
                raise InputError(
                    f"{where} cannot be applied.",
                    why=f"It sets {knob!r} to {value!r}, and fix {first} sets it to {before!r}.",
                    hint="Disable one of them.",
                )
            if fix.enabled:
                set_by[knob] = value, number
