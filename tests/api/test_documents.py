"""How a diagnosis and a comparison display and write themselves."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

import whyidle
from whyidle.errors import OutputError


def test_renderings_are_returned_and_written(slow: Path, tmp_path: Path):
    found = whyidle.explain(slow)
    for suffix, render in (
        ("html", found.to_html),
        ("json", found.to_json),
        ("md", found.to_markdown),
    ):
        path = tmp_path / f"why.{suffix}"
        text = render(path)
        assert path.read_text(encoding="utf-8") == text == render(str(path)) == render()
        assert found.verdict.headline[:20] in unescape(text)
    assert json.loads(found.to_json())["schema"] == "whyidle/diagnosis/1"


def test_what_cannot_be_written_says_so(slow: Path, tmp_path: Path):
    with pytest.raises(OutputError, match="Cannot write"):
        whyidle.explain(slow).to_html(tmp_path / "no-folder" / "why.html")


def test_a_notebook_shows_the_page_in_a_frame_that_cannot_reach_it(slow: Path):
    found = whyidle.explain(slow)
    shown = found._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in shown
    document = shown.partition('srcdoc="')[2].partition('" sandbox')[0]
    assert '"' not in document
    assert unescape(document) == found.to_html()
    assert found._repr_markdown_() == found.to_markdown()


def test_representations_are_one_line(slow: Path, fast: Path):
    found = whyidle.explain(slow)
    assert repr(found).startswith("<Diagnosis starved: ")
    assert "\n" not in repr(found)
    compared = whyidle.compare(slow, fast)
    assert repr(compared) == f"<Comparison: step time ratio {compared.step.ratio:.2f}, real>"
    assert "before" in unescape(compared._repr_html_())
