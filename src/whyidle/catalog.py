"""Finds the plug-ins: every file of a plug-in folder, and the entry points of other packages.

The folder listing is the registry; a plug-in is imported when it is used. Files that begin with an
underscore are parts of plug-ins. Other packages register theirs in the entry-point groups
``whyidle.causes``, ``whyidle.fixes``, ``whyidle.knobs``, ``whyidle.patches``, ``whyidle.sources``,
``whyidle.importers``, ``whyidle.exporters``, ``whyidle.suspicions``, ``whyidle.ledgers`` and
``whyidle.meters``. ``broken_plugins`` lists those that cannot be loaded; requesting one of them by
name is an error.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from whyidle.errors import CatalogError
from whyidle.model.cause import Cause
from whyidle.model.fix import Fix
from whyidle.model.fleet_rows import Ledger, Meter
from whyidle.model.knobs import KNOBS, Knob
from whyidle.model.live.publisher import PublisherModule
from whyidle.model.live.suspicion import Suspicion
from whyidle.model.patch import SourceForm
from whyidle.model.plugin import Exporter, Importer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Plugin = TypeVar("Plugin", Cause, Fix, SourceForm, Suspicion)
FAULTS: Final[tuple[type[Exception], ...]] = (Exception,)
"""what the import of another package's module may raise"""
_INFO = (".dist-info", ".egg-info")
_KINDS: Final[Mapping[str, type]] = {
    "causes": Cause,
    "fixes": Fix,
    "knobs": Knob,
    "patches": SourceForm,
    "sources": ModuleType,
    "importers": ModuleType,
    "exporters": ModuleType,
    "suspicions": Suspicion,
    "ledgers": ModuleType,
    "meters": ModuleType,
    "publishers": ModuleType,
}
"""kind of plug-in -> type of the object that an entry point in ``whyidle.KIND`` names"""
_ATTRIBUTES: Final[Mapping[str, tuple[str, ...]]] = {
    "importers": ("SUFFIXES", "sniff", "load"),
    "exporters": ("render",),
    "sources": ("SIGNALS", "PERIOD_S", "probe", "open"),
    "ledgers": ("read",),
    "meters": ("read",),
    "publishers": ("FAULTS", "open"),
}
"""kind of plug-in -> attributes that such a module must have"""
_FOLDERS: Final[Mapping[str, str]] = {
    "importers": "readers",
    "exporters": "reports",
    "sources": "machine.sources",
    "suspicions": "machine.suspicions",
    "tenants": "machine.tenants",
    "publishers": "machine.publishers",
    "alerts.routes": "machine.alerts.routes",
    "ledgers": "cluster.ledgers",
    "meters": "cluster.meters",
}
"""kind of plug-in -> its folder, where that has another name"""
_broken: Final[dict[tuple[str, str], CatalogError]] = {}


def plugin_names(kind: str) -> list[str]:
    """List our own plug-ins of a kind, sorted, without importing them."""
    package = importlib.import_module(f"whyidle.{_FOLDERS.get(kind, kind)}")
    return sorted(
        info.name for info in pkgutil.iter_modules(package.__path__) if info.name[0] != "_"
    )


def plugin_module(kind: str, name: str) -> ModuleType:
    """Import a plug-in's module. Raises CatalogError for an unknown name."""
    if name not in plugin_names(kind):
        known = ", ".join(plugin_names(kind))
        raise CatalogError(f"There is no {name!r} in {kind}.", why=f"Known: {known}.")
    return importlib.import_module(f"whyidle.{_FOLDERS.get(kind, kind)}.{name}")


def load_sources() -> dict[str, ModuleType]:
    """Load every source of telemetry by name, including the modules that ``WHYIDLE_SOURCES`` names,
    separated by commas.

    Raises:
        CatalogError: a module of that variable cannot be imported.
    """
    sources = {name: plugin_module("sources", name) for name in plugin_names("sources")}
    paths = filter(None, os.environ.get("WHYIDLE_SOURCES", "").split(","))
    _add_entry_points(sources, "sources")
    return {**sources, **{path: _import_source(path) for path in paths}}


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
    """Load every root cause by id."""
    causes: dict[str, Cause] = {}
    for family in plugin_names("causes"):
        for stem in plugin_names(f"causes.{family}"):
            path = f"whyidle.causes.{family}.{stem}"
            _register_plugin(causes, Cause, importlib.import_module(path), path)
    _add_entry_points(causes, "causes")
    return causes


@lru_cache(maxsize=1)
def load_fixes() -> dict[str, Fix]:
    """Load every fix by id: files, and rows of the tables of advice."""
    fixes: dict[str, Fix] = {}
    for family in plugin_names("fixes"):
        for stem in plugin_names(f"fixes.{family}") if family != "advice" else ():
            path = f"whyidle.fixes.{family}.{stem}"
            _register_plugin(fixes, Fix, importlib.import_module(path), path)
    _add_entry_points(fixes, "fixes")
    for family in plugin_names("fixes.advice"):
        path = f"whyidle.fixes.advice.{family}"
        for row in importlib.import_module(path).ADVICE:
            _add_plugin(fixes, row, path)
    return dict(sorted(fixes.items()))


@lru_cache(maxsize=1)
def load_source_forms() -> dict[str, SourceForm]:
    """Load every source form by id."""
    return _load_folder("patches", SourceForm)


@lru_cache(maxsize=1)
def load_suspicions() -> dict[str, Suspicion]:
    """Load every suspicion by id."""
    return _load_folder("suspicions", Suspicion)


def load_ledgers() -> dict[str, Ledger]:
    """Load every ledger of a fleet by name."""
    return _load_modules("ledgers")


def load_meters() -> dict[str, Meter]:
    """Load every meter of a fleet by name."""
    return _load_modules("meters")


def load_publishers() -> dict[str, PublisherModule]:
    """Load every publisher by name."""
    return _load_modules("publishers")


def _load_modules(folder: str) -> dict[str, Any]:
    modules: dict[str, Any] = {name: plugin_module(folder, name) for name in plugin_names(folder)}
    _add_entry_points(modules, folder)
    return modules


@lru_cache(maxsize=1)
def load_knobs() -> dict[str, Knob]:
    """Load every knob by id."""
    knobs = dict(KNOBS)
    _add_entry_points(knobs, "knobs")
    return knobs


def find_knob(name: str) -> Knob:
    """The declaration of a knob; for an undeclared one, such as an environment variable, one
    without special properties."""
    return load_knobs().get(name) or Knob(name, str, "")


def load_importers() -> dict[str, Importer]:
    """Load the importers of other packages by name."""
    importers: dict[str, Importer] = {}
    _add_entry_points(importers, "importers")
    return importers


def list_exporters() -> list[str]:
    """List the names of all exporters without importing them."""
    foreign = {point.name for point in _entry_points("exporters")}
    return sorted({*plugin_names("exporters"), *foreign})


def load_exporter(name: str) -> Exporter:
    """Load an exporter by name.

    Raises:
        CatalogError: the name is unknown, or the exporter cannot be loaded.
    """
    plugin: Any = None
    if name in plugin_names("exporters"):
        plugin = importlib.import_module(f"whyidle.reports.{name}")
    elif points := _entry_points("exporters", name):
        plugin = _load_entry_point(points[0], "exporters")
    if plugin is None or not hasattr(plugin, "render"):
        known = ", ".join(list_exporters())
        raise CatalogError(f"There is no exporter {name!r}.", why=f"Known: {known}.")
    exporter: Exporter = plugin
    return exporter


def _entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
    """The entry points of other packages in ``whyidle.GROUP``, by name."""
    if not any(map(_may_have_entry_points, sys.path)):
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415  # takes 30 ms

    points = entry_points(group=f"whyidle.{group}")
    return sorted((p for p in points if name in {None, p.name}), key=lambda point: point.name)


def _may_have_entry_points(entry: str) -> bool:
    """Whether a package in a folder of the path declares plug-ins; a zip may hold one."""
    try:
        names = os.listdir(entry or ".")  # noqa: PTH208  # of hundreds of files
    except NotADirectoryError:
        return True
    except OSError:
        return False
    declared = (Path(entry, n, "entry_points.txt") for n in names if n.endswith(_INFO))
    return any(each.is_file() and b"[whyidle." in each.read_bytes() for each in declared)


def broken_plugins() -> list[CatalogError]:
    """Errors of the plug-ins of other packages that could not be loaded so far."""
    return [error for _, error in sorted(_broken.items())]


def examine_plugins() -> dict[str, CatalogError | None]:
    """Import every plug-in of other packages: ``KIND/NAME`` -> its error, or None."""
    results: dict[str, CatalogError | None] = {}
    for folder in _KINDS:
        for point in _entry_points(folder):
            plugin = _try_entry_point(point, folder)
            results[f"{folder}/{point.name}"] = plugin if isinstance(plugin, CatalogError) else None
    return results


def knob_wording(framework: str | None) -> Mapping[str, str]:
    """How users of a framework write knobs, if not as declared; empty for an unknown framework."""
    return _load_wording(framework, "BY_HAND")


def fix_wording(framework: str | None) -> Mapping[str, str]:
    """What the summaries of fixes mean in a framework; empty for an unknown framework."""
    return _load_wording(framework, "FIXES")


def patch_wording(framework: str | None) -> Mapping[str, str]:
    """How a file that sets a knob differs from a plan; empty for an unknown framework."""
    return _load_wording(framework, "PATCHED")


def framework_title(framework: str | None) -> str:
    """The framework's name in sentences; empty for an unknown framework."""
    package = _framework_packages().get(framework)
    return "" if package is None else str(package.TITLE)


@cache
def _framework_packages() -> Mapping[str | None, ModuleType]:
    folders = plugin_names("frameworks")
    packages = (importlib.import_module(f"whyidle.frameworks.{folder}") for folder in folders)
    return {package.NAME: package for package in packages}


def _load_wording(framework: str | None, table: str) -> Mapping[str, str]:
    package = _framework_packages().get(framework)
    if package is None or find_spec(f"{package.__name__}.wording") is None:
        return {}
    words = importlib.import_module(f"{package.__name__}.wording")
    wording: Mapping[str, str] = getattr(words, table, {})
    return wording


def _load_folder(folder: str, kind: type[Plugin]) -> dict[str, Plugin]:
    plugins: dict[str, Plugin] = {}
    for stem in plugin_names(folder):
        path = f"whyidle.{_FOLDERS.get(folder, folder)}.{stem}"
        plugin = importlib.import_module(path)
        if not hasattr(plugin, "__path__"):  # a file, no folder
            _register_plugin(plugins, kind, plugin, path)
    _add_entry_points(plugins, folder)
    return plugins


def _register_plugin(
    plugins: dict[str, Plugin], kind: type[Plugin], plugin: ModuleType, path: str
) -> None:
    declared = [value for value in vars(plugin).values() if isinstance(value, kind)]
    if len(declared) != 1:
        raise CatalogError(
            f"{path} declares {len(declared)} of {kind.__name__}.",
            why="A plug-in file declares exactly one.",
        )
    _add_plugin(plugins, declared[0], path)


def _add_plugin(plugins: dict[str, Plugin], plugin: Plugin, path: str) -> None:
    if plugin.id in plugins:
        raise CatalogError(f"{path} declares {plugin.id!r} a second time.")
    plugins[plugin.id] = plugin


def _add_entry_points(plugins: dict[str, Any], folder: str) -> None:
    """Add the plug-ins of other packages; note broken ones in ``_broken``."""
    for point in _entry_points(folder):
        plugin = _try_entry_point(point, folder)
        name = getattr(plugin, "id", point.name)
        if name in plugins:
            plugin = _refuse(point, f"The name {name!r} is already taken", "Choose another name.")
        if isinstance(plugin, CatalogError):
            _broken[folder, point.name] = plugin
        else:
            plugins[name] = plugin


def _try_entry_point(point: EntryPoint, folder: str) -> Any:
    try:
        return _load_entry_point(point, folder)
    except CatalogError as error:
        return error


def _load_entry_point(point: EntryPoint, folder: str) -> Any:
    """Load the plug-in of an entry point.

    Raises:
        CatalogError: it cannot be imported, or has the wrong type for ``whyidle.FOLDER``.
    """
    kind = _KINDS[folder]
    try:
        plugin = point.load()
    except FAULTS as error:
        text = f"{point.value} cannot be imported: {type(error).__name__}: {error}"
        raise _refuse(point, text, "Update or uninstall the package.") from error
    if kind is not ModuleType and isinstance(plugin, ModuleType):
        declared = [value for value in vars(plugin).values() if isinstance(value, kind)]
        plugin = declared[0] if len(declared) == 1 else plugin
    if not isinstance(plugin, kind):
        noun = "a module" if kind is ModuleType else f"one {kind.__name__}"
        hint = "Correct the entry point in its pyproject.toml."
        raise _refuse(point, f"{point.value} is not {noun}", hint)
    if missing := [name for name in _ATTRIBUTES.get(folder, ()) if not hasattr(plugin, name)]:
        text = f"{point.value} has no {', '.join(missing)}"
        raise _refuse(point, text, f"Add the attributes that whyidle.{folder} documents.")
    return plugin


def _refuse(point: EntryPoint, why: str, hint: str) -> CatalogError:
    package = point.dist.name if point.dist is not None else "another package"
    return CatalogError(
        f"The plug-in {point.name!r} ({point.group}) of {package} cannot be used.",
        why=f"{why}.",
        hint=hint,
    )
