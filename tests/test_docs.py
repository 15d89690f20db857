"""The documentation says what the program does."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from whyidle import __version__, catalog
from whyidle.cli import _app

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])


@pytest.fixture(scope="module")
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", REPOSITORY / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_made_from_source_is_current(build: ModuleType):
    assert build.stale() == [], "run `make docs`"


def test_stale_pages_are_noticed(build: ModuleType, tmp_path: Path):
    odd = tmp_path / "docs" / "causes" / "of-no-cause.md"
    odd.parent.mkdir(parents=True)
    odd.write_text("x")
    stale = set(build.stale(tmp_path))
    assert {odd, odd.with_name("README.md"), tmp_path / "README.md"} <= stale
    assert tmp_path / "docs" / "fixes.md" in stale


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not link.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / link).exists(), link


def test_readme_names_every_verb_and_both_commands():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert all(f"whyidle {verb}" in text for verb in _app.VERBS)
    assert "make demo" in text
    assert "make test" in text


def test_no_message_names_a_command_that_does_not_exist():
    for path in (REPOSITORY / "src").rglob("*.py"):
        named = re.findall(r"(?:`|hint=f?\")whyidle ([a-z]+)", path.read_text(encoding="utf-8"))
        assert set(named) <= set(_app.VERBS), path


def test_readme_mentions_only_causes_that_exist():
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"whyidle causes ([a-z][a-z0-9-]+)", text)
    assert set(named) <= set(catalog.causes())


def test_changelog_knows_this_version():
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in text or f"## [{__version__}]" in text
