"""Which recording is which rank, and what is said about all of them together."""

from dataclasses import replace

import numpy as np
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.rank_assignment import assign_ranks
from whyidle.model.timeline import Timeline
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet

GEMM = "ampere_sgemm_128x64_tn"


def recorded(count: int = 3, *, kernel=lambda rank: GEMM, late=0, **options) -> list[Timeline]:
    made = Fleet(count, **options)
    for _ in range(4):
        with made.step():
            for index, rank in enumerate(made.ranks):
                rank.op("aten::mm", kernels=[(kernel(index), us(2000 + late * index))])
            made.collective(us(800))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return made.timelines()


def claim(timeline: Timeline, rank: int | None, path: str) -> Timeline:
    return replace(timeline, rank=rank, source=replace(timeline.source, path=path))


def notes(timelines: list[Timeline]) -> str:
    return "\n".join(diagnose_job(timelines).coverage.notes)


def wobbling(timeline: Timeline) -> Timeline:
    """As if the rank's clock ran now fast, now slow: up to 200 us off, every 20 ms."""

    def off(events):
        times = {side: getattr(events, side) for side in ("start", "end")}
        drift = {side: 200_000 * np.sin(t * (2 * np.pi / 20e6)) for side, t in times.items()}
        return replace(events, **{s: t + drift[s].astype(np.int64) for s, t in times.items()})

    return replace(timeline, host=off(timeline.host), device=off(timeline.device))


def test_ranks_come_in_order():
    enrolled, assumed = assign_ranks(recorded()[::-1])
    assert [timeline.rank for timeline in enrolled] == [0, 1, 2]
    assert assumed == []


@pytest.mark.parametrize("claimed", [0, None])
def test_recordings_of_one_rank_are_numbered_by_file_name(claimed):
    timeline = recorded(1)[0]
    paths = ["run/w10.json", "run/w9.json", "run/w1.json"]
    enrolled, assumed = assign_ranks([claim(timeline, claimed, path) for path in paths])
    assert [t.source.path for t in enrolled] == ["run/w1.json", "run/w9.json", "run/w10.json"]
    assert [t.rank for t in enrolled] == [0, 1, 2]
    assert "numbered by file name" in assumed[0]
    if claimed == 0:
        assert "3 recordings have rank 0" in assumed[0]


def test_missing_ranks_are_named():
    said = notes(recorded(3, world_size=8))
    assert "5 of 8 ranks are missing (3-7)" in said
    one_gone = [t for t in recorded(4) if t.rank != 2]
    assert "1 of 4 ranks are missing (2)" in notes(one_gone)


def test_too_many_recordings_are_not_one_job():
    timelines = [claim(t, i, f"r{i}.json") for i, t in enumerate(recorded(3, world_size=2))]
    assert "3 recordings of a job with 2 ranks" in notes(timelines)


def test_jobs_of_different_sizes_are_not_mixed():
    first, second = recorded(2)
    assert "different world sizes (2, 16)" in notes([first, replace(second, world_size=16)])


def test_a_rank_with_other_kernels_is_a_stranger():
    said = notes(recorded(3, kernel=lambda rank: GEMM if rank < 2 else "fmha_cutlassF_f16"))
    assert "rank 2 runs different kernels" in said
    assert "rank 1 runs" not in said


def test_one_rank_alone_says_what_it_cannot_tell():
    timelines = recorded(2)[:1]
    said = notes(timelines)
    assert "only rank 0 of 2 was recorded" in said
    assert "transfer and waiting" in said
    told = {item.cause: item.missing for item in diagnose_job(timelines).abstentions}
    assert told["rank-workload-imbalance"] == ["several_ranks"]
    assert told["late-rank"] == ["several_ranks"]


def test_a_world_of_one_waits_for_nobody():
    assert "waiting" not in notes(recorded(1))


def test_clocks_that_agree_less_than_ranks_differ_are_said_to():
    first, second = recorded(2, late=30)
    assert "late rank is unknown" not in notes([first, second])
    assert "the late rank is unknown" in notes([first, wobbling(second)])


def test_different_numbers_of_steps_are_said_and_the_common_ones_compared():
    first, second = recorded(2)
    last = max(i for i, n in enumerate(second.names) if n.startswith("ProfilerStep"))
    cut = replace(second, host=second.host.take_rows(second.host.name != last))
    diagnosis = diagnose_job([first, cut])
    assert "different numbers of steps (3 to 4)" in "\n".join(diagnosis.coverage.notes)
    assert diagnosis.coverage.clock_error_s is not None


def test_every_rank_has_its_row():
    rows = diagnose_job(recorded(3, late=500)).detail.ranks
    assert [row.rank for row in rows] == [0, 1, 2]
    assert rows[2].lateness_s == max(row.lateness_s for row in rows)
    assert rows[0].waiting > rows[1].waiting > rows[2].waiting
    alone = diagnose_job(recorded(1)).detail.ranks[0]
    assert (alone.lateness_s, alone.waiting, alone.last_ratio) == (None, None, None)


def windows(count: int, events: int = 1000) -> list[Timeline]:
    """One process recorded ``count`` times, a minute apart."""
    made = []
    for i in range(count):
        timeline = replace(recorded(1)[0], rank=None, base_ns=i * 60 * 10**9)
        source = replace(timeline.source, path=f"w{i}.json", events=events)
        made.append(replace(timeline, source=source))
    return made


def test_windows_of_one_process_are_not_ranks():
    enrolled, assumed = assign_ranks(windows(3)[::-1])
    assert [timeline.source.path for timeline in enrolled] == ["w2.json"]
    assert "3 consecutive windows" in assumed[0]
    assert len(diagnose_job(windows(3)).detail.ranks) == 1


def test_a_last_window_that_was_cut_short_is_not_the_one_judged():
    recordings = windows(3)
    last = replace(recordings[2], source=replace(recordings[2].source, events=100))
    enrolled, _ = assign_ranks([*recordings[:2], last])
    assert [timeline.source.path for timeline in enrolled] == ["w1.json"]


def test_of_ranks_recorded_twice_the_last_window_is_judged():
    again = [replace(timeline, base_ns=timeline.base_ns + 60 * 10**9) for timeline in recorded(2)]
    enrolled, assumed = assign_ranks([*recorded(2), *again])
    assert [timeline.rank for timeline in enrolled] == [0, 1]
    assert {timeline.base_ns for timeline in enrolled} == {t.base_ns for t in again}
    assert len(assumed) == 1


def test_ranks_that_tell_their_numbers_may_disagree_on_the_time():
    first, second = recorded(2)
    later = replace(second, base_ns=second.base_ns + 3600 * 10**9)
    enrolled, assumed = assign_ranks([first, later])
    assert [timeline.rank for timeline in enrolled] == [0, 1]
    assert assumed == []
