"""`whyidle causes`, over every cause there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from docs import cause_pages
from whyidle import catalog
from whyidle.__main__ import main
from whyidle.model.cause import SECTIONS


def test_the_table_has_every_cause(capsys: pytest.CaptureFixture[str]):
    assert main(["causes"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {cause} " in out for cause in catalog.load_causes())


@pytest.mark.parametrize("name", sorted(catalog.load_causes()))
def test_each_page_has_its_sections(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["causes", name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(heading in lines for heading in (*SECTIONS, "Evidence needed", "Fixes"))
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("name", sorted(catalog.load_causes()))
def test_codes_of_predictors_are_explained_where_they_stand(
    name: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["causes", name]) == 0
    terminal = capsys.readouterr().out
    for page in (terminal, cause_pages.cause_markdown(catalog.load_causes()[name])):
        for code in re.findall(r"\bP\d+\b", page):
            assert re.search(rf"^ *- {code}: \w", page, re.MULTILINE)


def test_json(capsys: pytest.CaptureFixture[str]):
    assert main(["causes", "--json", "-"]) == 0
    assert {row["id"] for row in json.loads(capsys.readouterr().out)} == set(catalog.load_causes())


def test_a_slip_is_put_right(capsys: pytest.CaptureFixture[str]):
    assert main(["causes", "dataloader_no_workers", "-q"]) == 0
    assert main(["causes", "dataloader-no-worker"]) == 2
    assert "whyidle causes dataloader-no-workers" in capsys.readouterr().err


@pytest.mark.parametrize("name", cause_pages.REMEDIES)
def test_the_code_before_and_after_is_python(name: str):
    assert name in catalog.load_causes()
    remedy = cause_pages.REMEDIES[name]
    assert list(remedy) == ["before", "after"]
    assert remedy["before"] != remedy["after"]
    for code in remedy.values():
        compile(code, name, "exec")
        assert len(code.splitlines()) < 10


def test_a_cause_with_a_fix_in_code_shows_it():
    """Others are about machines, clusters and what only the job's author sees."""
    fixes = catalog.load_fixes().values()
    in_code = {c for fix in fixes for c in fix.causes if fix.id in page_of_patches()}
    assert in_code - {"cpu-starved-allocation"} <= set(cause_pages.REMEDIES)


def page_of_patches() -> set[str]:
    """Fixes that whyidle fix applies."""
    applied = (Path(cause_pages.__file__).parent / "fixes.md").read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([a-z0-9-]+)`", applied.partition("## Advice")[0], re.MULTILINE))
