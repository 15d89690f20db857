"""A loop over many tensors on a CPU: what a fused update still costs, at least and at most."""

import pytest
from judging import judge

from whyidle.testing.guest import Guest

MS = 1_000_000
OPS = "/torch/nn/linear.py(134): forward;/job/train.py(12): <module>"


def judged(tensors, elements, optimizer_ms):
    told = {"name": "AdamW", "tensors": tensors, "elements": elements, "fused": None}
    job = Guest(optimizer=told)
    for _ in range(30):
        job.work(OPS, 10 * MS)
        job.backward(OPS, 10 * MS)
        job.step(OPS, int(optimizer_ms * MS), "AdamW")
    return judge("unfused-optimizer", job)


def test_what_is_left_is_bytes_and_tensors():
    """28 bytes of 2 million numbers at 12 GB/s, and 100 tensors of 4 us: 5.07 ms of 20 stay."""
    predicted = judged(100, 2_000_000, 20).predicted
    assert predicted.speedup == pytest.approx(40 / (20 + 5.07), rel=0.02)
    assert predicted.low < predicted.speedup < predicted.high < 2.0


def test_what_the_caches_keep_is_updated_faster():
    """28 bytes of a million numbers at 20 GB/s, and 100 tensors of 4 us: 1.8 ms of 20 stay."""
    predicted = judged(100, 1_000_000, 20).predicted
    assert predicted.speedup == pytest.approx(40 / (20 + 1.8), rel=0.02)


def test_a_short_loop_over_what_the_caches_keep_is_seen():
    """2.3 ms, where one from memory would take 1.85 and be left alone."""
    assert judged(18, 764_000, 2.3).predicted.speedup > 1.03


def test_many_bytes_leave_much_in_doubt():
    few, many = judged(100, 10_000, 20).predicted, judged(100, 2_000_000, 20).predicted
    assert many.high - many.low > 3 * (few.high - few.low)


def test_an_update_at_the_speed_of_memory_is_left_alone():
    assert judged(10, 8_000_000, 16) is None
