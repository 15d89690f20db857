"""The same kernels, slower on one device: proven by names, numbers and grids."""

from judging import covers, judge_all

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import us
from whyidle.testing.fleet import Fleet

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
ADD = "vectorized_elementwise_kernel"
CAUSE = "fail-slow-device"


def fleet(slow: float, *, grids: bool = True, wider: float = 1.0) -> Fleet:
    """Three ranks; rank 1 takes ``slow`` times as long for kernels with ``wider`` grids."""
    made = Fleet(3)
    for _ in range(6):
        with made.step():
            for index, rank in enumerate(made.ranks):
                late = index == 1
                for kernel, took, blocks in ((GEMM, 400, 8.0), (ADD, 60, 2.0)) * 8:
                    told = {"blocks per SM": blocks * (wider if late else 1.0)} if grids else {}
                    with rank.span("aten::mm", "cpu_op"):
                        rank.quiet(us(6))
                        rank.launch(kernel, us(took * (slow if late else 1.0)), **told)
            made.collective(us(300))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return made


def step_s(made: Fleet) -> float:
    return Facts(made.timelines()[0]).step_s


def test_a_slow_device():
    sick = fleet(1.25)
    proof = judge_all(CAUSE, sick.timelines())
    assert proof.facts["rank"] == 1
    assert "rank 1 takes 25% longer" in proof.headline
    assert judge_all("rank-workload-imbalance", sick.timelines()) is None
    assert covers(proof, step_s(sick) / step_s(fleet(1.0)))
    plan = catalog.treatments()["replace-slow-device"].decide(proof)
    assert "rank 1" in plan.summary


def test_wider_grids_are_more_work():
    timelines = fleet(1.25, wider=1.25).timelines()
    assert judge_all(CAUSE, timelines) is None
    assert judge_all("rank-workload-imbalance", timelines) is not None


def test_without_grids_nobody_can_tell():
    timelines = fleet(1.25, grids=False).timelines()
    assert judge_all(CAUSE, timelines) is None
    assert judge_all("rank-workload-imbalance", timelines) is not None


def test_good_devices_scatter():
    assert judge_all(CAUSE, fleet(1.03).timelines()) is None
