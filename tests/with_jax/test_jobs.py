"""Jobs of JAX: their steps, what they compile and read, and that they compute the same."""

import json

import pytest
from jax_jobs import BREAK, LOOP, TRAIN

from whyidle.model.roles import Role

USES = """
import copy, functools, inspect, pickle, weakref
import jax, jax.numpy as jnp
import jax._src.api

@jax.jit
def f(x):
    "doc"
    return x * 2.0

class Model:
    @jax.jit
    def double(x):
        return x * 2
    @functools.partial(jax.jit, static_argnums=0)
    def scale(self, x):
        return x * 3

x = jnp.ones(3)
native = type(jax._src.api.jit(lambda x: x))
assert isinstance(f, jax.stages.Wrapped) and isinstance(f, native)
assert float(f(x).sum()) == 6 and f.__name__ == "f" and f.__doc__ == "doc"
assert float(Model().scale(x).sum()) == 9 and float(Model.double(x).sum()) == 6
assert float(functools.partial(f, x)().sum()) == 6
assert float(jax.grad(lambda x: f(x).sum())(x).sum()) == 6
assert jax.vmap(f)(jnp.ones((2, 3))).shape == (2, 3)
assert jax.lax.scan(lambda c, x: (f(c), x), 1.0, x)[0] == 8
assert float(f.lower(x).compile()(x).sum()) == 6
assert f.trace(x).jaxpr is not None if hasattr(f, "trace") else True
assert f.eval_shape(x).shape == jax.eval_shape(f, x).shape == (3,)
assert "mul" in str(jax.make_jaxpr(f)(x))
assert float(jax.jit(f)(x).sum()) == 6
assert float(jax.checkpoint(f)(x).sum()) == 6
assert float(jax.vjp(f, x)[1](x)[0].sum()) == 6
assert float(jax.jvp(f, (x,), (x,))[1].sum()) == 6
assert weakref.ref(f)() is f and len({f, f}) == 1 and f == f
assert list(inspect.signature(f).parameters) == ["x"] and inspect.unwrap(f)(2) == 4
assert float(jax.jit(lambda x, s: x * s, static_argnames="s")(x, s=2).sum()) == 6
assert repr(f).startswith("<PjitFunction"), repr(f)
assert f.clear_cache() is None and f._cache_size() == 0
assert float(copy.copy(f)(x).sum()) == 6
assert float(jax.tree.map(f, [x])[0].sum()) == 6
f.note = 1
assert f.note == 1 and float(jax.pmap(f)(x[None]).sum()) == 6
try:
    assert float(jax.jit(static_argnums=1)(lambda x, s: x * s)(x, 2).sum()) == 6
except TypeError as error:  # of JAX before 0.8
    assert "fun" in str(error)
try:
    f(object())
except TypeError as error:
    trace = error.__traceback__
print("all")
"""
FAULTS = (
    "frameworks.jax.compiled_calls:JittedFunction._watch_lowered",
    "frameworks.jax.compiled_calls:CompiledCalls.ask_device",
    "frameworks.jax.compiled_calls:CompiledCalls.end_step",
    "frameworks.jax.compiled_calls:CompiledCalls.end_other",
    "frameworks.jax.compiled_calls:CompiledCalls.watch",
    "frameworks.jax.compiled_calls:CompiledCalls.mark_gradient",
    "frameworks.jax.compilation:Compilations._note_stage",
    "frameworks.jax.compilation:Compilations._record_call",
    "frameworks.jax.compilation:Compilations.note_reason",
    "core.host_reads:HostReads._record_wait",
)
LENGTHS = """
train_step.lower(w, state, x)
for i in range(6):
    w, state, loss = train_step(w, state, x[: 8 - i])
    float(loss)
big = jnp.ones((200, 200))
for _ in range(3):
    big = jax.jit(lambda a: a @ a / 200)(big)
"""


def test_uses_of_compiled_functions_work_as_before(run_job):
    job = run_job(USES)
    assert job.out == "all\n"
    assert job.faults == ""


def test_the_compiled_function_with_a_gradient_is_the_step(run_job):
    alone = run_job(TRAIN + LOOP, watched=False)
    job = run_job(TRAIN + LOOP)
    assert job.out == alone.out
    assert job.faults == ""
    assert job.names(Role.OPTIMIZER) == ["jit(train_step)"] * 30
    assert job.names(Role.EXECUTION) == ["jit(train_step)"] * 30
    facts = job.timeline.process
    assert (facts.framework, facts.device) == ("jax", "cpu")
    assert job.timeline.framework == "jax"


def test_the_argument_that_changed_is_the_reason_to_compile_again(run_job):
    job = run_job(TRAIN + LENGTHS)
    compiles = job.timeline.process.compile.compiles
    again = [one for one in compiles if one.turn > 1 and one.function == "train_step"]
    assert [one.turn for one in again] == [2, 3, 4, 5, 6]
    assert "f32[7,64]" in again[0].reason
    assert "f32[8,64]" in again[0].reason
    assert again[0].file.endswith("train.py")
    assert len(job.names(Role.RECOMPILE)) >= 5


def test_a_function_that_is_defined_in_the_loop_stays_one_step(run_job):
    loop = "\n".join(f"    {line}" for line in TRAIN.partition("@jax.jit")[2].splitlines())
    before = TRAIN.partition("@jax.jit")[0]
    call = "\n    w, state, loss = train_step(w, state, x)"
    job = run_job(f"{before}for i in range(5):\n    @jax.jit{loop}{call}")
    assert job.names(Role.OPTIMIZER) == ["jit(train_step)"] * 5
    compiles = job.timeline.process.compile.compiles
    reasons = [one.reason for one in compiles if one.function == "train_step" and one.turn > 1]
    assert all("another function defined on the same line" in reason for reason in reasons)
    assert len(reasons) == 4


AHEAD = """
fast = train_step.lower(w, state, x).compile()
assert isinstance(fast, jax.stages.Compiled) and "HloModule" in fast.as_text()
"""


def test_a_function_that_is_compiled_ahead_of_time_is_the_step(run_job):
    script = TRAIN + AHEAD + LOOP.replace("train_step(", "fast(")
    job = run_job(script)
    assert job.out == run_job(script, watched=False).out
    assert job.names(Role.OPTIMIZER) == ["jit(train_step)"] * 30
    assert job.faults == ""


SAVES = """
import io
for i in range(4):
    w, state, loss = train_step(w, state, x)
    np.savez(io.BytesIO(), w=w)
print(float(loss))
"""


def test_saves_are_recorded_whatever_they_wait_for(run_job):
    job = run_job(TRAIN + SAVES)
    assert job.names(Role.CHECKPOINT) == ["numpy.savez"] * 4
    assert job.faults == ""


def test_an_unjitted_loop_has_steps_too(run_job):
    job = run_job(TRAIN.replace("@jax.jit", "") + LOOP)
    assert job.names(Role.OPTIMIZER) == ["optax.apply_updates"] * 30
    assert job.faults == ""


def test_an_update_outside_the_compiled_gradient_is_no_step_of_its_own(run_job):
    split = LOOP.replace(
        "w, state, loss = train_step(w, state, x)",
        "loss, grads = grad(w, x); updates, state = tx.update(grads, state); "
        "w = optax.apply_updates(w, updates)",
    )
    job = run_job(TRAIN + "grad = jax.jit(jax.value_and_grad(loss_fn))" + split)
    assert job.names(Role.OPTIMIZER) == ["jit(loss_fn)"] * 30
    assert job.faults == ""


def test_steps_without_compilation_do_not_run_beside_the_host(run_job):
    job = run_job(TRAIN + LOOP, JAX_DISABLE_JIT="1")
    assert job.names(Role.OPTIMIZER) == ["jit(train_step)"] * 30
    assert job.names(Role.EXECUTION) == []
    assert job.timeline.process.switches.seen["jax_disable_jit"] > 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_hook_never_reaches_the_job(run_job, fault):
    alone = run_job(TRAIN + LENGTHS + LOOP, watched=False)
    broken = BREAK.format(package="jax", fault=fault)
    job = run_job(broken + TRAIN + LENGTHS + LOOP)
    assert job.out == alone.out
    assert "injected" in job.faults


@pytest.mark.parametrize(
    ("fault", "script"),
    [
        ("core.span_hooks:mark_place", TRAIN + SAVES),
        ("core.events:Events.add_span", TRAIN + SAVES),
        ("core.events:Events.other_stepped", TRAIN.replace("@jax.jit", "") + LOOP),
    ],
)
def test_a_fault_where_a_job_saves_never_reaches_it(run_job, fault, script):
    alone = run_job(script, watched=False)
    job = run_job(BREAK.format(package="jax", fault=fault) + script)
    assert job.out == alone.out
    assert "injected" in job.faults


ONE_ELEMENT = """
step = jax.jit(lambda b, x: jax.value_and_grad(lambda b: (b ** 2).sum() + 1.0)(b))
b = jnp.full(1, 0.5)
for i in range(30):
    loss, grads = step(b, x)
    b = b - 0.1 * grads
"""


def test_in_a_trial_the_loss_is_the_output_without_dimensions(run_job):
    """The gradient of a parameter of one element stands behind it."""
    job = run_job(TRAIN + ONE_ELEMENT, WHYIDLE_TRIAL=json.dumps({"seconds": 60.0}))
    (path,) = job.folder.glob("*.trial.json")
    losses = [float.fromhex(one) for one in json.loads(path.read_text())["losses"]]
    assert not job.faults
    assert losses[:2] == pytest.approx([1.25, 1.16])


WITHOUT_LOSS = """
step = jax.jit(lambda b, x: b - 0.1 * jax.grad(lambda b: ((x @ b) ** 2).mean())(b))
b = jnp.ones(4)
for i in range(30):
    b = step(b, jnp.full((2, 4), float(i % 10)))
"""


def test_in_a_trial_the_batches_of_steps_without_a_loss_are_hashed(run_job):
    job = run_job("import jax, jax.numpy as jnp" + WITHOUT_LOSS, WHYIDLE_TRIAL='{"seconds": 60.0}')
    (path,) = job.folder.glob("*.trial.json")
    told = json.loads(path.read_text())
    assert (job.faults, told["losses"], len(told["batches"])) == ("", [], 30)
    assert told["batches"][1:10] == told["batches"][11:20]  # not the parameters, which change
    assert len(set(told["batches"][:10])) == 10


def test_the_collector_freezes_after_steps_of_a_compiled_function(run_job, tmp_path):
    plan = tmp_path / "plan.json"
    edits = {"gc.freeze": True, "gc.collect_interval_steps": 50}
    plan.write_text(json.dumps({"edits": edits, "was": {}}))
    told = "import gc\nprint(gc.get_freeze_count() > 0, gc.isenabled())\n"
    job = run_job(TRAIN + LOOP + told, WHYIDLE_PLAN=str(plan))
    assert job.out.split()[-2:] == ["True", "False"]
    assert job.knobs["applied"] == dict.fromkeys(edits, 1)
    assert not job.faults
