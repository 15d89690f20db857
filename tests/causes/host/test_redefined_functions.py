"""Functions of JAX that are defined anew in every step."""

import pytest

from cured_twins import judge
from whyidle import catalog
from whyidle.model.timeline import HostKind
from whyidle.testing.recorded_job import RecordedJob

MS = 1_000_000
ANEW = "but seen another function defined on the same line; maybe the function is"
LENGTH = "at x, now f32[7,4] and before f32[8,4]"


def train(reason, clean=(), **kind):
    """Steps of 55 ms that compile, and some that do not: those also take 8 ms."""
    job = RecordedJob(**kind or {"framework": "jax", "version": "0.10", "compiled": True})
    compiles = []
    for turn in range(1, 21):
        with (
            job.call("optimizer\tjit(step)"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            if turn in clean:
                job.work("/job/train.py(9): <module>", 8 * MS)
                continue
            again = " again" if turn > 1 else ""
            role = "recompile" if turn > 1 else "compile"
            began = job.now
            with job.call(f"{role}\twhyidle::compile{again}#/job/train.py(4): step"):
                job.python("/job/train.py(9): <module>", 50 * MS)
            job.work("/job/train.py(9): <module>", 5 * MS)
        compiles.append(
            {"file": "/job/train.py", "line": 4, "function": "step", "turn": turn, "began": began,
             "seconds": 0.05, "reason": reason if turn > 1 else None}
        )  # fmt: skip
    job.documents["compiles.json"] = {"functions": 1, "compiles": compiles}
    return job


def advised(reason):
    proof = judge("recompilation-storm", train(reason))
    assert proof is not None
    fixes = catalog.load_fixes()
    names = ("compile-once", "cached-executables", "bucket-lengths")
    return [name for name in names if fixes[name].decide(proof) is not None]


def test_a_function_that_is_defined_in_the_loop_is_to_be_compiled_once():
    assert advised(ANEW) == ["compile-once", "cached-executables"]


def test_other_lengths_are_to_be_padded():
    assert advised(LENGTH) == ["bucket-lengths"]


NUMBER = "lr: the Python value 0.2, was 0.1"
STATIC = (
    "at input path [0][0], now <class 'jax._src.tree_util.Static'> with pytree metadata "
    "Static(val=GradientTransformationExtraArgs(init=<function init_fn at 0x7efcc7394d60>"
)


def test_a_static_argument_that_is_new_each_time_is_to_be_made_once():
    assert advised(STATIC) == ["compile-once", "cached-executables"]
    plan = catalog.load_fixes()["compile-once"].decide(judge("recompilation-storm", train(STATIC)))
    assert "static argument" in plan.summary


@pytest.mark.parametrize("value", ["0.1", "3", "-1e-05"])
def test_a_static_number_is_to_be_passed_as_an_array(value):
    """Its values are new, so neither a folder of compiled code nor padding helps."""
    reason = (
        "at input path [0][1], now <class 'jax._src.tree_util.Static'> with pytree metadata "
        f"Static(val={value}) and before <class 'jax._src.tree_util.Static'>"
    )
    assert advised(reason) == ["compile-once"]
    plan = catalog.load_fixes()["compile-once"].decide(judge("recompilation-storm", train(reason)))
    assert "jnp.asarray" in plan.summary


@pytest.mark.parametrize(
    ("reason", "value"),
    [
        ("rate: the Python value 0.01 after the Python value 0.02", True),
        ("0/1: L['rate'] == 0.02", True),
        ("0/1: L['length'] == 20", False),
        ("x: float32[7, 4] after float32[8, 4]", False),
    ],
)
def test_the_advice_fits_the_reason(reason, value):
    proof = judge("recompilation-storm", train(reason))
    fixes = catalog.load_fixes()
    plan = fixes["reduce-retracing"].decide(proof)
    assert advised(reason) == ([] if value else ["bucket-lengths"])
    assert (plan is not None and "not as a Python number" in plan.summary) == value


def test_the_line_that_compiles_is_named_before_the_function():
    assert [place.line for place in judge("recompilation-storm", train(ANEW)).where] == [9, 4]
    assert judge("recompilation-storm", train(LENGTH)).where[0].line == 4


def test_without_steps_that_compile_nothing_half_of_the_rest_may_go_too():
    predicted = judge("recompilation-storm", train(ANEW)).predicted
    assert predicted.speedup == pytest.approx(11, rel=0.1)
    assert predicted.low > 5
    assert predicted.high == pytest.approx(2 * predicted.speedup, rel=0.01)
    padded = judge("recompilation-storm", train(LENGTH)).predicted
    assert padded.low < padded.speedup < predicted.speedup


def test_steps_that_compile_nothing_show_what_remains():
    predicted = judge(
        "recompilation-storm", train(NUMBER, (9, 15), framework="tensorflow")
    ).predicted
    assert predicted.speedup == pytest.approx((17 * 55 + 2 * 8) / 19 / 8, rel=0.1)
    assert predicted.low > 5


@pytest.mark.parametrize(("every", "found"), [(100, False), (1, True)])
def test_operators_compiled_between_two_calls_are_of_one_step(every, found):
    """Steps run beside the host, which evaluates once: other shapes compile operators."""
    job = RecordedJob(framework="jax", version="0.10", compiled=True)
    compiles, begun = [], job.now
    for step in range(20):
        with (
            job.call("optimizer\tjit(step)"),
            job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
        ):
            job.work("/job/train.py(9): <module>", 1 * MS)
        for turn in range(1, 7) if step == 10 or (step > 10 and step % every == 0) else ():
            role = "recompile" if turn > 1 else "compile"
            with job.call(f"{role}\twhyidle::compile{' again' * (turn > 1)}#(0): jit(add)"):
                compiles.append(
                    {"file": "", "line": 0, "function": "jit(add)", "turn": turn,
                     "began": job.now, "seconds": 0.05, "reason": None}
                )  # fmt: skip
                job.python("/job/train.py(12): <module>", 50 * MS)
    each = (job.now - begun) // 20
    for step in range(20):
        span = (begun + step * each, begun + (step + 1) * each)
        job.spans.append((*span, "execution\tjit(step)", HostKind.OP))
    job.documents["compiles.json"] = {"functions": 1, "compiles": compiles}
    assert (judge("recompilation-storm", job) is not None) == found
