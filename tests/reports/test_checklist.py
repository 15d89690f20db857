"""The checklist: each line from this run, and unknown where nothing is known."""

import msgspec
import pytest

from whyidle import catalog
from whyidle.model.diagnosis import Abstention
from whyidle.reports._checklist import LINES, answer_lines, render_checklist


@pytest.fixture
def diagnosis(full):
    return msgspec.structs.replace(full, findings=[])


def answers(diagnosis):
    return {row.question: row for row in answer_lines(diagnosis)}


def test_a_line_shows_the_finding_behind_it(diagnosis, finding):
    rows = answers(msgspec.structs.replace(diagnosis, findings=[finding()]))
    row = rows["does the data arrive in time?"]
    assert (row.answer, row.cause) == ("no", "dataloader-no-workers")
    assert "of the step" in row.text


def test_findings_of_no_line_get_one(diagnosis, finding):
    other = msgspec.structs.replace(finding(), cause="of-a-plug-in")
    rows = answers(msgspec.structs.replace(diagnosis, findings=[other]))
    assert rows["is there nothing else?"].cause == "of-a-plug-in"


def test_unchecked_causes_without_a_measurement_are_unknown(diagnosis):
    line = next(one for one in LINES if one.question == "is the precision reduced?")
    missing = [Abstention(cause=cause, missing=["shapes"], how="") for cause in line.causes]
    rows = answers(msgspec.structs.replace(diagnosis, findings=[], abstentions=missing))
    assert rows[line.question].answer == "unknown"
    rows = answers(msgspec.structs.replace(diagnosis, findings=[], abstentions=missing[1:]))
    assert rows[line.question].answer == "partly"
    rows = answers(msgspec.structs.replace(diagnosis, findings=[], abstentions=[]))
    assert rows[line.question].answer == "yes"


def test_every_cause_of_a_line_exists():
    known = catalog.load_causes().keys()
    assert [cause for line in LINES for cause in line.causes if cause not in known] == []


def test_it_fits_one_screen(diagnosis):
    text = render_checklist(diagnosis, width=80)
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80
