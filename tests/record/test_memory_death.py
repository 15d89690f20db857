"""What the report says of a job that died for lack of memory."""

import json

import msgspec
import pytest

from imagined_jobs import healthy
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.record.memory_death import EXPANDABLE, add_death
from whyidle.reports import html, terminal
from whyidle.reports._report import screen_parts
from whyidle.reports._sections import Bar, Section

GB = 10**9
NOTES = {
    "error": "OutOfMemoryError", "requested": 2 * GB, "capacity": 80 * GB, "allocated": 70 * GB,
    "unused": 1 * GB, "file": "/job/train.py", "line": 12, "function": "forward",
    "module": "blocks.3 (Block)", "backward": False, "device": "cuda", "parameters": 10 * GB,
    "gradients": 10 * GB, "optimizer": 20 * GB, "others": 1 * GB,
    "largest": [["images", [64, 3, 1024, 1024], 805306368]],
}  # fmt: skip


@pytest.fixture
def told(tmp_path):
    def tell(**changes):
        path = tmp_path / "1.oom.json"
        path.write_text(json.dumps(NOTES | changes))
        return add_death(diagnose_job([healthy().timeline()]), tmp_path)

    return tell


def test_owners_are_counted_and_the_rest_is_activations(told):
    death = told().memory.death
    assert {part.owner: part.bytes for part in death.parts}["activations and workspace"] == 29 * GB
    assert "half the micro-batch" in death.change


def test_fragmentation_costs_nothing_to_avoid(told):
    assert told(unused=3 * GB).memory.death.change == EXPANDABLE


def test_without_counts_the_change_is_not_known(told):
    assert told(allocated=None, unused=None).memory.death.change.startswith("unknown")


def test_an_evaluation_needs_no_gradients(told):
    notes = {"evaluating": True, "allocated": None, "unused": None}
    assert "inference_mode" in told(**notes).memory.death.change


def test_a_hosts_array_is_no_matter_of_the_batch(told):
    notes = {"error": "_ArrayMemoryError", "allocated": None, "unused": None}
    assert "numpy.memmap" in told(**notes).memory.death.change


def test_reports_name_line_module_and_owners(told):
    text = terminal.render(told())
    assert "train.py:12 in forward" in " ".join(text.split())
    assert "blocks.3 (Block)" in " ".join(text.split())
    assert "images [64, 3, 1024, 1024] (805 MB)" in " ".join(text.split())
    assert "Out of memory" in html.render(told())


def test_one_screen_shows_what_it_died_of_and_not_its_shares(told):
    sections = [part for part in screen_parts(told(), []) if isinstance(part, Section)]
    assert "Out of memory" in [section.title for section in sections]
    assert not any(isinstance(part, Bar) for section in sections for part in section.parts)


def test_the_error_comes_first(told):
    diagnosis = told()
    failed = msgspec.structs.replace(diagnosis.run, exit_status=1)
    diagnosis = msgspec.structs.replace(diagnosis, run=failed)
    text = terminal.render(diagnosis)
    assert "out of memory;" in " ".join(text.split())
    assert text.index("2.00 GB were asked for") < text.index(diagnosis.verdict.headline[:20])


def test_a_document_that_is_no_document_is_ignored(tmp_path):
    (tmp_path / "1.oom.json").write_text("{")
    assert add_death(diagnose_job([healthy().timeline()]), tmp_path).memory is None
