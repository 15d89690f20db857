"""Compilers in watched jobs on the CPU: recompilation and warm-up."""

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle.analysis.facts import Facts
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

MODEL = "/job/model.py"
LOOP = "/job/train.py(20): <module>"
FORWARD = f"{MODEL}(9): forward;{LOOP}"
CODE = (
    "/tmp/cache/5s/c" + "a" * 51 + ".py(90): call;/x/torch/_inductor/output_code.py(7): __call__;"
)
BACKWARD = f"{CODE}/x/torch/autograd/__init__.py(395): backward;{LOOP}"
AGAIN = f"whyidle::compile again#{MODEL}(7): forward"
FIRST = f"whyidle::compile#{MODEL}(7): forward"
REASON = "0/1: tensor 'x' size mismatch at index 0. expected 32, actual 36\n  more"


def compiling(job: RecordedJob, name: str, seconds: float, reason: str = REASON) -> None:
    began = job.now
    with job.call(name):
        job.python(f"/x/torch/_dynamo/convert_frame.py(1): _compile;{FORWARD}", ms(seconds * 1e3))
    compiler = job.documents.setdefault(
        "compiles.json", {"count": 0, "functions": 1, "compiles": []}
    )
    compiler["count"] += 1
    again = name == AGAIN
    compiler["compiles"].append(
        {"file": MODEL, "line": 7, "function": "forward", "turn": compiler["count"],
         "began": began, "seconds": seconds, "reason": reason if again else None, "failed": None}
    )  # fmt: skip


def train(
    compiles: dict[int, str], *, steps: int = 30, seconds: float = 0.4, reason: str = REASON
) -> RecordedJob:
    job = RecordedJob()
    for step in range(steps):
        if step in compiles:
            compiling(job, compiles[step], seconds, reason)
        job.work(CODE + FORWARD, ms(20))
        job.backward(BACKWARD, ms(20))
        job.step(LOOP, ms(5))
    return job


def storm(steps: set[int], first: int | None = 0) -> dict[int, str]:
    return dict.fromkeys(sorted(steps), AGAIN) | ({first: FIRST} if first is not None else {})


@pytest.mark.parametrize("steps", [{3, 9, 15, 21}, {1, 2, 3, 4, 5, 6, 7}])
def test_the_storm_s_prediction_covers_the_twin(steps):
    sick, healthy = train(storm(steps)), train({0: FIRST})
    proof = judge("recompilation-storm", sick)
    assert proof
    assert f"in {len(steps)} of" in proof.headline
    (place,) = proof.where
    assert (place.file, place.line) == (MODEL, 7)
    assert proof.evidence[0].value.endswith("expected 32, actual 36")
    if 1 not in steps:
        assert covers(proof, twin_speedup(sick, healthy), slack=0.05)
    assert judge("recompilation-storm", healthy) is None


def test_a_storm_from_the_first_step_on_is_no_warm_up():
    job = train(storm({1, 2, 3, 4, 5, 6, 7}))
    assert Facts(job.timeline()).cold_start
    warm = judge("compile-autotune-warmup", job)
    found = judge("recompilation-storm", job)
    assert warm
    assert found
    assert found.high > 3 * warm.high
    assert warm.high + found.high <= 1


def test_one_more_for_evaluation_and_one_for_the_last_batch_are_no_storm():
    job = RecordedJob()
    reasons = {5: "grad_mode changed", 9: REASON, 14: "L['self'].training == True", 20: REASON}
    for step in range(30):
        if not step:
            compiling(job, FIRST, 0.2)
        if step in reasons:
            compiling(job, AGAIN, 0.2, reasons[step])
        job.work(CODE + FORWARD, ms(20))
        job.step(LOOP, ms(5))
    assert judge("recompilation-storm", job) is None


@pytest.mark.parametrize("again", [{5}, set()])
def test_one_odd_batch_is_no_storm(again):
    assert judge("recompilation-storm", train(storm(again))) is None


def test_a_long_first_compilation_is_warm_up_with_its_place():
    job = train({0: FIRST}, steps=10, seconds=2.0)
    proof = judge("compile-autotune-warmup", job)
    assert proof
    assert proof.where[0].line == 7
    assert judge("recompilation-storm", job) is None


def test_compiled_code_is_work_even_where_it_holds_the_lock():
    job = RecordedJob()
    for _ in range(20):
        job.python(CODE + FORWARD, ms(20))
        job.backward(BACKWARD, ms(20))
        job.step(LOOP, ms(5))
    facts = Facts(job.timeline())
    assert facts.bucket_share("compute") > 0.99
    assert judge("python-overhead-in-step", job) is None
