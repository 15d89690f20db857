"""Of many ranks a survey keeps who waits for whom, and the ranks to look at closely."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.ranks.rank_groups import groups_of
from whyidle.analysis.ranks.rank_survey import CLOSELY, SurveyedRank, choose_closely
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet

RANKS, LATE = 24, 17


@pytest.fixture(scope="module")
def everyone():
    """Each stage of four does a little more than the one before; one rank is late every step."""
    fleet = Fleet(RANKS, offsets_ns=[7_919 * rank for rank in range(RANKS)])
    for _ in range(6):
        with fleet.step():
            for number, rank in enumerate(fleet.ranks):
                work = 900 + 20 * (number % 4) + 400 * (number == LATE)
                rank.op("aten::mm", kernels=[("sgemm", us(work))])
            fleet.collective(us(300))
            fleet.join()
            for rank in fleet.ranks:
                rank.op("aten::mul", kernels=[("multiply", us(200))])
    return [
        Facts(
            replace(timeline, source=replace(timeline.source, path=f"node{i // 8}_pp{i % 4}_r{i}"))
        )
        for i, timeline in enumerate(fleet.timelines())
    ]


@pytest.fixture(scope="module")
def surveyed(everyone):
    return tuple(pickle.loads(pickle.dumps(SurveyedRank(facts))) for facts in everyone)


def test_a_survey_says_of_the_ranks_what_all_their_events_say(everyone, surveyed):
    job, survey = Job(tuple(everyone)), Job(surveyed)
    assert survey.attribution == job.attribution
    assert [facts.per_step() for facts in surveyed] == [facts.per_step() for facts in everyone]
    assert [facts.step_s for facts in surveyed] == [facts.step_s for facts in everyone]
    np.testing.assert_array_equal(survey.meetings.late_ranks, job.meetings.late_ranks)
    np.testing.assert_array_equal(survey.imbalance.waiting_s, job.imbalance.waiting_s)
    np.testing.assert_array_equal(survey.imbalance.lateness_s, job.imbalance.lateness_s)
    assert survey.imbalance.lateness_s.argmax() == LATE


def test_a_survey_is_small(everyone, surveyed):
    assert sum(len(facts.timeline.host) + len(facts.device) for facts in everyone) > 1_000
    assert sum(len(facts.timeline.host) + len(facts.device) for facts in surveyed) == 0


def test_the_late_rank_and_one_of_each_stage_are_looked_at(surveyed):
    chosen = choose_closely(surveyed)
    assert LATE in chosen
    assert {index % 4 for index in chosen} == {0, 1, 2, 3}
    assert len(chosen) == len(set(chosen)) == CLOSELY


def test_the_critical_path_runs_through_the_late_rank(surveyed):
    ratio = Job(surveyed).imbalance.path_ratio
    assert ratio[LATE] > 0.9
    assert ratio.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["pp0_dp0", "pp0_dp1", "pp1_dp0", "pp1_dp1"], {"stage": 2, "replica": 2}),
        (["TP-0-EP-0", "TP-1-EP-0", "TP-0-EP-1", "TP-1-EP-1"], {"tensor": 2, "expert": 2}),
        (["host1/rank0", "host1/rank1", "host2/rank2"], {"node": 2}),
        (["node1", "node2", "node3"], {}),  # each rank its own
        (["pp0", "pp0", "rank2"], {}),  # not of all
        (["stepp1", "http2", "http2"], {}),
        (["rank0", "rank1", "rank2"], {}),
    ],
)
def test_groups_by_name(everyone, names, expected):
    ranks = [
        Facts(replace(facts.timeline, source=replace(facts.timeline.source, path=name)))
        for facts, name in zip(everyone, names, strict=False)
    ]
    assert {kind: len(groups) for kind, groups in groups_of(ranks).items()} == expected


def test_groups_by_the_recorded_host(everyone):
    ranks = [
        Facts(replace(facts.timeline, hostname=name))
        for facts, name in zip(everyone, ("a", "b", "b"), strict=False)
    ]
    assert groups_of(ranks)["node"] == {"a": [0], "b": [1, 2]}
