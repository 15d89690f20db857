"""Many ranks are surveyed in several processes, and some of them diagnosed closely."""

import pytest

from whyidle.recordings.explain import MANY, explain_paths
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet

RANKS, LATE = MANY + 4, 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    fleet = Fleet(RANKS)
    for _ in range(6):
        with fleet.step():
            for number, rank in enumerate(fleet.ranks):
                rank.op("aten::mm", kernels=[("sgemm", us(900 + 500 * (number == LATE)))])
            fleet.collective(us(300))
            fleet.join()
            for rank in fleet.ranks:
                rank.op("aten::mul", kernels=[("multiply", us(200))])
    for number, rank in enumerate(fleet.ranks):
        rank.save(folder / f"pp{number % 2}_rank{number}.json")
    return folder


def test_the_late_one_of_many_ranks_is_named(folder):
    explanation = explain_paths([folder])
    diagnosis = explanation.diagnosis
    late = next(finding for finding in diagnosis.findings if "rank" in finding.cause)
    assert f"{LATE}" in late.headline
    rows = diagnosis.detail.ranks
    assert [row.rank for row in rows] == list(range(RANKS))
    assert max(rows, key=lambda row: row.path_ratio).rank == LATE
    assert [(group.kind, group.ranks) for group in diagnosis.detail.rank_groups] == [
        ("stage", RANKS // 2)
    ] * 2
    assert len(explanation.timelines) < RANKS == diagnosis.run.ranks == len(diagnosis.run.sources)
    assert any(f"all {RANKS} ranks" in note for note in diagnosis.coverage.notes)
    assert not any("missing" in note for note in diagnosis.coverage.notes)


def test_every_rank_is_surveyed_in_order(folder):
    seen = []
    explain_paths([folder], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, RANKS) for done in range(1, RANKS + 1)]


def test_a_rank_that_cannot_be_read_is_noted(folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "pp0_rank4.json").unlink()
    (tmp_path / "pp0_rank4.json").write_bytes(b'{"traceEvents": [')
    diagnosis = explain_paths([tmp_path]).diagnosis
    assert len(diagnosis.detail.ranks) == RANKS - 1
    assert any("rank4" in note and "not read" in note for note in diagnosis.coverage.notes)


def test_recordings_of_several_jobs_are_no_crowd(folder, tmp_path):
    for copy in range(2):
        for path in folder.iterdir():
            (tmp_path / f"job{copy}").mkdir(exist_ok=True)
            (tmp_path / f"job{copy}" / path.name).symlink_to(path)
    diagnosis = explain_paths([tmp_path]).diagnosis
    assert len(diagnosis.detail.ranks) == 2 * RANKS
