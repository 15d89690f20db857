"""Finds the plug-ins: every file of a plug-in folder, and the entry points of other packages.

The folder listing is the registry. Names are listed without importing anything; a plug-in is
imported when it is asked for. Files that begin with an underscore are parts, not plug-ins. Other
packages add theirs through the entry-point groups ``whyidle.causes``, ``whyidle.fixes``,
``whyidle.patches``, ``whyidle.importers``, ``whyidle.exporters``.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import TypeVar

from whyidle.errors import CatalogError
from whyidle.model.cause import Cause
from whyidle.model.fix import Fix
from whyidle.model.patch import SourceForm

Plugin = TypeVar("Plugin", Cause, Fix, SourceForm)


def names(folder: str) -> list[str]:
    """Names of the plug-ins in a folder of this package, sorted, without importing them."""
    package = importlib.import_module(f"whyidle.{folder}")
    return sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if info.name[0] != "_"
    )


def module(folder: str, name: str) -> ModuleType:
    """One plug-in's module. Raises CatalogError where there is none of that name."""
    if name not in names(folder):
        known = ", ".join(names(folder))
        raise CatalogError(f"There is no {name!r} in {folder}.", why=f"Known: {known}.")
    return importlib.import_module(f"whyidle.{folder}.{name}")


def sources() -> dict[str, ModuleType]:
    """Every source of telemetry by name: those of this package, and the modules that the variable
    ``WHYIDLE_SOURCES`` names, separated by commas.

    Raises:
        CatalogError: a module of that variable cannot be imported.
    """
    found = {name: module("sources", name) for name in names("sources")}
    paths = filter(None, os.environ.get("WHYIDLE_SOURCES", "").split(","))
    return {**found, **{path: _import_source(path) for path in paths}}


def _import_source(path: str) -> ModuleType:
    try:
        return importlib.import_module(path)
    except ImportError as error:
        raise CatalogError(
            f"The source {path!r} cannot be imported.",
            why=f"{error}.",
            hint="Correct WHYIDLE_SOURCES, or unset it.",
        ) from error


@lru_cache(maxsize=1)
def causes() -> dict[str, Cause]:
    """Every root cause by id."""
    found: dict[str, Cause] = {}
    for family in names("causes"):
        for stem in names(f"causes.{family}"):
            path = f"whyidle.causes.{family}.{stem}"
            _register(found, Cause, importlib.import_module(path), path)
    _add_entry_points(found, "whyidle.causes", Cause)
    return found


@lru_cache(maxsize=1)
def fixes() -> dict[str, Fix]:
    """Every fix by id: a file each, and the rows of the tables of advice."""
    found = _folder("fixes", Fix)
    for family in names("fixes.advice"):
        path = f"whyidle.fixes.advice.{family}"
        for row in importlib.import_module(path).ADVICE:
            _add(found, row, path)
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def source_forms() -> dict[str, SourceForm]:
    """Every form of source text by id."""
    return _folder("patches", SourceForm)


def knob_wording(framework: str | None) -> Mapping[str, str]:
    """How users of a framework write each knob; empty where nothing is known of it."""
    return _wording(framework, "BY_HAND")


def patch_wording(framework: str | None) -> Mapping[str, str]:
    """What is otherwise in a file that sets a knob than under a plan; empty where nothing is
    known of the framework."""
    return _wording(framework, "PATCHED")


@cache
def _wording(framework: str | None, table: str) -> Mapping[str, str]:
    for folder in names("frameworks"):
        if framework == importlib.import_module(f"whyidle.frameworks.{folder}").NAME:
            words = importlib.import_module(f"whyidle.frameworks.{folder}.wording")
            found: Mapping[str, str] = getattr(words, table)
            return found
    return {}


def _folder(folder: str, kind: type[Plugin]) -> dict[str, Plugin]:
    """Every plug-in of a flat folder, and of the entry points of its name."""
    found: dict[str, Plugin] = {}
    for stem in names(folder):
        path = f"whyidle.{folder}.{stem}"
        plugin = importlib.import_module(path)
        if not hasattr(plugin, "__path__"):  # a folder holds something else
            _register(found, kind, plugin, path)
    _add_entry_points(found, f"whyidle.{folder}", kind)
    return found


def _register(found: dict[str, Plugin], kind: type[Plugin], plugin: ModuleType, path: str) -> None:
    things = [value for value in vars(plugin).values() if isinstance(value, kind)]
    if len(things) != 1:
        raise CatalogError(
            f"{path} declares {len(things)} of {kind.__name__}.", why="A plug-in file declares one."
        )
    _add(found, things[0], path)


def _add(found: dict[str, Plugin], thing: Plugin, path: str) -> None:
    if thing.id in found:
        raise CatalogError(f"{path} declares {thing.id!r} a second time.")
    found[thing.id] = thing


def _add_entry_points(found: dict[str, Plugin], group: str, kind: type[Plugin]) -> None:
    for point in entry_points(group=group):
        thing = point.load()
        if not isinstance(thing, kind) or thing.id in found:
            raise CatalogError(
                f"The entry point {point.name!r} of {group} is not a new {kind.__name__}."
            )
        found[thing.id] = thing
