"""The job's own code inside a loader's calls is divided by line, with what it does to a sample."""

from dataclasses import replace

import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_waits import find_batch_waits
from whyidle.analysis.input.sample_work import work_inline
from whyidle.analysis.intervals import union_of
from whyidle.model.roles import Role
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LIB = "/usr/lib/python3.11/site-packages"
LOOP = "/job/main.py(9): <module>"
ASKS = f"{LIB}/torch/utils/data/dataloader.py(733): __next__;{LOOP}"
FETCH = f"{LIB}/torch/utils/data/_utils/fetch.py(54): fetch;{ASKS}"
SOURCE = """\
class Rows:
    def __getitem__(self, i):
        row = self.frame.iloc[i]
        return [value / 2 for value in row]


def collate(rows):
    return stack([pad(row) for row in rows])
"""
CALL = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def work(*stacks, source=SOURCE):
    """Each stack is seen in turn, as long as the others."""
    guest = RecordedJob()
    for _ in range(20):
        with guest.call(CALL):
            for stack in stacks:
                guest.python(stack, ms(20))
        guest.backward(LOOP, ms(15))
        guest.step(LOOP, ms(5))
    facts = Facts(replace(guest.timeline(), sources={"/job/main.py": source}))
    calls = find_batch_waits(facts, Role.BATCH_INLINE)
    return work_inline(facts, union_of(calls.start, calls.end))


ITEM = f"/job/main.py(4): __getitem__;{FETCH}"
ROW = f"{LIB}/pandas/core/indexing.py(1191): __getitem__;/job/main.py(3): __getitem__;{FETCH}"
COLLATE = f"/job/main.py(8): collate;{FETCH}"


def test_a_comprehension_is_the_line_of_its_function():
    found = work(f"/job/main.py(4): <listcomp>;{ITEM}")
    assert (found.place.line, found.place.function) == (4, "__getitem__")
    assert found.describe_line() == "main.py:4 (return [value / 2 for value in row])"
    assert found.looped
    assert found.per_sample
    assert found.own == pytest.approx(1.0, abs=0.1)


def test_rows_of_a_frame_are_a_table():
    found = work(ROW)
    assert found.kind == "table"
    assert found.place.line == 3
    assert not found.looped


def test_a_loop_over_samples_is_none_over_the_parts_of_one():
    found = work(COLLATE)
    assert not found.looped
    assert not found.per_sample
    assert work(f"/job/main.py(4): scale;{COLLATE}").looped


def test_libraries_around_the_loader_are_not_what_samples_are():
    """A trainer of a library for texts and pictures calls the loader."""
    around = f"{LIB}/transformers/trainer.py(2500): train;{LOOP}"
    assert work(COLLATE.replace(LOOP, around)).kind is None
    inner = f"{LIB}/transformers/tokenization_utils_base.py(9): __call__;{COLLATE}"
    assert work(inner.replace(LOOP, around)).kind == "text"


def test_the_library_s_own_part_is_not_the_job_s():
    part = f"{LIB}/torch/utils/data/_utils/collate.py(9): collate;{FETCH}"
    found = work(ITEM, part)
    assert found.own == pytest.approx(0.5, abs=0.1)
    assert work(part) is None


def test_without_its_source_a_line_has_only_its_place():
    assert work(ITEM, source="").describe_line() == "main.py:4"
