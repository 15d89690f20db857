"""``plan.toml``: the plan of fixes as a file that people read, change and keep beside their job."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from whyidle.errors import InputError, StoreError
from whyidle.model.knobs import KNOBS, Knob, Setting, setting_problem
from whyidle.model.plan import SCHEMA, FixPlan, PlannedFix, Speedup
from whyidle.store.atomic_write import write_atomic
from whyidle.store.decode_errors import describe_error
from whyidle.store.schema_versions import rename_old_keys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHANGES: Final = {
    "none": "changes no number",
    "rounding": "may change the rounding and the order of random numbers",
    "numerics": "computes with less precision",
    "convergence": "may change how the model learns",
}
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_plan(plan: FixPlan, path: Path) -> None:
    """Write a plan, whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    try:
        write_atomic(path, text_of(plan).encode())
    except OSError as error:
        raise StoreError(
            f"Cannot write {path}.", why=f"{error.strerror or error}.", hint="Name another file."
        ) from error


def text_of(plan: FixPlan) -> str:
    """The plan as TOML, with comments that say what each fix does and what was measured."""
    command = _toml_comment(shlex.join(plan.command))
    lines = [
        f"# What whyidle kept for: {command}",
        "# Apply it without editing the program:",
        f"#     whyidle run --plan plan.toml {command}",
        "# To leave a fix out, set its `enabled` to false. The values under `fix.edits` are yours",
        "# to change; nothing checks that another value is as fast, or as safe.",
        "# All of it is set for the running program alone: without the plan it runs as it did.",
        "",
        f"schema = {_toml_value(plan.schema)}",
        f"command = {_toml_value(plan.command)}",
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
    lines += [f"#    {CHANGES[fix.consent]}", "[[fix]]"]
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
    said = [
        f"{name} {gain.times:.2f} times as fast ({gain.low:.2f} to {gain.high:.2f})"
        for name, gain in (("measured", fix.measured), ("predicted", fix.predicted))
        if gain is not None
    ]
    return ", ".join(said) or "neither predicted nor measured"


def _toml_comment(text: str) -> str:
    """On one line, without what TOML does not allow in comments."""
    return "".join(c for c in " ".join(text.split()) if c >= " " and c != "\x7f")


def _toml_key(name: str) -> str:
    """``loader.workers`` as it is; the part behind the first dot in quotes where it must be."""
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
    """Read a plan, edited by hand or not. ``knobs`` are those that it may set.

    Raises:
        InputError: the file cannot be read, or is no plan that this version applies; the message
            names the place and what to do.
    """
    named = "Name the plan that whyidle fix wrote."
    try:
        text = path.read_bytes().decode()
    except IsADirectoryError as error:
        inside = path / "plan.toml"
        raise InputError(
            f"A folder is no plan: {path.resolve()}",
            hint=f"--plan {inside}" if inside.is_file() else named,
        ) from error
    except OSError as error:
        raise InputError(
            f"Cannot read the plan {path}.", why=f"{error.strerror or error}.", hint=named
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no plan.", why="It is not text in UTF-8.") from error
    return parse_plan(text, str(path), knobs)


def parse_plan(text: str, name: str, knobs: Mapping[str, Knob] = KNOBS) -> FixPlan:
    """A plan's text as a plan; ``name`` is what the file is called in messages.

    Raises:
        InputError: see ``read_plan``.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"{name} is not TOML.",
            why=f"{error}.",
            hint="Mend that line, or have the plan written anew.",
        ) from error
    _check_schema(document.get("schema"), name)
    rename_old_keys(document)
    for number, each in enumerate(_fix_tables(document.get("fix")), 1):
        _check_consent(each.get("consent"), f"{name}, fix {number}")
        for part in ("edits", "was"):
            if isinstance(each.get(part), dict):
                each[part] = _flatten_edits(each[part])
    try:
        plan = msgspec.convert(document, FixPlan)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{name} is no plan that can be applied.",
            why=f"{_error_place(error)}.",
            hint="Correct that entry, or take it out.",
        ) from error
    _check_edits(plan, name, knobs)
    return plan


def _check_schema(schema: object, name: str) -> None:
    if schema == SCHEMA:
        return
    if schema is None:
        why, hint = "It has no `schema`.", f'A plan begins with schema = "{SCHEMA}".'
    elif isinstance(schema, str) and schema.startswith("whyidle/plan/"):
        why = f"It is written in {schema}; this version reads {SCHEMA}."
        hint = "Update whyidle, or have the plan written anew."
    else:
        why, hint = f"Its `schema` is {schema!r}.", f"This version reads {SCHEMA}."
    raise InputError(f"{name} is no plan that can be applied.", why=why, hint=hint)


def _check_consent(consent: object, where: str) -> None:
    """Text alone is looked at: of what is missing or another type the decoder speaks."""
    if isinstance(consent, str) and consent not in CHANGES:
        allowed = ", ".join(f'"{word}" ({meaning})' for word, meaning in CHANGES.items())
        raise InputError(
            f"{where} cannot be applied.",
            why=f"Its `consent` is {_toml_value(consent)}, which is no class of changes.",
            hint=f"Write one of {allowed}.",
        )


def _fix_tables(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _flatten_edits(edits: dict[str, Any], above: str = "") -> dict[str, Any]:
    """``loader.workers = 4`` is a table in a table for TOML, and one knob for us."""
    flat: dict[str, Any] = {}
    for key, value in edits.items():
        name = f"{above}{key}"
        flat |= _flatten_edits(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


def _error_place(error: Exception) -> str:
    """What a decoder says, with places in the words of the file: fixes counted from one."""
    return re.sub(r"\bfix\[(\d+)\]", lambda m: f"fix {int(m[1]) + 1}", describe_error(error))


def _check_edits(plan: FixPlan, name: str, knobs: Mapping[str, Knob]) -> None:
    set_by: dict[str, tuple[Setting, int]] = {}
    for number, fix in enumerate(plan.fix, 1):
        for knob, value in fix.edits.items():
            where = f"{name}, fix {number} ({fix.fix})"
            if wrong := setting_problem(knob, value, knobs):
                raise InputError(
                    f"{where} cannot be applied.", why=wrong, hint="Correct it, or take it out."
                )
            before, other = set_by.get(knob, (value, number))
            if fix.enabled and before != value:
                raise InputError(
                    f"{where} cannot be applied.",
                    why=f"It sets {knob!r} to {value!r}, fix {other} to {before!r}.",
                    hint="Let one of them alone set it.",
                )
            if fix.enabled:
                set_by[knob] = value, number
