"""Reads rules, routes and delivery settings from TOML."""

from __future__ import annotations

import re
import sys
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
        why = f"There is no rule {unknown[0]!r}; rules: {', '.join(sorted(known))}."
        raise InputError(f"{path}: `use` cannot be used.", why=why, hint=PAGE)
    return settings


def _parse_settings(text: str, name: str) -> AlertSettings:
    try:
        settings = msgspec.convert(tomllib.loads(text), AlertSettings)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        why = str(error).replace("Object ", "It ").replace("`$.", "`")
        raise InputError(f"{name} cannot be used.", why=f"{why}.", hint=PAGE) from error
    for rule in settings.rule:
        if why := _rule_problem(rule):
            raise InputError(f"{name}: the rule {rule.id!r} cannot be used.", why=why, hint=PAGE)
    if not 1.0 <= settings.interval_s <= 3600.0:
        raise InputError(f"{name}: interval_s must be 1 to 3600.", hint=PAGE)
    return settings


def _rule_problem(rule: Rule) -> str:
    """What is wrong with a rule; empty if nothing is."""
    if (rule.above is None) == (rule.below is None):
        return "A rule needs one of `above` and `below`."
    for signal in (rule.signal, rule.guard or rule.signal):
        if not _SIGNAL.fullmatch(signal):
            return f"{signal!r} is not the name of a metric, such as whyidle_gpu_busy_ratio."
    if rule.window_s < 2.0 or rule.for_s < 0 or not 0 < rule.coverage <= 1:
        return "window_s must be 2 or more, for_s 0 or more, coverage above 0, at most 1."
    return ""
