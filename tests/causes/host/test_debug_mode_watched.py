"""Debugging modes of watched jobs whose device is the CPU."""

import os
import subprocess
import sys

import pytest

from whyidle import catalog
from whyidle.engine.diagnose import diagnose
from whyidle.engine.trial.candidates import SAFE, candidates
from whyidle.fixes.debug_mode_off import SWITCHES
from whyidle.testing.builder import ms
from whyidle.testing.guest import Guest
from whyidle.testing.twins import covers, judge, measured

CAUSE = "debug-mode-left-on"
LOOP = "/job/train.py(20): train"
TRACED = f"/lib/linecache.py(72): checkcache;/x/torch/fx/traceback.py(5): format_stack;{LOOP}"
ASKED = {"anomaly_mode": f"/x/site-packages/torch/wrapped.py(2): on;/job/train.py(3): main;{LOOP}"}


def train(tracing=0.0, *, python=0.0, work=20.0, back=None, steps=40, **facts) -> Guest:
    job = Guest(**facts)
    for _ in range(steps):
        job.work(LOOP, ms(work))
        if tracing:
            job.python(TRACED, ms(tracing))
        if python:
            job.python("/job/train.py(30): score;" + LOOP, ms(python))
        job.backward(LOOP, ms(work if back is None else back))
        job.step(LOOP, ms(2))
    return job


def exchanging(**facts) -> Guest:
    """A rank that waits for the others in every step."""
    job = Guest(rank="0", world_size="2", **facts)
    for _ in range(40):
        job.work(LOOP, ms(20))
        job.backward(LOOP, ms(20))
        with job.call("gloo:all_reduce"):
            job.wait(LOOP, ms(10))
        job.step(LOOP, ms(2))
    return job


def seen(mode: str, times: int, looks: int = 10) -> dict:
    return {"switches": {"seen": {mode: times, "looks": looks}}}


def test_anomaly_mode_is_named_and_what_it_does_is_no_python_of_the_job():
    sick = train(30, **seen("anomaly_mode", 10), asked=ASKED)
    proof = judge(CAUSE, sick)
    assert proof
    assert "anomaly mode" in proof.headline
    assert [(place.file, place.line) for place in proof.where] == [("/job/train.py", 3)]
    assert covers(proof, measured(sick, train()))
    for other in ("python-overhead-in-step", "python-between-operators"):
        assert judge(other, sick) is None


def test_gradients_are_searched_beside_what_samples_show():
    """The backward pass of the sick twin takes 20 ms longer, of which no sample tells."""
    sick = Guest(**seen("anomaly_mode", 10))
    for _ in range(40):
        sick.work(LOOP, ms(10))
        sick.python(TRACED, ms(40))
        sick.backward(LOOP, ms(35))
        sick.step(LOOP, ms(2))
    proof = judge(CAUSE, sick)
    assert proof
    healthy = Guest()
    for _ in range(40):
        healthy.work(LOOP, ms(10))
        healthy.backward(LOOP, ms(15))
        healthy.step(LOOP, ms(2))
    gain = measured(sick, healthy)
    assert covers(proof, gain)
    assert proof.predicted.speedup > 1 / (1 - 40 / 87) * 1.1


@pytest.mark.parametrize(
    ("forward", "before", "after"),
    [(17, 27, 33), (5, 9, 20), (15, 30, 32)],  # wide layers; large ones for few samples; wider
)
def test_what_the_search_costs_is_told_by_how_long_the_backward_pass_takes(forward, before, after):
    """All that the mode does is in the backward pass, of which samples tell nothing."""
    sick = train(work=forward, back=after, **seen("anomaly_mode", 10))
    proof = judge(CAUSE, sick)
    assert proof
    gain = measured(sick, train(work=forward, back=before))
    assert covers(proof, gain)
    assert 1 / proof.predicted.speedup == pytest.approx(1 / gain, abs=0.12)


def noting(step_ms, timed_ms, span_ms, steps=40, begin=1_000_000_000):
    """Reads of what anomaly mode notes, once a step: 10 calls, as long, first to last."""
    return [
        [begin + ms(step_ms) * n, 10 * n, ms(timed_ms) * n, ms(span_ms) * n]
        for n in range(steps + 1)
    ]


def test_what_is_timed_tells_more_than_samples():
    """Samples show 4 ms of noting, the process timed 30: its backward pass then is as long as 1.7
    of its forward passes and the search is what the smallest operators have."""
    forward, back = 20.0, 34.0
    step = forward + 1.19 * 30 + back + 2
    sick = train(4, work=step - 4 - back - 2, back=back, **seen("anomaly_mode", 10),
                 noting=noting(step, 30, forward + 1.19 * 30))  # fmt: skip
    proof = judge(CAUSE, sick)
    assert proof
    gone = 1.19 * 30 * (1 + 0.2)
    assert 1 - 1 / proof.predicted.speedup == pytest.approx(gone / step, abs=0.02)
    assert [one.value for one in proof.evidence if one.quantity.startswith("noting")] == [
        pytest.approx(30 / step, abs=0.01)
    ]


def test_the_search_is_told_by_the_forward_pass_as_it_was_timed():
    """Of 60 ms before the backward pass 40 make batches, which need no gradient."""
    step = 60 + 60 + 2
    kept = {"noting": noting(step, 10, 20)}
    sick = train(work=60, back=60, **seen("anomaly_mode", 10), **kept)
    proof = judge(CAUSE, sick)
    assert proof
    searched = 60 - 1.7 * (20 - 11.9)
    gone = 1 - 1 / proof.predicted.speedup
    assert gone == pytest.approx((11.9 + searched) / step, abs=0.02)
    assert judge(CAUSE, train(work=60, back=60, **seen("anomaly_mode", 10))).low < gone / 2


@pytest.mark.parametrize("looks", [10, 12])
def test_no_more_is_noted_than_there_is_time_for_beside_the_calls(looks):
    """Stacks are deep, so calls are 112 of 120 ms: nine tenths are won, be the mode off in looks
    after the training. Forward and backward pass run inside the step, as Lightning has it."""
    sick = Guest(**seen("anomaly_mode", 10, looks), noting=noting(137, 112, 120))
    for _ in range(40):
        sick.python("/job/train.py(9): collate;" + LOOP, ms(3))
        with sick.call("Optimizer.step#Adam.step"):
            sick.work(LOOP, ms(120))
            sick.backward(LOOP, ms(12))
            sick.work(LOOP, ms(2))
    proof = judge(CAUSE, sick)
    assert proof
    assert proof.bucket == "compute"
    gone = 1 - 1 / proof.predicted.speedup
    assert gone == pytest.approx((112 + (8 - 12 * 0.6 / 1.7) + 12 * 0.4) / 137, abs=0.02)
    assert covers(proof, 9.0)
    most = 112 + (8 - 12 * 0.35 / 2.5) + 12 * 0.65  # hopeful: all of the rest, and of the search
    assert 1 - 1 / proof.predicted.high == pytest.approx(most / 137, abs=0.02)


def test_gradients_that_are_accumulated_are_no_forward_pass():
    """Two batches a step: the first one's backward pass lies between the forward passes."""
    sick = Guest(**seen("anomaly_mode", 10), noting=noting(104, 20, 22 + 29 + 22))
    for _ in range(40):
        for _ in range(2):
            sick.work(LOOP, ms(22))
            sick.backward(LOOP, ms(29))
        sick.step(LOOP, ms(2))
    alone = 1 - 1 / judge(CAUSE, sick).predicted.speedup
    assert alone == pytest.approx((23.8 + 58 - 1.7 * (44 - 23.8)) / 104, abs=0.03)


def test_it_takes_no_more_than_there_is():
    proof = judge(CAUSE, train(200, work=5, **seen("anomaly_mode", 10)))
    assert proof.high <= 1 - 2 / 212


def test_python_of_the_job_s_own_is_still_seen():
    sick = train(30, python=30, **seen("anomaly_mode", 10))
    proof = judge("python-overhead-in-step", sick)
    assert proof
    assert proof.where[0].line == 30
    assert proof.high < 0.4


def test_a_mode_that_is_on_for_a_part_of_the_time_costs_as_much():
    whole = judge(CAUSE, train(work=0, back=40, **seen("anomaly_mode", 10)))
    part = judge(CAUSE, train(work=0, back=40, **seen("anomaly_mode", 2)))
    assert whole
    assert part
    assert part.high == pytest.approx(whole.high / 5)


def test_anomaly_mode_leaves_the_optimizer_alone():
    """However long that takes, the mode can take no more than the rest of the step."""
    job = Guest(**seen("anomaly_mode", 10))
    for _ in range(40):
        job.work(LOOP, ms(10))
        job.backward(LOOP, ms(10))
        job.step(LOOP, ms(60))
    assert judge(CAUSE, job).high <= 20 / 80


@pytest.mark.parametrize(("on", "found"), [(5, True), (2, False)])
def test_a_profiler_must_be_on_in_every_look(on, found):
    proof = judge(CAUSE, train(own={"torch_profiler": on, "looks": 5}))
    assert (proof is not None) == found
    if proof:
        assert catalog.fixes()["debug-mode-off"].decide(proof)


def test_deterministic_algorithms_alone_are_worth_no_warning():
    proof = judge(CAUSE, train(**seen("deterministic", 10)))
    assert proof
    assert 1 - 1 / proof.predicted.speedup < 0.03


def test_no_mode():
    assert judge(CAUSE, train(switches={"seen": {"looks": 5}}, own={"looks": 5})) is None


SET = {
    "PYTHONMALLOC": ("debug", "default"),
    "PYTHONDEVMODE": ("1", ""),
    "TORCH_DISTRIBUTED_DEBUG": ("DETAIL", "OFF"),
}


@pytest.mark.parametrize(("variable", "value"), [(k, v) for k, (v, _) in SET.items()])
def test_a_variable_that_switches_a_debugging_mode_on_is_a_remark_without_a_promise(
    variable, value
):
    job = train(environment={variable: value})
    if variable == "TORCH_DISTRIBUTED_DEBUG":
        assert judge(CAUSE, job) is None  # nothing is exchanged
        job = exchanging(environment={variable: value})
    proof = judge(CAUSE, job)
    assert proof.facts == {"mode": variable, "was": value}
    assert variable in proof.headline
    assert proof.evidence[0].quantity == f"{variable} was set, share of looks"
    (finding,) = [one for one in diagnose([job.timeline()]).findings if one.cause == CAUSE]
    assert finding.severity == "info"
    (fix,) = finding.fixes
    assert fix.predicted is None
    assert fix.automatic
    (edit,) = fix.edits
    assert (edit.knob, edit.was, edit.value) == (f"env.{variable}", *SET[variable])
    ready, _ = candidates(diagnose([job.timeline()]), SAFE)
    assert "debug-mode-off" in [one.fix for one in ready]  # a trial tells what it brings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PYTHONMALLOC", "malloc"),
        ("PYTHONMALLOC", ""),
        ("PYTHONDEVMODE", ""),
        ("TORCH_DISTRIBUTED_DEBUG", "INFO"),
        ("NCCL_DEBUG", "INFO"),
    ],
)
def test_variables_that_cost_nothing_are_no_mode(variable, value):
    assert judge(CAUSE, exchanging(environment={variable: value})) is None


def test_what_is_certain_comes_before_what_a_variable_may_cost():
    job = train(tracing=20.0, **seen("anomaly_mode", 10), environment={"PYTHONDEVMODE": "1"})
    proof = judge(CAUSE, job)
    assert proof.facts["mode"] == "anomaly_mode"
    assert "PYTHONDEVMODE was set, share of looks" in [one.quantity for one in proof.evidence]


def test_development_mode_is_off_with_what_the_fix_sets():
    """Any other text, 0 as well, would leave it on."""
    words = [sys.executable, "-c", "import sys; print(sys.flags.dev_mode)"]
    for value, on in ((SWITCHES["PYTHONDEVMODE"][3], "False"), ("0", "True")):
        own = {**os.environ, "PYTHONDEVMODE": value}
        assert subprocess.check_output(words, env=own, text=True).strip() == on
