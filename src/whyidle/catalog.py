"""Finds the plug-ins: every file of a plug-in folder, and the entry points of other packages.

The folder listing is the registry. Names are listed without importing anything; a plug-in is
imported when it is asked for. Files that begin with an underscore are parts, not plug-ins. Other
packages add theirs through the entry-point groups ``whyidle.causes``, ``whyidle.fixes``,
``whyidle.knobs``, ``whyidle.patches``, ``whyidle.sources``, ``whyidle.importers`` and
``whyidle.exporters``. One that cannot be loaded is left out and listed by ``broken_plugins``; to
ask for it by name is an error.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Final, TypeVar

from whyidle.errors import CatalogError
from whyidle.model.cause import Cause
from whyidle.model.fix import Fix
from whyidle.model.knobs import KNOBS, Knob
from whyidle.model.patch import SourceForm
from whyidle.model.plugin import Exporter, Importer

Plugin = TypeVar("Plugin", Cause, Fix, SourceForm)
FAULTS: Final[tuple[type[Exception], ...]] = (Exception,)
"""whatever importing a module of another package may raise"""
_KINDS: Final[Mapping[str, type]] = {
    "causes": Cause,
    "fixes": Fix,
    "knobs": Knob,
    "patches": SourceForm,
    "sources": ModuleType,
    "importers": ModuleType,
    "exporters": ModuleType,
}
"""kinds of plug-ins, ``whyidle.KIND`` as entry points -> what such an entry point names"""
_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "importers": ("SUFFIXES", "sniff", "load"),
    "exporters": ("render",),
    "sources": ("SIGNALS", "PERIOD_S", "LIVE", "probe", "open"),
}
"""kinds of plug-ins that are modules -> what such a module must have"""
_broken: Final[dict[tuple[str, str], CatalogError]] = {}


def plugin_names(folder: str) -> list[str]:
    """Names of the plug-ins in a folder of this package, sorted, without importing them."""
    package = importlib.import_module(f"whyidle.{folder}")
    return sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if info.name[0] != "_"
    )


def plugin_module(folder: str, name: str) -> ModuleType:
    """One plug-in's module. Raises CatalogError where there is none of that name."""
    if name not in plugin_names(folder):
        known = ", ".join(plugin_names(folder))
        raise CatalogError(f"There is no {name!r} in {folder}.", why=f"Known: {known}.")
    return importlib.import_module(f"whyidle.{folder}.{name}")


def load_sources() -> dict[str, ModuleType]:
    """Every source of telemetry by name: those of this package, those of other packages, and the
    modules that the variable ``WHYIDLE_SOURCES`` names, separated by commas.

    Raises:
        CatalogError: a module of that variable cannot be imported.
    """
    found = {name: plugin_module("sources", name) for name in plugin_names("sources")}
    paths = filter(None, os.environ.get("WHYIDLE_SOURCES", "").split(","))
    _add_entry_points(found, "sources")
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
def load_causes() -> dict[str, Cause]:
    """Every root cause by id."""
    found: dict[str, Cause] = {}
    for family in plugin_names("causes"):
        for stem in plugin_names(f"causes.{family}"):
            path = f"whyidle.causes.{family}.{stem}"
            _register_plugin(found, Cause, importlib.import_module(path), path)
    _add_entry_points(found, "causes")
    return found


@lru_cache(maxsize=1)
def load_fixes() -> dict[str, Fix]:
    """Every fix by id: a file each, and the rows of the tables of advice."""
    found = _load_folder("fixes", Fix)
    for family in plugin_names("fixes.advice"):
        path = f"whyidle.fixes.advice.{family}"
        for row in importlib.import_module(path).ADVICE:
            _add(found, row, path)
    return dict(sorted(found.items()))


@lru_cache(maxsize=1)
def load_source_forms() -> dict[str, SourceForm]:
    """Every form of source text by id."""
    return _load_folder("patches", SourceForm)


@lru_cache(maxsize=1)
def load_knobs() -> dict[str, Knob]:
    """Every knob by id: those of this package, and those of others."""
    found = dict(KNOBS)
    _add_entry_points(found, "knobs")
    return found


def find_knob(name: str) -> Knob:
    """The declaration of a knob; of one that nobody declares, as are variables of the environment,
    one with no special properties."""
    return load_knobs().get(name) or Knob(name, str, "")


def load_importers() -> dict[str, Importer]:
    """Importers of other packages by name."""
    found: dict[str, Importer] = {}
    _add_entry_points(found, "importers")
    return found


def list_exporters() -> list[str]:
    """Names of the forms that a diagnosis can be written in, without importing them."""
    foreign = {point.name for point in entry_points(group="whyidle.exporters")}
    return sorted({*plugin_names("exporters"), *foreign})


def load_exporter(name: str) -> Exporter:
    """One exporter by name.

    Raises:
        CatalogError: there is none of that name, or it cannot be loaded.
    """
    own: Any = None
    if name in plugin_names("exporters"):
        own = importlib.import_module(f"whyidle.exporters.{name}")
    elif points := entry_points(group="whyidle.exporters", name=name):
        own = _load_entry_point(next(iter(points)), "exporters")
    if own is None or not hasattr(own, "render"):
        known = ", ".join(list_exporters())
        raise CatalogError(f"There is no exporter {name!r}.", why=f"Known: {known}.")
    exporter: Exporter = own
    return exporter


def broken_plugins() -> list[CatalogError]:
    """Plug-ins of other packages that were looked for so far and could not be loaded."""
    return [error for _, error in sorted(_broken.items())]


def examine_plugins() -> dict[str, CatalogError | None]:
    """Every plug-in of other packages, ``KIND/NAME`` -> why it cannot be used, None where it can.
    All of them are imported."""
    found: dict[str, CatalogError | None] = {}
    for folder in _KINDS:
        for point in entry_points(group=f"whyidle.{folder}"):
            thing = _try_entry_point(point, folder)
            found[f"{folder}/{point.name}"] = thing if isinstance(thing, CatalogError) else None
    return found


def knob_wording(framework: str | None) -> Mapping[str, str]:
    """How users of a framework write each knob; empty where nothing is known of it."""
    return _wording(framework, "BY_HAND")


def patch_wording(framework: str | None) -> Mapping[str, str]:
    """What is otherwise in a file that sets a knob than under a plan; empty where nothing is
    known of the framework."""
    return _wording(framework, "PATCHED")


@cache
def _wording(framework: str | None, table: str) -> Mapping[str, str]:
    for folder in plugin_names("frameworks"):
        if framework == importlib.import_module(f"whyidle.frameworks.{folder}").NAME:
            words = importlib.import_module(f"whyidle.frameworks.{folder}.wording")
            found: Mapping[str, str] = getattr(words, table)
            return found
    return {}


def _load_folder(folder: str, kind: type[Plugin]) -> dict[str, Plugin]:
    """Every plug-in of a flat folder, and of the entry points of its name."""
    found: dict[str, Plugin] = {}
    for stem in plugin_names(folder):
        path = f"whyidle.{folder}.{stem}"
        plugin = importlib.import_module(path)
        if not hasattr(plugin, "__path__"):  # a folder holds something else
            _register_plugin(found, kind, plugin, path)
    _add_entry_points(found, folder)
    return found


def _register_plugin(
    found: dict[str, Plugin], kind: type[Plugin], plugin: ModuleType, path: str
) -> None:
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


def _add_entry_points(found: dict[str, Any], folder: str) -> None:
    """Add what other packages bring; what is broken is noted and left out."""
    for point in sorted(entry_points(group=f"whyidle.{folder}"), key=lambda point: point.name):
        thing = _try_entry_point(point, folder)
        name = getattr(thing, "id", point.name)
        if name in found:
            thing = _refuse(point, f"There is a {name!r} already", "Name it otherwise.")
        if isinstance(thing, CatalogError):
            _broken[folder, point.name] = thing
        else:
            found[name] = thing


def _try_entry_point(point: EntryPoint, folder: str) -> Any:
    """What another package brings, or the CatalogError that says why it cannot be used."""
    try:
        return _load_entry_point(point, folder)
    except CatalogError as error:
        return error


def _load_entry_point(point: EntryPoint, folder: str) -> Any:
    """What another package brings.

    Raises:
        CatalogError: it cannot be imported, or is not what belongs in ``whyidle.FOLDER``.
    """
    kind = _KINDS[folder]
    try:
        thing = point.load()
    except FAULTS as error:
        text = f"{point.value} cannot be imported: {type(error).__name__}: {error}"
        raise _refuse(point, text, "Update or uninstall the package.") from error
    if kind is not ModuleType and isinstance(thing, ModuleType):
        things = [value for value in vars(thing).values() if isinstance(value, kind)]
        thing = things[0] if len(things) == 1 else thing
    if not isinstance(thing, kind):
        wanted = "a module" if kind is ModuleType else f"one {kind.__name__}"
        raise _refuse(
            point,
            f"{point.value} is not {wanted}",
            "Correct the entry point in its pyproject.toml.",
        )
    if lacking := [name for name in _ATTRIBUTES.get(folder, ()) if not hasattr(thing, name)]:
        text = f"{point.value} has no {', '.join(lacking)}"
        raise _refuse(point, text, f"Add what whyidle.{folder} documents.")
    return thing


def _refuse(point: EntryPoint, why: str, hint: str) -> CatalogError:
    package = point.dist.name if point.dist is not None else "another package"
    return CatalogError(
        f"The plug-in {point.name!r} ({point.group}) of {package} cannot be used.",
        why=f"{why}.",
        hint=hint,
    )
