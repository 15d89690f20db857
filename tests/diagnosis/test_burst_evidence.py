"""Bursts joined to the diagnosis of the run that they are from."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from watched_run import add_facts, hide_device
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.diagnosis import burst_evidence
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.timeline import DeviceInfo, HostKind
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.recorded_job import RecordedJob

TOLD = {
    "state": "recorded", "step": 101, "steps": 3, "before_s": 0.01, "during_s": 0.012,
    "after_s": 0.0101, "cost_s": 0.2, "window": "profile of steps 101 to 103",
}  # fmt: skip


def loops(steps, tensors):
    job = Builder()
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(3))])
            job.optimizer(kernels=[("elementwise_kernel", us(3))] * tensors, name="Adam")
    return job.timeline()


def blind(timeline):
    """The same run as live signals see it: calls on the host, nothing of the device."""
    told = {"switches": {}, "bursts": {"bursts": [TOLD], "off": None}}
    return add_facts(hide_device(timeline, HostKind.ANNOTATION), told)


@pytest.fixture(scope="module")
def run():
    live = blind(loops(30, 300))
    burst = add_facts(replace(loops(3, 300), process=live.process), {"burst": TOLD})
    return live, burst


def test_without_a_burst_the_device_is_unseen(run):
    diagnosis = diagnose_job([run[0]])
    assert diagnosis.verdict.state == "inconclusive"
    assert not diagnosis.findings


def test_a_burst_tells_the_device_s_shares_and_the_run_its_steps(run):
    live, burst = run
    diagnosis = diagnose_job([replace(live, bursts=(burst,))])
    alone = diagnose_job([burst])
    assert diagnosis.attribution == alone.attribution
    assert diagnosis.steps.count >= 25
    assert len(diagnosis.detail.step_times_s) >= 28
    first = diagnosis.findings[0]
    assert "unfused-optimizer" in {finding.cause for finding in diagnosis.findings}
    assert diagnosis.findings[0].cause == alone.findings[0].cause
    assert {item.window for item in first.evidence} == {"profile of steps 101 to 103"}
    assert all(item.source.startswith("burst: ") for item in first.evidence)
    assert "device_events" in diagnosis.coverage.signals
    (note,) = [note for note in diagnosis.coverage.notes if "profile of steps" in note]
    assert "10 ms before, 12 ms during, 10.1 ms after" in note


def test_where_live_signals_see_the_device_their_shares_stand(run):
    live = loops(30, 2)
    diagnosis = diagnose_job([replace(live, bursts=(run[1],))])
    assert diagnosis.attribution == diagnose_job([live]).attribution
    assert "unfused-optimizer" not in {finding.cause for finding in diagnosis.findings}


def test_the_burst_most_like_the_run_speaks_for_it(run):
    live, burst = run
    other = add_facts(burst, {"burst": {**TOLD, "before_s": 0.001}})
    typical = Facts(live).step_s
    same = add_facts(burst, {"burst": {**TOLD, "before_s": typical * 1.1}})
    facts = Facts(replace(live, bursts=(other, same)))
    assert facts.burst.timeline is same


def test_disturbed_steps_do_not_count(run):
    live, _ = run
    plain = Facts(live).steps
    at = int(plain.start[10]) + 5
    steps = Facts(replace(live, disturbed=((at, at + int(plain.end[10] - plain.start[10])),))).steps
    left_out = np.flatnonzero(plain.steady & ~steps.steady)
    assert left_out.tolist() == [10, 11]
    assert steps.left_out == 2
    diagnosis = diagnose_job([replace(live, disturbed=((at, at + 1),))])
    assert diagnosis.steps.warmup == diagnose_job([live]).steps.warmup
    assert diagnosis.steps.count == diagnose_job([live]).steps.count - 1


def test_a_run_of_which_everything_is_disturbed_is_not_empty(run):
    steps = Facts(replace(run[0], disturbed=((-1, 1 << 62),))).steps
    assert steps.steady.any()


def test_a_trace_that_is_cut_or_missing_is_left_out(run, tmp_path):
    (tmp_path / "1.burst-1.json").write_text('{"schemaVersion": 1, "traceEvents": [')
    told = [{**TOLD, "file": f"1.burst-{number}.json"} for number in (1, 2)]
    live = add_facts(run[0], {"bursts": {"bursts": [*told, {"state": "abandoned: a fork"}]}})
    assert burst_evidence.read_bursts(tmp_path, live) == ()


@pytest.mark.parametrize(("kind", "kernels", "read"), [
    ("cuda", (), 0), ("cuda", [("ampere_sgemm_128x64_tn", us(3))], 1), ("cpu", (), 1),
])  # fmt: skip
def test_a_trace_of_a_gpu_s_job_without_kernels_is_none(run, tmp_path, kind, kernels, read):
    """The profiler may come away with what the host did only, and says nothing of it."""
    job = Builder()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", kernels=kernels)
    told = {**TOLD, "file": job.save(tmp_path / "1.burst-1.json").name}
    live = add_facts(replace(run[0], info=DeviceInfo(kind=kind)), {"bursts": {"bursts": [told]}})
    assert len(burst_evidence.read_bursts(tmp_path, live)) == read


@pytest.mark.parametrize("kind", ["cuda", "cpu"])
def test_that_no_burst_holds_the_device_is_said_of_a_gpu_s_job(run, kind):
    notes = diagnose_job([replace(run[0], info=DeviceInfo(kind=kind))]).coverage.notes
    assert (burst_evidence.NO_KERNELS in notes) == (kind == "cuda")
    assert (
        burst_evidence.NO_KERNELS
        not in diagnose_job([replace(run[0], bursts=(run[1],))]).coverage.notes
    )


@pytest.mark.parametrize(
    ("off", "said"), [("steps stayed slower after it (20%)", 1), ("closed", 0)]
)
def test_why_there_were_no_more_is_said_where_it_matters(run, off, said):
    bursts = {"bursts": [TOLD, {"state": "abandoned: a fork", "step": 7}], "off": off}
    notes = diagnose_job([add_facts(run[0], {"bursts": bursts})]).coverage.notes
    assert sum(off in note for note in notes) == said
    assert "the profile at step 7 failed: abandoned: a fork" in notes


def test_one_that_the_end_of_the_job_cut_off_is_no_news(run):
    bursts = {"bursts": [{"state": "abandoned: closed", "step": 7}], "off": "closed"}
    notes = diagnose_job([add_facts(run[0], {"bursts": bursts})]).coverage.notes
    assert not any("step 7" in note for note in notes)


def test_recorded_calls_are_asked_where_what_stands_in_for_them_proves_nothing():
    allocating, launching = (
        catalog.load_causes()[i] for i in ("allocator-thrash", "naive-attention")
    )
    live = SimpleNamespace(signals=frozenset(allocating.watched))
    burst = SimpleNamespace(signals=frozenset({*allocating.needs, *launching.needs}))
    poor = SimpleNamespace(signals=burst.signals - {"runtime_calls"})
    assert burst_evidence.second_of(allocating, live, burst) is burst
    assert burst_evidence.second_of(allocating, burst, burst) is None
    assert burst_evidence.second_of(allocating, live, poor) is None
    assert burst_evidence.second_of(allocating, live, None) is None


def test_a_burst_proves_what_the_allocator_of_the_run_does_not_tell(run):
    job = Builder()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(8))])
            job.runtime("cudaFree", ms(9))
            job.runtime("cudaMalloc", ms(3))
    live = run[0]
    burst = add_facts(replace(job.timeline(), process=live.process), {"burst": TOLD})
    watched = replace(live, bursts=(burst,))
    assert "allocator-thrash" in [found.cause for found in diagnose_job([watched]).findings]


READ, OTHER = "/job/train.py(31): train", "/job/train.py(40): log"


def turns(steps):
    """The host reads the loss in each step, and then has something to do."""
    job = Builder()
    for _ in range(steps):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(200))])
            job.item()
            job.quiet(ms(3))
            job.optimizer(kernels=[("elementwise_kernel", us(3))])
    return job.timeline()


def watched_reads(name):
    guest = RecordedJob(device="cuda", bursts={"bursts": [TOLD], "off": None})
    for number in range(40):
        guest.python("/job/train.py(28): train", ms(3))
        with guest.call(name, HostKind.RUNTIME):
            guest.wait(f"/x/torch/_tensor.py(9): wrapped;{READ if number % 4 else OTHER}", ms(4))
        guest.step("/job/train.py(30): train", ms(1))
    return guest.timeline()


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("cudaStreamSynchronize (Tensor.item)", [31, 40]),
        ("emulatedDeviceSynchronize", [31, 40]),
        ("cudaMemcpyAsync", []),
    ],
)
def test_lines_that_wait_are_told_by_the_whole_run(name, lines):
    burst = add_facts(turns(5), {"burst": TOLD})
    diagnosis = diagnose_job([replace(watched_reads(name), bursts=(burst,))])
    (found,) = [each for each in diagnosis.findings if each.cause == "per-step-host-sync"]
    assert [place.line for place in found.where] == lines


def taking_turns(critics, steps=20):
    """As adversarial training does: one optimizer several times, then the other. Returns the
    recording, and when each call of the first ended, ns."""
    job, ends = RecordedJob(), []
    for _ in range(steps):
        for _ in range(critics):
            job.work("/job/train.py(41): <module>", ms(40))
            job.step("/job/train.py(42): <module>", ms(5), "Adam")
            ends.append(job.now)
        job.work("/job/train.py(44): <module>", ms(40))
        job.step("/job/train.py(45): <module>", ms(5), "Adam (2)")
    return job.timeline(), ends


@pytest.mark.parametrize(
    ("critics", "said"),
    [(1, "profile of steps 8 to 10: "), (3, "profile of step 3: ")],
)
def test_bursts_are_of_steps_as_the_run_counts_them(critics, said):
    live, ends = taking_turns(critics)
    first, calls = 7, 7 + 7 // critics + 1  # by then, with those of the other
    told = {**TOLD, "step": calls, "begin": ends[first], "end": ends[first + 3] + us(9)}
    settings = {"bursts": {"bursts": [told], "off": None}}
    (note,) = [
        note
        for note in diagnose_job([add_facts(live, settings)]).coverage.notes
        if "every operator recorded" in note
    ]
    assert note.startswith(said)
    assert ("steps took" in note) == (critics == 1)
    assert ("first optimizer" in note) == (critics == 3)
