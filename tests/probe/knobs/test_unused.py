"""The search for unused parameters is left out, and nothing else is: two ranks on this machine."""

import pytest
import unused_ranks
from two_ranks import both
from unused_ranks import KNOB

from whyidle.probe.knobs._finishing import UNUSED

USED = {"nothing", "passes within passes"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return both(unused_ranks.__file__, tmp_path_factory.mktemp("ranks"))


@pytest.mark.parametrize("job", unused_ranks.JOBS)
def test_numbers_are_the_same_bit_for_bit_whatever_goes_unused(ranks, job):
    for rank, found in enumerate(ranks):
        plain, without, (applied, declined) = found[job].values()
        assert plain.pop("search")
        assert not without.pop("search")
        assert without == plain
        if job in USED or (job, rank) == ("one rank", 0):
            assert (applied, declined) == ({KNOB: 2}, {})
        else:  # it is of use, and no script should be written without it
            assert (applied, declined) == ({}, {KNOB: UNUSED})


def test_ranks_do_not_part(ranks):
    one, other = ranks
    for job in unused_ranks.JOBS:
        assert one[job]["without"]["state"] == other[job]["without"]["state"]


def test_parameters_that_no_rank_used_go_without_gradient(ranks):
    for found in ranks:
        assert any(map(any, found["later"]["without"]["without grads"]))
        assert any(map(any, found["apart"]["without"]["without grads"]))
        assert not any(map(any, found["one rank"]["without"]["without grads"]))


def test_a_rank_that_knows_of_no_plan_keeps_the_others_from_it(ranks):
    one, other = (found["alone"] for found in ranks)
    assert one["without"]["search"]
    assert other["without"]["search"]
    assert other["told"][0] == {}
    assert "not all ranks said in time" in other["told"][1][KNOB]
    assert one["without"]["state"] == other["without"]["state"]


def test_only_leaving_it_out_is_known(turn):
    hand = turn({KNOB: True})
    assert hand.declined == {KNOB: "only leaving out the search is known"}
    assert not hand.undo
