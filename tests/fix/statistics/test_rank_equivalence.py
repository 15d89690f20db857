"""Which untreated runs a fix is held against."""

from types import SimpleNamespace

from made_arms import ran, several

from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.statistics.rank_equivalence import MORE, baseline_by_rank, check_all_ranks

LOSSES = [1.0, 0.5, 0.25]


def test_any_run_tells_that_a_job_does_not_repeat_itself():
    """Of six the fourth is another, of one rank."""
    usual, odd = several(0.1, LOSSES, LOSSES), several(0.1, LOSSES, [1.0, 0.5, 0.2500001])
    known = baseline_by_rank([usual, usual, usual, odd, usual, usual])
    assert known[0].is_repeatable
    assert known[0].again is usual.ranks[0]
    assert not known[1].is_repeatable
    assert known[1].again is odd.ranks[1]
    assert baseline_by_rank([usual])[0].again is None
    assert baseline_by_rank([odd, usual, usual])[1].more == [usual.ranks[1]]


def test_what_varies_is_asked_again_before_a_fix_is_blamed():
    """Two untreated runs that happened to be close to each other say little."""
    steps = range(40)
    base, close, far = ([1.0 + by * (step % 2) for step in steps] for by in (0.5, 0.51, 0.7))
    asked = []

    def once_more(losses):
        def run():
            asked.append(losses)
            return ran(0.1, losses)

        return run

    fix = Candidate("fix", "cause", "none", "", (), None, "")
    known = baseline_by_rank([ran(0.1, base), ran(0.1, [loss * 1.002 for loss in close])])
    for losses, holds, runs in ((far, True, 1), (base, False, MORE)):
        asked.clear()
        bench = SimpleNamespace(base=once_more(losses), say=lambda _: None)
        check, found = check_all_ranks(fix, known, [ran(0.1, [loss + 0.06 for loss in far])], bench)
        assert check.holds == holds, check
        assert len(asked) == len(found[0].more) == runs
