"""The table "your step, by line" in every report."""

import msgspec
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import Diagnosis, LineRow, Place
from whyidle.reports import html, markdown, terminal
from whyidle.reports._line_table import MOST_ROWS, line_section
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"


def lines(count, share):
    place = Place(file="/job/train.py", line=9, function="main")
    row = LineRow(
        place=place,
        text="x = <b>|y|</b>",
        purpose="metrics",
        seconds=0.01,
        share=share,
        reporting=True,
    )
    return [row] * count


@pytest.fixture(scope="module")
def diagnosis():
    job = RecordedJob()
    job.sources = {"/job/train.py": "loss.backward()\nright = (out.argmax(1) == y).sum()\n"}
    for _ in range(30):
        job.backward(f"{S}torch/autograd/graph.py(9): _engine;/job/train.py(1): <module>", 60 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(1): <module>", 10 * MS)
        job.work("/job/train.py(2): <module>", 30 * MS)
    return diagnose_job([job.timeline()])


def test_the_document_holds_the_lines(diagnosis):
    stored = msgspec.json.decode(msgspec.json.encode(diagnosis), type=Diagnosis)
    row = stored.detail.lines[1]
    assert (row.place.line, row.purpose, row.reporting) == (2, "metrics", True)
    assert row.text == "right = (out.argmax(1) == y).sum()"
    assert row.seconds == pytest.approx(0.03, rel=0.05)


@pytest.mark.parametrize("render", [terminal.render, html.render, markdown.render])
def test_every_report_shows_them(diagnosis, render):
    text = render(diagnosis)
    assert "our step, by line" in text
    assert "train.py:2" in text
    assert "metrics, only reports" in text


def with_lines(diagnosis, rows):
    detail = msgspec.structs.replace(diagnosis.detail, lines=rows)
    return msgspec.structs.replace(diagnosis, detail=detail)


def test_many_lines_are_summed(diagnosis):
    many = with_lines(diagnosis, [*lines(9, 0.08), *lines(4, 0.002)])
    (table,) = line_section(many).parts
    assert len(table.rows) == MOST_ROWS + 1
    assert table.rows[-1][1:5] == ["36%", "–", "the rest", "5 more lines"]


def test_without_samples_there_is_no_table(diagnosis):
    assert line_section(with_lines(diagnosis, [])) is None
    assert "by line" not in terminal.render(with_lines(diagnosis, []))


def test_source_text_is_escaped(diagnosis):
    shown = with_lines(diagnosis, lines(1, 0.9))
    assert "x = &lt;b&gt;" in html.render(shown)
    assert "\\|y\\|" in markdown.render(shown)


def test_a_narrow_terminal_leaves_the_text_out(diagnosis):
    table = terminal.render(diagnosis, width=50).split("Your step, by line")[1]
    assert "accuracy" not in table.split("\n\n")[0]
