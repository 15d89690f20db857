"""Reads rules, routes and delivery settings from TOML."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from whyidle.errors import InputError
from whyidle.model.live.alert import Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED: Final = Path(__file__).with_name("rules.toml")
_STEP: Final = re.compile(r"\.(\w+)(?:\[(\d+)\])?")
PAGE: Final = "docs/how-to/alerts.md"
_SIGNAL: Final = re.compile(r"[a-z_]+(:[a-z_]+)*")


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of alerts. ``use`` selects rules by id; None: all. ``route`` tables have a ``kind``,
    the name of a file of ``machine/alerts/routes``, and that route's own settings."""

    rule: list[Rule] = []
    use: list[str] | None = None
    repeat_s: float = 4 * 3600.0
    most_per_hour: int = 20
    interval_s: float = 30.0
    route: list[dict[str, Any]] = []

    def active_rules(self) -> list[Rule]:
        """The rules in use; one of the user's replaces a shipped one of the same id."""
        by_id = {rule.id: rule for rule in [*load_shipped(), *self.rule]}
        return [by_id[name] for name in (by_id if self.use is None else self.use)]


def load_shipped() -> list[Rule]:
    """The rules that come with whyidle."""
    return _parse_settings(SHIPPED.read_text(encoding="utf-8"), str(SHIPPED)).rule


def read_settings(path: Path) -> AlertSettings:
    """Read a file of alerts.

    Raises:
        InputError: it cannot be read, or holds something that is not understood.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot read {path}.", why=f"{why}.", hint="Check the path.") from error
    settings = _parse_settings(text, str(path))
    known = {rule.id for rule in [*load_shipped(), *settings.rule]}
    if unknown := [name for name in settings.use or () if name not in known]:
        why = f"There is no rule {unknown[0]!r}; rules: {', '.join(sorted(known))}"
        raise _complain(text, str(path), [("use", 0)], why)
    for number, table in enumerate(settings.route):  # for the errors of the routes
        lines = {key: _find_line(text, [("route", number), (key, 0)]) for key in table}
        table["at"] = str(path), lines
    return settings


def _parse_settings(text: str, name: str) -> AlertSettings:
    try:
        settings = msgspec.convert(tomllib.loads(text), AlertSettings)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        number = int(line[1]) if line else text.count("\n") + 1
        raise InputError(f"{name}, line {number}: not TOML.", why=f"{error}.", hint=PAGE) from error
    except msgspec.ValidationError as error:
        told, _, spot = str(error).partition(" - at `$")
        trail = [(key, int(number or 0)) for key, number in _STEP.findall(spot)]
        if field := re.search(r"unknown field `(.+?)`", told):
            trail.append((field[1], 0))
        raise _complain(text, name, trail, told.replace("Object", "It")) from error
    for number, rule in enumerate(settings.rule):
        if problem := _rule_problem(rule):
            raise _complain(text, name, [("rule", number), (problem[0], 0)], problem[1])
    if not 1.0 <= settings.interval_s <= 3600.0:
        raise _complain(text, name, [("interval_s", 0)], "It must be 1 to 3600")
    return settings


def _rule_problem(rule: Rule) -> tuple[str, str] | None:
    """The key that is wrong, and why."""
    if (rule.above is None) == (rule.below is None):
        return "above", "A rule needs one of `above` and `below`"
    for key, signal in (("signal", rule.signal), ("guard", rule.guard or rule.signal)):
        if not _SIGNAL.fullmatch(signal):
            return key, "It must be the name of a metric, such as whyidle_gpu_busy_ratio"
    least = {"window_s": rule.window_s >= 2.0, "for_s": rule.for_s >= 0}
    for key, right in (*least.items(), ("coverage", 0 < rule.coverage <= 1)):
        if not right:
            return key, "window_s must be 2 or more, for_s 0 or more, coverage above 0, at most 1"
    return None


def _find_line(text: str, trail: Sequence[tuple[str, int]]) -> int:
    """The line of a key, or of the last table before it that the file has."""
    at = 0
    for key, number in trail:
        name = rf"[ \t]*[\"']?{re.escape(key)}\b"
        found = list(re.compile(rf"^(?:\[\[?{name}|{name})", re.M).finditer(text, at))
        at = found[min(number, len(found) - 1)].start() if found else at
    return text.count("\n", 0, at) + 1


def _complain(text: str, name: str, trail: Sequence[tuple[str, int]], why: str) -> InputError:
    key = ".".join(key for key, _ in trail)
    known = Rule if len(trail) > 1 and trail[0][0] == "rule" else AlertSettings
    keys = ", ".join(field.encode_name for field in msgspec.structs.fields(known))
    return InputError(
        f"{name}, line {_find_line(text, trail)}: {key} cannot be used.",
        why=f"{why}. Keys: {keys}.", hint=PAGE,
    )  # fmt: skip
