"""Markdown that says the same as the page, and that no name in a recording can break."""

import re

import msgspec
import pytest

from whyidle.reports.markdown import render


def test_what_an_issue_needs(full):
    text = render(full)
    assert text.startswith("### **starved** · plain\n")
    assert "in 5 steady steps, 95th percentile 12.0 ms" in text
    assert text.count("10.6 ms") == 1
    assert "| **Input**: waiting for the next batch | 20% |" in text
    assert "- **costs** **10 to 20%** of the step" in text
    assert "**where** `plain:12 in plain (rank 0)`" in text
    assert "predicted 1.20× as fast (1.10 to 1.30); lowers numeric precision" in text
    assert "by hand, same numbers" in text
    assert "<details><summary>2 causes not checked, because" in text
    assert "whyidle 0.0" in text


def test_bars_are_as_long_as_the_shares(full):
    bars = re.findall(r"(\d+|\d\.\d)% \| `([█▏▎▍▌▋▊▉ ]+)`", render(full))
    assert len(bars) == 8
    for percent, bar in bars:
        assert len(bar) == 24
        assert bar.count("█") == pytest.approx(float(percent) / 100 * 24, abs=1)


def test_nothing_found_is_said(build):
    text = render(build(findings=[], state="saturated"))
    assert "No cause worth more than 3% was found" in text


def test_without_steps(full):
    steps = msgspec.structs.replace(full.steps, mean_s=None, detected_by=None)
    text = render(msgspec.structs.replace(full, steps=steps))
    assert "no step boundaries" in text
    assert "detected by" not in text


def test_names_stay_text(nasty):
    text = render(nasty)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert not re.search(r"(?<!\\)<(?!/?(details|summary|sub)>)", outside)
    assert "\x00" not in text


def test_names_cannot_leave_code_spans_or_table_cells(build):
    text = render(build("a | `b` ``c`` @someone\n# title"))
    cells = [line for line in text.splitlines() if line.startswith("| a")]
    assert cells
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 6 for line in cells)
    assert not re.search(r"^# title", text, re.MULTILINE)
    assert not re.search(r"@someone", re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text))
