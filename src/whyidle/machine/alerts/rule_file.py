"""Reads rules, routes and delivery settings from TOML."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from whyidle.errors import InputError
from whyidle.model.live.alert import Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED: Final = Path(__file__).with_name("rules.toml")
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d|24:00")
_SIGNAL: Final = re.compile(r"[a-z_]+(:[a-z_]+)*")


class QuietHours(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Local time in which nothing is delivered: ``from`` to ``to`` on ``days``; over midnight it
    belongs to the day on which it begins."""

    begin: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    days: tuple[Day, ...] = DAYS


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of alerts. ``use`` selects rules by id; None: all. ``route`` tables have a ``kind``,
    the name of a file of ``machine/alerts/routes``, and that route's own settings."""

    rule: list[Rule] = []
    use: list[str] | None = None
    repeat_s: float = 4 * 3600.0
    most_per_hour: int = 20
    interval_s: float = 30.0
    quiet: list[QuietHours] = []
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
        raise _complain(str(path), f"`use` names {unknown[0]!r}, which is no rule")
    return settings


def _parse_settings(text: str, name: str) -> AlertSettings:
    try:
        settings = msgspec.convert(tomllib.loads(text), AlertSettings)
    except tomllib.TOMLDecodeError as error:
        raise _complain(name, f"It is not TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise _complain(name, str(error)) from error
    for rule in settings.rule:
        if problem := _rule_problem(rule):
            raise _complain(name, f"rule {rule.id!r}: {problem}")
    for quiet in settings.quiet:
        if not (_CLOCK.fullmatch(quiet.begin) and _CLOCK.fullmatch(quiet.end)):
            raise _complain(name, f"{quiet.begin!r} to {quiet.end!r} are no times such as 22:00")
    if not 1.0 <= settings.interval_s <= 3600.0:
        raise _complain(name, "interval_s must be 1 to 3600")
    return settings


def _rule_problem(rule: Rule) -> str:
    if (rule.above is None) == (rule.below is None):
        return "it needs one of `above` and `below`"
    if not _SIGNAL.fullmatch(rule.signal) or (rule.guard and not _SIGNAL.fullmatch(rule.guard)):
        return "a signal is the name of a metric, such as whyidle_gpu_busy_ratio"
    if not rule.window_s >= 2.0 or rule.for_s < 0 or not 0 < rule.coverage <= 1:
        return "window_s must be 2 or more, for_s 0 or more, coverage above 0 and at most 1"
    return ""


def _complain(name: str, why: str) -> InputError:
    return InputError(
        f"{name} cannot be used for alerts.", why=f"{why}.", hint="docs/how-to/alerts.md"
    )
