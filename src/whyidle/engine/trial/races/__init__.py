"""Races: ways to learn which number of a knob is fastest, one in each file, on one machine.

A file has ``race(entries, run)``, which takes entries with the most promising first and returns, in
their order, what came of each, and ``NEEDS``, the library without which it cannot be had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from whyidle import catalog
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.engine import Entry
from whyidle.engine.trial.waiting import GoOn

Run = Callable[[Entry, "GoOn | None"], Ran]
Race = Callable[[Sequence[Entry], Run], "list[Ran | None]"]
FOLDER = "engine.trial.races"


def best() -> Race:
    """The one that ends early what is outrun, where its library is installed; else in turn."""
    found = [catalog.module(FOLDER, name) for name in catalog.names(FOLDER)]
    able = [one for one in found if not one.NEEDS or find_spec(one.NEEDS)]
    race: Race = max(able, key=lambda one: bool(one.NEEDS)).race
    return race
