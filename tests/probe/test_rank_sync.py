"""Ranks of a trial that end after the same step."""

import os

from whyidle.probe.trial.rank_sync import COUNT, LAST, RankSync, SharedStepCounter


def test_whoever_announces_the_last_step_names_one_that_no_other_has_passed(tmp_path, monkeypatch):
    """Steps take 1 s, so that others are two steps ahead at most, were it for their devices."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ranks = RankSync(str(tmp_path))
    ranks.join_ranks()
    other = SharedStepCounter(str(tmp_path))
    (tmp_path / f"{os.getpid()}.reached").rename(tmp_path / "1.reached")
    other.start_sharing()  # as another process
    marks = [step * 10**9 for step in range(12)]
    other.publish_count(40)
    assert not ranks.is_last_step(marks, due=True)
    ranks.file.close()
    assert (tmp_path / LAST).read_text() == "42"
    assert ranks.reached.highest_count() == 40
    assert COUNT.unpack((tmp_path / "1.reached").read_bytes()) == (12,)


def test_where_nothing_can_be_mapped_its_own_count_is_all_that_is_known(tmp_path):
    reached = SharedStepCounter(str(tmp_path / "gone"))
    reached.start_sharing()
    reached.publish_count(7)
    assert reached.highest_count() == 0
