"""Plug-ins are found by their files and by entry points."""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from whyidle import catalog
from whyidle.errors import CatalogError
from whyidle.model.cause import cause


@pytest.fixture(autouse=True)
def forgetful():
    catalog.causes.cache_clear()
    yield
    catalog.causes.cache_clear()


def test_names_are_those_of_the_files():
    assert "kineto" in catalog.names("importers")
    assert {"terminal", "json", "html", "markdown", "perfetto"} <= set(catalog.names("exporters"))
    assert not [name for name in catalog.names("exporters") if name.startswith("_")]


def table(family: str):
    return importlib.import_module(f"whyidle.fixes.advice.{family}").ADVICE


def test_ids_and_families_are_those_of_the_files():
    for name, found in catalog.causes().items():
        assert name == found.id
        assert found.test.__module__ == f"whyidle.causes.{found.family}.{name.replace('-', '_')}"
    for name, fix in catalog.fixes().items():
        assert fix.id == name
        assert fix.title
        if fix.decide.__module__ != "whyidle.model.fix":  # else it is a row of a table
            assert fix.decide.__module__ == f"whyidle.fixes.{name.replace('-', '_')}"
    rows = {row.id for family in catalog.names("fixes.advice") for row in table(family)}
    assert rows < set(catalog.fixes())
    assert not any(fix.startswith("advice") for fix in catalog.fixes())


def test_every_treated_cause_exists():
    treated = {name for fix in catalog.fixes().values() for name in fix.causes}
    assert treated <= set(catalog.causes())


def test_an_unknown_plug_in_is_named_with_the_known():
    with pytest.raises(CatalogError, match="terminal"):
        catalog.module("exporters", "telegram")


def test_a_source_that_is_not_installed_is_named_by_a_variable(monkeypatch: pytest.MonkeyPatch):
    assert "emulator.source" not in catalog.sources()
    monkeypatch.setenv("WHYIDLE_SOURCES", "emulator.source")
    assert {"emulator.source", *catalog.names("sources")} == set(catalog.sources())
    monkeypatch.setenv("WHYIDLE_SOURCES", "emulator.nowhere")
    with pytest.raises(CatalogError, match="nowhere"):
        catalog.sources()


@cause("Comes from elsewhere", bucket="host", needs=("steps",))
def foreign(facts):
    """What it means: nothing."""


def entry(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="x", group="whyidle.causes", value=value)
    monkeypatch.setattr(
        catalog, "entry_points", lambda group: EntryPoints([point]).select(group=group)
    )


def test_causes_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(EntryPoint, "load", lambda self: foreign)
    entry("elsewhere:foreign", monkeypatch)
    assert catalog.causes()[foreign.id] is foreign


def test_what_is_no_cause_is_refused(monkeypatch: pytest.MonkeyPatch):
    entry("whyidle.catalog:names", monkeypatch)
    with pytest.raises(CatalogError, match="'x'"):
        catalog.causes()
