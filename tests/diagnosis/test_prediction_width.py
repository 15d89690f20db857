"""Predictions that are no surer than the steps from which they are made."""

import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.prediction_width import NONE, BucketSpread, widen_prediction
from whyidle.model.diagnosis import Predicted
from whyidle.testing.builder import Builder, ms


def told(speedup, low, high):
    return Predicted(speedup=speedup, low=low, high=high, method="of this test")


@pytest.mark.parametrize(
    ("predicted", "known", "ends"),
    [
        (told(1.25, 1.24, 1.26), NONE, (1.24, 1.26)),
        (told(1.25, 1.24, 1.26), BucketSpread(0.4, 0.0), (1.24, 1.26)),
        (
            told(1.25, 1.24, 1.26),
            BucketSpread(0.4, 0.1),
            (1 / 0.85, 1 / 0.75),
        ),  # half of the bucket
        (told(1.25, 1.10, 1.60), BucketSpread(0.4, 0.1), (1.10, 1.60)),
        (told(1.25, 1.24, 1.26), BucketSpread(0.2, 0.3), (1.0, 1 / 0.5)),
        (told(1.25, 0.90, 1.26), BucketSpread(0.2, 0.3), (0.90, 1 / 0.5)),
        (
            told(4.0, 3.9, 4.0),
            BucketSpread(0.1, 0.05),
            (1 / 0.3, 4.0),
        ),  # it shortens more than that
        (told(1.0, 0.9, 1.1), BucketSpread(0.4, 0.1), (0.9, 1.1)),
    ],
)
def test_it_is_as_wide_as_its_bucket_scatters(predicted, known, ends):
    found = widen_prediction(predicted, known)
    assert found.speedup == predicted.speedup
    assert (found.low, found.high) == pytest.approx(ends, rel=1e-6)


def workers(computed_ms):
    """The prediction for the workers of a job whose device computes for so long, step by step."""
    job = Builder()
    for each in computed_ms:
        with job.step():
            job.loader(ms(10))
            for _ in range(5):
                job.op("aten::mm", kernels=[("gemm", ms(each / 5))])
            job.item()
    for finding in diagnose_job([job.timeline()]).findings:
        for fix in finding.fixes:
            if fix.fix == "loader-workers":
                return fix.predicted
    raise AssertionError


def test_steps_that_scatter_make_a_prediction_wide():
    alike, apart = workers([20] * 12), workers([10, 30, 30, 10, 20, 20] * 2)
    assert apart.speedup == pytest.approx(alike.speedup, rel=0.1)
    assert apart.low < alike.low
