"""How grave a finding is, and which of two that explain the same time claims it."""

import pytest

from whyidle import catalog
from whyidle.engine._findings import RISKY, Judged, severity
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted, Prescription


def judged(speedup, low):
    predicted = Predicted(speedup=speedup, low=low, high=2.0, method="of this test")
    proof = Proof("slow", 0.0, 0.5, predicted, (), 0.9)
    return Judged(catalog.causes()["dataloader-no-workers"], proof, None, 1.0)


def offered(speedup, low):
    predicted = Predicted(speedup=speedup, low=low, high=2.0, method="of this test")
    return Prescription(
        treatment="some", summary="do it", edits=[], consent="none", automatic=True,
        predicted=predicted, risk="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("speedup", "low", "told"),
    [
        (1.2, 1.0, "warning"),
        (1.2, RISKY, "warning"),
        (1.2, RISKY - 0.01, "info"),
        (1.02, 1.0, "info"),
        (1.5, 1.0, "critical"),
    ],
)
def test_what_may_slow_a_job_down_is_a_remark(speedup, low, told):
    assert severity(judged(speedup, low), 0.5, []) == told


def test_another_fix_that_promises_less_does_not_matter():
    risky, sure = offered(1.4, 0.7), offered(1.2, 1.1)
    assert severity(judged(1.5, 1.0), 0.5, [risky, sure]) == "info"
    better = offered(1.45, 1.1)
    assert severity(judged(1.5, 1.0), 0.5, [risky, better]) == "critical"
