"""Several runs side by side, on a terminal, as Markdown and as a page."""

from __future__ import annotations

import re

import msgspec
import pytest

from whyidle.api.documents import RunTable
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.reports._markdown_sections import render_markdown
from whyidle.reports._run_table import table_parts
from whyidle.reports._text_sections import render_text
from whyidle.runs.run_table import build_run_table
from whyidle.testing.demo import job

replace = msgspec.structs.replace
NASTY = "</script><script>alert(1)</script><img src=x onerror=alert(2)>|`"


def diagnosed(loader_ms, name):
    found = diagnose_job([job(loader_ms=loader_ms).timeline()])
    return replace(found, run=replace(found.run, command=["python", f"{name}.py"], folder="/tmp/x"))


@pytest.fixture(scope="module")
def table():
    return build_run_table(
        [diagnosed(42.0, "slow"), diagnosed(2.0, "fast"), diagnosed(20.0, "mid")]
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_fits_and_names_the_shortest_step(table, width):
    text = render_text(table_parts(table), width=width)
    assert "fast.py has the shortest step" in text
    assert "dataloader" in text.lower()
    assert text.isascii()
    assert not [line for line in text.split("\n") if len(line) > width]


def test_a_narrow_page_keeps_the_comparison(table):
    narrow, wide = (render_text(table_parts(table), width=width) for width in (60, 120))
    assert "median to 95%" in wide
    assert "median to 95%" not in narrow
    assert "time ratio" in narrow


def test_without_step_times_nothing_is_ranked(table):
    runs = [replace(row, step_s=None, host_s=None, change=None) for row in table.runs]
    text = render_text(table_parts(replace(table, runs=runs)))
    assert "cannot be compared" in text
    assert "cannot be compared" in RunTable.from_document(replace(table, runs=runs)).to_html()


def test_markdown_has_a_row_per_run(table):
    lines = render_markdown(table_parts(table)).splitlines()
    assert len([line for line in lines if line.startswith("| fast.py |")]) == 2
    assert [
        line
        for line in lines
        if line.startswith("- **slow.py**: ") and line.endswith("`python slow.py`")
    ]


def test_the_page_draws_bars_as_long_as_steps(table):
    page = RunTable.from_document(table).to_html()
    lengths = [float(one) for one in re.findall(r'class="bar thin" style="width:([\d.]+)%', page)]
    slow, fast, mid = (row.step_s for row in table.runs)
    assert lengths == pytest.approx([100 * fast / slow, 100 * mid / slow], abs=0.1)
    assert "<script>alert" not in page


def test_text_of_recordings_is_escaped(table):
    row = replace(table.runs[1], name=NASTY, cause="x", finding=NASTY)
    nasty = replace(table, runs=[table.runs[0], row])
    assert "<img src=x" not in RunTable.from_document(nasty).to_html()
    assert "<img" not in render_markdown(table_parts(nasty)).replace("\\<img", "")
