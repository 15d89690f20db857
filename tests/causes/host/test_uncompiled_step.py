"""A step without a traced function, in frameworks that have them."""

import pytest

from whyidle import catalog
from whyidle.model.timeline import HostKind
from whyidle.testing import contracts
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

LOOP = "/job/train.py(30): <module>"


def train(framework="tensorflow", gradients=True, **switches):
    job = RecordedJob(framework=framework, switches=switches)
    for _ in range(20):
        if gradients:
            job.backward(LOOP, ms(10))
        job.python(LOOP, ms(10))
        job.step(LOOP, ms(10))
    return job.timeline()


PAIRS = {"uncompiled-step": Pair(sick=train, healthy=lambda: train(gradients=False))}


def judge(cause, timeline):
    return contracts.run_cause(catalog.load_causes()[cause], [timeline])


def test_it_is_no_defect_where_steps_are_meant_to_run_so():
    cause = catalog.load_causes()["uncompiled-step"]
    assert not cause.applies_to("pytorch")
    assert cause.applies_to("jax")
    assert cause.applies_to(None)


@pytest.mark.parametrize("mode", ["run_eagerly", "functions_eager"])
def test_a_mode_that_is_on_is_the_cause_instead(mode):
    job = train(seen={"looks": 1, mode: 1}, **{mode: True})
    assert judge("uncompiled-step", job) is None
    proof = judge("debug-mode-left-on", job)
    assert (proof.facts.mode, proof.predicted.low > 1) == (mode, True)


def test_a_mode_that_is_off_is_none():
    assert judge("debug-mode-left-on", train(seen={"looks": 1, "run_eagerly": 0})) is None


def test_the_line_of_the_gradients_is_named():
    assert judge("uncompiled-step", train()).where[0].line == 30


def test_a_device_that_is_never_idle_loses_nothing_to_a_mode_of_the_host():
    def watch(load_ms):
        seen = {"looks": 1, "jax_check_tracer_leaks": 1}
        job = RecordedJob(framework="jax", compiled=True, cores=4.0, switches={"seen": seen})
        for _ in range(20):
            if load_ms:
                with job.call("device_idle\tdevice_idle"):
                    job.python(LOOP, ms(load_ms))
            begin = job.now
            with (
                job.call("optimizer\tjit(step)"),
                job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP),
            ):
                job.work(LOOP, ms(20))
            job.spans.append((begin, job.now, "execution\tjit(step)", HostKind.OP))
        return judge("debug-mode-left-on", job.timeline())

    assert watch(load_ms=0) is None
    assert watch(load_ms=10).predicted.speedup > 1


INSIDE = "/env/site-packages/jax/_src/numpy/ufunc_api.py(182): __call__"
UPDATE = "/job/train.py(19): update;" + LOOP


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        (f"{INSIDE};/env/site-packages/optax/_src/base.py(339): update;", True),
        (f"{INSIDE};/env/site-packages/keras/src/trainer.py(3): fit;", False),
        ("/env/site-packages/jax/_src/numpy/array_constructors.py(4): asarray;", False),
        ("", False),
    ],
)
def test_operators_beside_a_compiled_step_are_told_with_their_line(inner, found):
    job = RecordedJob(framework="jax", compiled=True, cores=4.0)
    for _ in range(30):
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tjit(train_step)"), work:
            job.work(LOOP, ms(1))
        with job.call("device_idle\tdevice_idle"):
            pass
        job.python(inner + UPDATE, ms(9))
    proof = judge("uncompiled-step", job.timeline())
    assert (proof is not None) == found
    if proof:
        assert proof.where[0].line == 19
        assert proof.predicted.low < 10.0 * 0.96 < proof.predicted.high * 1.05
        (told,) = catalog.load_fixes()["compile-step"].decide(proof).summary.splitlines()
        assert "one jax.jit around the gradient" in told


def augment_one_by_one(name="augment", *, loop="[{} for one in xs]"):
    """Each element is moved to JAX, and handled by operators of a function of the job."""
    call, step = "helper(jnp.asarray(one))", "train_step(w, batch)"
    job = RecordedJob(framework="jax", compiled=True, cores=4.0)
    made = loop.format(call)
    job.sources = {"/job/train.py": f"for xs in batches:\n    batch = {made}\n    w = {step}\n"}
    calling = "/job/train.py(2): <module>"
    for _ in range(30):
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tjit(train_step)"), work:
            job.work("/job/train.py(3): <module>", ms(2))
        with job.call("device_idle\tdevice_idle"):
            pass
        for line in (9, 10):
            job.python(f"{INSIDE};/job/helper.py({line}): {name};{calling}", ms(8))
        job.python(
            f"/env/site-packages/jax/_src/numpy/array_constructors.py(4): asarray;{calling}", ms(4)
        )
    return job.timeline()


@pytest.mark.parametrize("name", ["augment", "get_batch", "shift"])
def test_what_is_called_for_each_element_is_told_by_the_line_in_the_loop(name):
    job = augment_one_by_one(name)
    proof = judge("uncompiled-step", job)
    assert [place.function for place in proof.where] == ["<module>", name, name]
    assert proof.where[0].line == 2
    assert "for one element at a time" in proof.headline
    assert proof.predicted.low < 22 / 2 < proof.predicted.high * 1.05
    assert proof.predicted.speedup > 7
    assert "jax.vmap" in catalog.load_fixes()["compile-step"].decide(proof).summary
    assert judge("heavy-cpu-transform", job) is None


def test_operators_on_a_whole_batch_are_not_told_as_a_loop():
    proof = judge("uncompiled-step", augment_one_by_one(loop="{}"))
    assert "one element" not in proof.headline
    assert "jax.vmap" not in catalog.load_fixes()["compile-step"].decide(proof).summary
