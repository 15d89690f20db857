"""What a late rank does that the others do not."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.causes.distributed._rank_waiting import find_late_work
from whyidle.testing.builder import Builder, us

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def rank(extra: int = 0, *, kernel_us: float = 500) -> Facts:
    job = Builder(rank=0, world_size=2)
    for _ in range(6):
        with job.step():
            with job.span("train.py(7): step", "python_function"):
                job.python("train.py(9): log", us(100))
                if extra:
                    job.python("data.py(41): decode", extra)
                job.op("aten::mm", kernels=[(GEMM, us(kernel_us))])
            job.sync()
    return Facts(job.timeline())


def test_the_innermost_function_that_explains_the_delay_is_named():
    work = find_late_work([rank(), rank(us(2_000)), rank()], 1, "host", 2e-3)
    assert work.name == "data.py(41): decode"
    assert (work.place.file, work.place.line) == ("data.py", 41)


def test_longer_computing_is_named_by_its_kernels():
    work = find_late_work([rank(), rank(kernel_us=900)], 1, "compute", 400e-6)
    assert (work.name, work.place) == ("matrix_product kernels", None)


@pytest.mark.parametrize("excess", [0.0, 50e-3])
def test_what_does_not_explain_half_of_the_delay_is_not_named(excess):
    assert find_late_work([rank(), rank(us(2_000))], 1, "host", excess) is None


def test_a_rank_alone_is_not_compared():
    assert find_late_work([rank(us(2_000))], 0, "host", 2e-3) is None
