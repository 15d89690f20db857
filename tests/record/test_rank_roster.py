"""Ranks that never come, or never train, are named."""

import json
from dataclasses import replace

import pytest

from watched_run import add_facts
from whyidle.record import rank_roster
from whyidle.testing.builder import Builder


def one(rank=None, world=None):
    builder = Builder()
    with builder.step():
        builder.python("train.py(1): main", 1000)
    return replace(builder.timeline(), rank=rank, world_size=world)


def place(folder, pid, rank, world=4):
    told = json.dumps({"rank": rank, "world_size": world})
    (folder / f"{pid}.rank.json").write_text(told)


def test_ranks_that_never_start_or_never_train(tmp_path):
    for rank in (0, 1, 2):
        place(tmp_path, 100 + rank, rank)
    trained = [one(rank, 4) for rank in (0, 1)]
    notes = rank_roster.notes_on(tmp_path, trained, 0)
    assert notes[0].startswith("rank 3 of 4 did not start")
    assert notes[1] == "rank 2 started, but took no training step"


def test_one_process_is_no_job_of_ranks(tmp_path):
    place(tmp_path, 100, 0, world=1)
    assert rank_roster.notes_on(tmp_path, [one(0, 1)], 1) == []


def test_a_rank_whose_recording_ended_is_not_said_to_have_died(tmp_path):
    both = [replace(one(rank, 2), base_ns=rank * 10**10) for rank in (0, 1)]
    (silent,) = rank_roster.notes_on(tmp_path, both, 1)
    assert "rank 0 stopped" in silent
    both[0] = add_facts(both[0], {"enough": "1,024 MiB were recorded"})
    assert rank_roster.notes_on(tmp_path, both, 1) == []


@pytest.mark.parametrize(
    ("noted", "cut"),
    [
        (
            "recording quota reached: QuotaReachedError: "
            "the disk of the recording has 0 MiB left\n",
            True,
        ),
        ("save: ValueError: no\nwriting: OSError: [Errno 28] No space left on device\n", True),
        ("", True),
        ("save: ValueError: no\n", False),
        (None, False),
    ],
)
def test_nor_where_only_its_fault_says_so(tmp_path, noted, cut):
    both = [replace(one(rank, 2), base_ns=rank * 10**10) for rank in (0, 1)]
    both[0] = replace(both[0], source=replace(both[0].source, path=str(tmp_path / "7-2.spans")))
    if noted is not None:
        (tmp_path / "7.faults").write_text(noted)
    assert (rank_roster.notes_on(tmp_path, both, 1) == []) == cut
