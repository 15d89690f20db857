"""The verdict names what holds most, and its word agrees with what it says."""

from dataclasses import replace

import pytest

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.verdict import _mention_other_work
from whyidle.model.timeline import DeviceInfo
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Fleet
from whyidle.testing.recorded_job import RecordedJob

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
LATE_US = 3_950


def eight(late_us, late="python"):
    """Ranks that wait for their device once per step and meet in one exchange; one comes late."""
    made = Fleet(8)
    for _ in range(12):
        with made.step():
            for index, rank in enumerate(made.ranks):
                rank.sync()
                if index == 5 and late == "loader":
                    rank.loader(us(late_us))
                elif index == 5:
                    rank.python("train.py(7): slow_thing", us(late_us))
                for _ in range(60):
                    rank.python("train.py(9): forward", us(100))
                    rank.op("aten::mm", kernels=[(GEMM, us(40))])
            made.collective(us(3500))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return diagnose_job(made.timelines())


@pytest.mark.parametrize(("late", "doing"), [("python", "Python"), ("loader", "loading data")])
def test_what_a_late_rank_does_is_the_cause_where_the_others_wait_for_it(late, doing):
    told = eight(LATE_US, late)
    shares = told.attribution
    assert shares.communication > max(shares.host, shares.sync, shares.input)
    assert told.verdict.bound == "communication"
    assert told.verdict.cause == "late-rank"
    assert "Rank 5 makes the others wait 3.95 ms per step" in told.verdict.headline
    assert doing in told.verdict.headline
    assert told.verdict.state == "starved"


@pytest.mark.parametrize(("first_ms", "second_ms"), [(20, 40), (5, 20), (20, 20)])
def test_whom_a_slower_loader_makes_wait_is_told_before_the_loader(first_ms, second_ms):
    made = Fleet(2)
    for _ in range(12):
        with made.step():
            for rank, loading_ms in zip(made.ranks, (first_ms, second_ms), strict=True):
                rank.sync()
                rank.loader(ms(loading_ms), workers=0)
                for _ in range(10):
                    rank.op("aten::mm", kernels=[(GEMM, us(300))])
            made.collective(us(300))
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    told = diagnose_job(made.timelines())
    headline, late_ms = told.verdict.headline.replace("rank 1", "Rank 1"), second_ms - first_ms
    assert told.verdict.cause == "dataloader-no-workers"
    assert "The DataLoader has no workers" in headline
    assert ("Rank 1 makes the others wait" in headline) == (late_ms > 0)
    if late_ms:
        assert f"Rank 1 makes the others wait {late_ms} ms per step (" in headline
        assert f"held up by loading data ({second_ms} ms, others {first_ms} ms)" in headline
        assert "; with even ranks" in headline


def overlapped(late_us):
    """Exchanges of gradients beside a backward pass whose launches are slow on every rank."""
    made = Fleet(8)
    for _ in range(12):
        with made.step():
            for index, rank in enumerate(made.ranks):
                rank.sync()
                rank.python("train.py(7): slow_thing", us(late_us if index == 5 else 10))
                for _ in range(60):
                    rank.python("train.py(9): forward", us(150))
                    rank.op("aten::mm", kernels=[(GEMM, us(10))])
            for _ in range(2):
                made.collective(us(500))
                for rank in made.ranks:
                    for _ in range(20):
                        rank.python("train.py(9): backward", us(150))
                        rank.op("aten::mm", kernels=[(GEMM, us(10))])
            made.join()
            for rank in made.ranks:
                rank.optimizer([("multi_tensor_apply_kernel", us(50))])
    return diagnose_job(made.timelines())


def test_a_late_rank_counts_where_the_others_are_still_launching():
    sick, well = overlapped(LATE_US), overlapped(10)
    won = 1.0 - well.steps.mean_s / sick.steps.mean_s
    late = next(found for found in sick.findings if found.cause == "late-rank")
    assert late.lost.high > 0.8 * won * 7 / 8  # the late one itself does not wait
    assert sick.verdict.bound == "communication"


@pytest.mark.parametrize(
    ("wait_ms", "state", "bound"), [(2, "inefficient", "compute"), (6, "starved", "input")]
)
def test_the_word_agrees_with_the_headline(wait_ms, state, bound):
    job = Builder()
    for _ in range(10):
        with job.step():
            job.loader(ms(wait_ms))
            job.op("aten::mm", kernels=[(GEMM, ms(18))])
            job.sync()
    told = diagnose_job([job.timeline()])
    assert told.verdict.cause == "dataloader-no-workers"
    assert (told.verdict.state, told.verdict.bound) == (state, bound)
    assert ("waits for its next batch" in told.verdict.headline) == (state == "starved")
    assert ("computes 9" in told.verdict.headline) == (state == "inefficient")


def test_nothing_found_says_among_how_many_checks():
    job = Builder()
    for _ in range(10):
        with job.step():
            job.op("aten::mm", kernels=[(GEMM, ms(20))])
            job.sync()
    told = diagnose_job([job.timeline()])
    checks = len(catalog.load_causes()) - len(told.abstentions)
    assert told.verdict.state == "saturated"
    assert f"among the {checks} checks that this recording allows" in told.verdict.headline


@pytest.mark.parametrize(("longest_ms", "told"), [(80, True), (20, False)])
def test_where_the_gpu_was_not_recorded_an_operator_that_took_most_of_the_time_is_named(
    longest_ms, told
):
    made = Builder()
    for _ in range(4):
        made.op("aten::normal_", host=ms(longest_ms))
        made.op("aten::mul", host=ms(30))
        made.op("aten::add", host=ms(30))
    timeline = replace(made.timeline(), info=DeviceInfo(kind="cuda", name="NVIDIA RTX 4060"))
    headline = diagnose_job([timeline]).verdict.headline
    assert "no GPU activity" in headline
    assert ("aten::normal_ took 57% of the recording" in headline) is told


def test_a_line_that_logs_most_of_the_time_is_told_where_nothing_proves_it_needless():
    job = RecordedJob()
    at = "/job/train.py(8): on_after_backward;/job/train.py(3): <module>"
    job.sources = {"/job/train.py": "\n" * 7 + "        self.log('median', g.sort())\n"}
    for _ in range(60):
        job.work(at, ms(40))
        job.backward("/job/train.py(2): <module>", ms(10))
        job.step("/job/train.py(3): <module>", ms(5))
    timeline = job.timeline()
    verdict = diagnose_job([timeline]).verdict
    assert "72% of the step in logging (train.py:8)" in verdict.headline
    asked = Facts(replace(timeline, framework="jax"))
    assert "(train.py:8, which may wait for earlier steps)" in _mention_other_work(asked)
