"""Only the number of processes proves that visible GPUs are unused."""

import pytest

from cured_twins import judge
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.proof_facts import AllocationFacts
from whyidle.testing import contracts
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

CAUSE = "idle-allocated-gpu"


def job(listed: int, world: int | None, rank: int = 0) -> Builder:
    made = Builder(rank=None if world is None else rank, world_size=world)
    first = made.document()["deviceProperties"][0]
    made._header["deviceProperties"] = [{**first, "id": i} for i in range(listed)]
    for _ in range(4):
        with made.step():
            for _ in range(20):
                made.op("aten::mm", kernels=[("ampere_bf16_s16816gemm_bf16_128x128_tn", us(500))])
    return made


def test_one_process_and_eight_gpus():
    proof = judge(CAUSE, job(8, 1))
    assert proof is not None
    assert proof.facts == AllocationFacts(used=1, listed=8)
    assert proof.predicted.low == 1.0


def test_two_recorded_ranks_of_two():
    assert judge(CAUSE, job(4, 2, 0), job(4, 2, 1)).facts == AllocationFacts(used=2, listed=4)


@pytest.mark.parametrize(("listed", "world"), [(8, 8), (8, 64), (1, 1), (8, None)])
def test_ranks_that_cover_the_host_or_are_not_counted(listed, world):
    assert judge(CAUSE, job(listed, world)) is None


def test_without_the_number_of_processes_it_abstains():
    diagnosis = diagnose_job([job(8, None).timeline()])
    assert CAUSE in {abstention.cause for abstention in diagnosis.abstentions}


def test_it_is_a_remark_that_costs_the_used_gpu_nothing():
    diagnosis = diagnose_job([job(8, 1).timeline()])
    finding = next(f for f in diagnosis.findings if f.cause == CAUSE)
    assert finding.severity == "info"
    assert finding.lost.high == 0.0
    contracts.check_bounds(diagnosis)


PAIRS = {CAUSE: Pair(sick=lambda: job(8, 1), healthy=lambda: job(8, 8))}
