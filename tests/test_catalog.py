"""Plug-ins are found by their files and by entry points."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from whyidle import catalog
from whyidle.errors import CatalogError

CACHED = (catalog.load_causes, catalog.load_fixes, catalog.load_source_forms, catalog.load_knobs)
CACHED += (catalog.load_suspicions,)


@pytest.fixture(autouse=True)
def forgetful():
    for cached in CACHED:
        cached.cache_clear()
    yield
    for cached in CACHED:
        cached.cache_clear()
    catalog._broken.clear()


def test_names_are_those_of_the_files():
    assert "kineto" in catalog.plugin_names("importers")
    assert {"terminal", "json", "html", "markdown"} <= set(catalog.plugin_names("exporters"))
    assert not [name for name in catalog.plugin_names("exporters") if name.startswith("_")]


def table(family: str):
    return importlib.import_module(f"whyidle.fixes.advice.{family}").ADVICE


def test_ids_and_families_are_those_of_the_files():
    for name, found in catalog.load_causes().items():
        assert name == found.id
        assert found.test.__module__ == f"whyidle.causes.{found.family}.{name.replace('-', '_')}"
    for name, fix in catalog.load_fixes().items():
        assert fix.id == name
        assert fix.title
        if fix.decide.__module__ != "whyidle.model.fix":  # else it is a row of a table
            family, _, module = fix.decide.__module__.rpartition(".")
            assert module == name.replace("-", "_")
            assert family.rpartition(".")[0] == "whyidle.fixes"
    rows = {row.id for family in catalog.plugin_names("fixes.advice") for row in table(family)}
    assert rows < set(catalog.load_fixes())
    assert not any(fix.startswith("advice") for fix in catalog.load_fixes())


def test_every_treated_cause_exists():
    treated = {name for fix in catalog.load_fixes().values() for name in fix.causes}
    assert treated <= set(catalog.load_causes())


def test_an_unknown_plug_in_is_named_with_the_known():
    with pytest.raises(CatalogError, match="terminal"):
        catalog.plugin_module("exporters", "telegram")


def test_a_source_that_is_not_installed_is_named_by_a_variable(monkeypatch: pytest.MonkeyPatch):
    assert "emulator.source" not in catalog.load_sources()
    monkeypatch.setenv("WHYIDLE_SOURCES", "emulator.source")
    assert {"emulator.source", *catalog.plugin_names("sources")} == set(catalog.load_sources())
    monkeypatch.setenv("WHYIDLE_SOURCES", "emulator.nowhere")
    with pytest.raises(CatalogError, match="nowhere"):
        catalog.load_sources()


CAUSE = """
from whyidle.model.cause import cause

@cause("Comes from elsewhere", bucket="host", needs=("steps",))
def foreign(facts):
    "What it means: nothing."
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package called ``elsewhere``: its modules and its entry points, name by group."""
    (tmp_path / "elsewhere").mkdir()
    info = tmp_path / "elsewhere-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: elsewhere\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)

    def write(entries: str, **modules: str) -> None:
        (info / "entry_points.txt").write_text(entries)
        for name, text in modules.items():
            (tmp_path / "elsewhere" / f"{name}.py").write_text(text)
        importlib.invalidate_caches()

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] == "elsewhere"]:
        del sys.modules[name]


def test_causes_of_other_packages_are_found(install):
    install("[whyidle.causes]\nx = elsewhere.late_lunch:foreign\n", late_lunch=CAUSE)
    assert catalog.load_causes()["late-lunch"].title == "Comes from elsewhere"
    assert catalog.load_causes()["late-lunch"].family == "elsewhere"


def test_an_entry_point_may_name_the_module_alone(install):
    install("[whyidle.causes]\nx = elsewhere.late_lunch\n", late_lunch=CAUSE)
    assert catalog.load_causes()["late-lunch"].title == "Comes from elsewhere"


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def broken(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        ("nothing = 1", "is not one Cause"),
        (CAUSE.replace("host", "nowhere"), "unknown bucket"),
    ],
)
def test_a_broken_plug_in_is_named_and_takes_nothing_else_down(install, module, why):
    install("[whyidle.causes]\nx = elsewhere.late_lunch\n", late_lunch=module)
    assert len(catalog.load_causes()) > 50
    (error,) = (one for one in catalog.broken_plugins() if "'x'" in one.what)
    assert "elsewhere" in error.what
    assert why in error.why
    assert error.hint


def test_a_plug_in_cannot_take_the_place_of_ours(install):
    ours = next(iter(catalog.load_causes()))
    catalog.load_causes.cache_clear()
    install(
        "[whyidle.causes]\nx = elsewhere.y\n",
        y=CAUSE + f"\nfrom dataclasses import replace\nforeign = replace(foreign, id={ours!r})",
    )
    assert catalog.load_causes()[ours].title != "Comes from elsewhere"
    assert f"{ours!r} is already taken" in " ".join(error.why for error in catalog.broken_plugins())


PLUGINS = {
    "publishers": "FAULTS = ()\ndef open(destination): ...\n",
    "causes": CAUSE,
    "fixes": """
from whyidle.model.fix import Proposal, fix

@fix("late-lunch", consent="none")
def foreign(proof):
    return Proposal("eat earlier")
""",
    "knobs": "from whyidle.model.knobs import Knob\nLUNCH = Knob('lunch.hour', int, 'when')\n",
    "patches": """
from whyidle.model.patch import Rewrite, source_form

@source_form("lunch.hour")
def foreign(text, change):
    return Rewrite(text)
""",
    "suspicions": """
from whyidle.model.live.suspicion import suspicion

@suspicion("Is out for lunch", state="idle-held", needs=("gpu_busy",))
def foreign(view):
    return None
""",
    "sources": "SIGNALS = PERIOD_S = probe = open = None",
    "ledgers": "read = None",
    "meters": "read = None",
    "importers": "SUFFIXES = sniff = load = None",
    "exporters": "render = None",
}
"""kind -> a module that is one"""


@pytest.mark.parametrize("kind", PLUGINS)
def test_every_kind_is_loaded(install, kind):
    listed = {
        "causes": catalog.load_causes,
        "fixes": catalog.load_fixes,
        "knobs": catalog.load_knobs,
        "patches": catalog.load_source_forms,
        "suspicions": catalog.load_suspicions,
        "sources": catalog.load_sources,
        "ledgers": catalog.load_ledgers,
        "meters": catalog.load_meters,
        "publishers": catalog.load_publishers,
        "importers": catalog.load_importers,
        "exporters": catalog.list_exporters,
    }[kind]
    before = set(listed())
    for cached in CACHED:
        cached.cache_clear()
    install(f"[whyidle.{kind}]\nlunch = elsewhere.lunch\n", lunch=PLUGINS[kind])
    (new,) = set(listed()) - before
    assert new == {"knobs": "lunch.hour"}.get(kind, "lunch")
    assert catalog.examine_plugins() == {f"{kind}/lunch": None}
    assert catalog.broken_plugins() == []


def test_the_page_of_plug_ins_lists_every_kind():
    page = Path(__file__).parents[1] / "docs" / "how-to" / "plug-ins.md"
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"\| `whyidle\.(\w+)` \|", text)) == set(PLUGINS) == set(catalog._KINDS)


def test_modules_say_what_they_lack(install):
    entries = "[whyidle.importers]\nx = elsewhere.y\n[whyidle.exporters]\nx = elsewhere.y\n"
    install(entries, y="SUFFIXES = ('.x',)")
    assert catalog.load_importers() == {}
    assert "no sniff, load" in " ".join(error.why for error in catalog.broken_plugins())
    with pytest.raises(CatalogError, match="no render"):
        catalog.load_exporter("x")
    assert set(catalog.examine_plugins()) == {"importers/x", "exporters/x"}
