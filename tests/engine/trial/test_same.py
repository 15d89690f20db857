"""Which untreated runs a fix is held against."""

from pathlib import Path

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.same import untreated
from whyidle.engine.trial.told import Told

LOSSES = [1.0, 0.5, 0.25]


def ran(*losses):
    ranks = {rank: Told("stopped", 0, [1, 2, 3], list(each)) for rank, each in enumerate(losses)}
    return Ran("stopped", 0, 1.0, Path("nowhere"), "", ranks[0], ranks=ranks)


def test_any_run_tells_that_a_job_does_not_repeat_itself():
    """Of six the fourth is another, of one rank."""
    usual, odd = ran(LOSSES, LOSSES), ran(LOSSES, [1.0, 0.5, 0.2500001])
    known = untreated([usual, usual, usual, odd, usual, usual])
    assert known[0].steady
    assert known[0].again is usual.ranks[0]
    assert not known[1].steady
    assert known[1].again is odd.ranks[1]
    assert untreated([usual])[0].again is None
