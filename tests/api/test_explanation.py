"""``whyidle.explain``, ``load`` and ``compare``."""

from __future__ import annotations

from pathlib import Path

import pytest

import whyidle
from whyidle.__main__ import main
from whyidle.errors import InputError, StoreError, UsageError


def test_explain_says_what_the_command_line_says(
    slow: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    found = whyidle.explain(slow)
    assert found.verdict.state == "starved"
    assert found.findings[0].cause == "dataloader-no-workers"
    main(["explain", str(slow), "--no-store"])
    said = capsys.readouterr().out.partition("\n  next ")[0]
    assert found.to_text().strip() == said.strip()
    assert str(found).startswith("STARVED: ")
    assert "\n" not in str(found)


def test_explain_reads_a_document_back(slow: Path, tmp_path: Path):
    found = whyidle.explain(str(slow))
    found.to_json("why.json")
    assert whyidle.explain("why.json") == found
    assert whyidle.load(tmp_path / "why.json") == found


def test_explain_stores_nothing(slow: Path, tmp_path: Path):
    whyidle.explain(slow)
    assert not (tmp_path / ".whyidle").exists()


def test_explain_without_a_path_or_with_a_missing_one():
    with pytest.raises(UsageError):
        whyidle.explain()
    with pytest.raises(InputError):
        whyidle.explain("nothing.json")


def test_load_finds_stored_runs_by_name_and_by_store(
    slow: Path, fast: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for trace in (slow, fast):
        main(["explain", str(trace), "--store", "kept", "--quiet"])
    last, before = whyidle.load(store="kept"), whyidle.load("last~1", store=tmp_path / "kept")
    assert last == whyidle.explain(fast)
    assert before == whyidle.explain(slow)
    with pytest.raises(StoreError):
        whyidle.load()
    monkeypatch.setenv("WHYIDLE_HOME", "kept")
    assert whyidle.load() == last


def test_compare_takes_diagnoses_paths_and_runs(slow: Path, fast: Path):
    main(["explain", str(slow), "--quiet"])
    expected = whyidle.compare(whyidle.explain(slow), whyidle.explain(fast))
    assert expected.step is not None
    assert expected.step.real
    assert expected.step.ratio < 1.0
    assert "faster" in str(expected) or "as fast" in str(expected)
    assert whyidle.compare("last", fast) == expected
    assert whyidle.compare(slow, str(fast)) == expected


def test_compare_puts_three_runs_into_a_table(slow: Path, fast: Path):
    table = whyidle.compare(fast, slow, whyidle.explain(fast))
    assert isinstance(table, whyidle.RunTable)
    assert [Path(row.sources[0]) for row in table.runs] == [fast, slow, fast]
    assert table.baseline == table.runs[0].name
    assert table.runs[1].change is not None
    assert table.runs[1].change.ratio > 1.0
    assert table.runs[0].name in str(table)
    assert table.runs[1].name in table.to_markdown()
    assert table.runs[1].name in table.to_html()


def test_compare_says_which_runs_are_missing(fast: Path):
    with pytest.raises(UsageError, match="nothing to compare"):
        whyidle.compare(fast)
