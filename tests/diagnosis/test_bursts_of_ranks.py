"""Of a watched job of several GPUs only a burst holds collectives; one rank records bursts."""

from dataclasses import replace

import pytest

from watched_run import add_facts, hide_device
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.exposed_communication import find_exposure
from whyidle.analysis.ranks.job import Job
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms, us
from whyidle.testing.contracts import Fleet
from whyidle.testing.recorded_job import RecordedJob

TOLD = {
    "state": "recorded", "step": 11, "steps": 4, "before_s": 0.01, "during_s": 0.012,
    "after_s": 0.0101, "cost_s": 0.2, "window": "profile of steps 11 to 14",
}  # fmt: skip
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def ddp(steps, micro=1):
    """Two ranks, the second with more to do; gradients travel when the backward pass is over."""
    fleet = Fleet(2)
    for _ in range(steps):
        with fleet.step():
            for _ in range(micro):
                for number, rank in enumerate(fleet.ranks):
                    with rank.span("DistributedDataParallel.forward"):
                        rank.op("aten::mm", kernels=[(GEMM, ms(6 + number))])
                for _ in range(4):
                    fleet.collective(us(900), elements=10_000_000)
                fleet.join()
            for rank in fleet.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return fleet.timelines()


def blind(timeline, **settings):
    """The same rank as live signals see it."""
    told = {"switches": {}, "bursts": {"bursts": [TOLD], "off": None}, **settings}
    return add_facts(hide_device(timeline, HostKind.ANNOTATION, HostKind.OP), told)


def watched(micro=1, **settings):
    """Both ranks, and the first one's burst."""
    live = [blind(each, **settings) for each in ddp(20, micro)]
    burst = add_facts(replace(ddp(4, micro)[0], process=live[0].process), {"burst": TOLD})
    return [replace(live[0], bursts=(burst,)), live[1]]


def test_exposed_communication_is_told_by_the_burst():
    diagnosis = diagnose_job(watched())
    (found,) = [each for each in diagnosis.findings if each.cause == "exposed-gradient-comm"]
    assert found.fixes
    assert "including waits for other ranks" in found.headline
    assert {item.window for item in found.evidence} == {"profile of steps 11 to 14"}


def test_exchanges_of_every_micro_batch_are_told_by_the_burst():
    assert "allreduce-every-microstep" in {each.cause for each in diagnose_job(watched(4)).findings}


@pytest.mark.parametrize("bursts", [True, False])
def test_who_is_late_cannot_be_told_without_collectives_of_all_ranks(bursts):
    timelines = watched() if bursts else [blind(each) for each in ddp(20)]
    abstained = {each.cause: each.missing for each in diagnose_job(timelines).abstentions}
    assert abstained["late-rank"] == ["device_time"]
    assert abstained["rank-workload-imbalance"] == ["device_time"]
    assert ("exposed-gradient-comm" in abstained) is not bursts


def test_recorded_kernels_tell_the_overlap_and_not_the_log_of_the_run():
    log = {"avg_backward_comm_time": 10, "avg_backward_compute_comm_overlap_time": 9}
    shown = Job((Facts(watched(ddp=log)[0].bursts[0]),))
    assert find_exposure(shown.ranks, shown.meetings, shown.imbalance).hidden_ratio == 0.0


def test_ranks_on_cpus_are_judged_by_the_collectives_that_are_seen_live():
    guests = [RecordedJob(rank=str(rank), world_size="2") for rank in range(2)]
    for _ in range(20):
        for number, guest in enumerate(guests):
            guest.backward("/job/train.py(21): train", ms(10 + 10 * number))
        end = max(guest.now for guest in guests) + ms(4)
        for guest in guests:
            with guest.call("gloo:all_reduce"):
                guest.wait("/job/train.py(21): train", end - guest.now)
            guest.step("/job/train.py(40): train", ms(1))
    diagnosis = diagnose_job([guest.timeline() for guest in guests])
    assert "rank-workload-imbalance" in {each.cause for each in diagnosis.findings}
    causes = ("late-rank", "rank-workload-imbalance", "exposed-gradient-comm")
    assert not [each for each in diagnosis.abstentions if each.cause in causes]


def test_shares_are_of_steps_that_nobody_recorded():
    """Recording makes a host that is late already later, and collectives no longer."""

    def steps(late):
        fleet = Fleet(2)
        for _ in range(4):
            with fleet.step():
                for rank in fleet.ranks:
                    rank.quiet(ms(late))
                    rank.op("aten::mm", kernels=[(GEMM, ms(5))])
                fleet.collective(ms(4))
                fleet.join()
                for rank in fleet.ranks:
                    rank.optimizer([("multi_tensor_apply_kernel", us(50))])
                    rank.sync()
        return fleet.timelines()[0]

    def shown(timeline):
        job = Job((Facts(timeline),))
        return find_exposure(job.ranks, job.meetings, job.imbalance)

    usual, slowed = steps(2), steps(10)
    seconds = Facts(usual).step_s
    told = {**TOLD, "before_s": seconds, "after_s": seconds}
    live, burst = shown(usual), shown(add_facts(slowed, {"burst": told}))
    assert shown(slowed).held < 0.8 * live.held
    assert burst.held == pytest.approx(live.held, rel=0.03)
    assert burst.in_flight == pytest.approx(live.in_flight, rel=0.03)
    assert burst.hidden_ratio == pytest.approx(live.hidden_ratio, abs=0.03)
