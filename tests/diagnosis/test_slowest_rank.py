"""Of ranks that meet in every step, what is won is won on the one that sets the pace."""

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.testing.builder import us
from whyidle.testing.contracts import Fleet

CAUSE = "dataloader-no-workers"


def recorded(loading, computing, steps=8):
    """Each rank's time for its batch, which nothing hides, and for its step."""
    made = Fleet(len(loading))
    for _ in range(steps):
        with made.step():
            for rank, load, compute in zip(made.ranks, loading, computing, strict=True):
                rank.loader(us(load or 20))
                rank.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(compute))])
            made.collective(us(300))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
                rank.item()
    return made.timelines()


def step_s(timelines):
    return diagnose_job(timelines).steps.mean_s


def found(timelines):
    return next((each for each in diagnose_job(timelines).findings if each.cause == CAUSE), None)


def test_what_only_those_have_that_wait_costs_nothing():
    assert found(recorded([3000, 0], [1000, 9000])) is None
    assert found(recorded([3000, 0], [6000, 6000])) is not None


def test_the_rank_that_sets_the_pace_is_the_one_that_is_told():
    """The other one loads for longer, while it would wait anyway."""
    finding = found(recorded([3000, 1000], [1000, 8000]))
    sick, cured = recorded([3000, 1000], [1000, 8000]), recorded([0, 0], [1000, 8000])
    (fix,) = [one for one in finding.fixes if one.fix == "loader-workers"]
    assert fix.predicted.low * 0.98 <= step_s(sick) / step_s(cured) <= fix.predicted.high * 1.02
    assert finding.lost.high < 0.2


@pytest.mark.parametrize("lead", [500, 1500])
def test_beyond_its_lead_the_others_set_the_pace(lead):
    sick = recorded([0, 3000], [5000 + 3000 - lead, 5000])
    cured = recorded([0, 0], [5000 + 3000 - lead, 5000])
    won = step_s(sick) / step_s(cured)
    for fix in found(sick).fixes:
        assert fix.predicted is None or fix.predicted.high <= won * 1.02
