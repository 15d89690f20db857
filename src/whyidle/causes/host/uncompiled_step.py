"""The training step is not compiled although its framework has a compiler."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.sampled_lines import own_lines
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._eager_operators import prove_eager_operators, traced_gains
from whyidle.causes.host._modes import EAGER, active_share
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.roles import Role

FRAMEWORKS = ("tensorflow", "jax")
"""frameworks whose users compile the step as one function; others call operators by design"""
COSTS = (0.1, 0.7, 0.96)
"""share of work and Python that tracing saves: small networks took 14 to 21 times as long untraced
(Keras 3.15, CPU); work in large operators stays"""


@cause(
    "The training step runs operator by operator",
    bucket="host",
    needs=("device_time", "own_settings", "steady_steps"),
    frameworks=FRAMEWORKS,
)
def uncompiled_step(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The job's own loop computes gradients and updates parameters without ``tf.function`` or
    ``jax.jit`` around the step. Python calls every operator, also in the backward pass and the
    update.

    Why it costs
    ------------
    Each call takes tens of microseconds, often longer than the operator itself. Nothing is fused.

    How it is detected
    ------------------
    Every step computes gradients outside any traced function, and no debugging mode disables
    tracing. If a burst recorded the operators, the prediction keeps their work and the cost of
    calling the traced function. Otherwise it is a typical share of the work and Python of a step.

    If a compiled JAX function computes the gradients, stack samples on the CPU show which lines of
    the job run JAX's Python beside it: an optax update outside ``jax.jit``, or augmentation of one
    picture after the other. The lower bound saves 90 % of this time, the expected gain 97 %. In a
    loop over the elements of a batch, they are 60 and 95 %. The operators' own work stays.

    What looks alike
    ----------------
    ``run_eagerly=True`` and ``tf.config.run_functions_eagerly(True)`` are ``debug-mode-left-on``. A
    step that is traced anew each time is ``recompilation-storm``.

    What to do
    ----------
    Put the step into one function: ``@tf.function def train_step(x, y)``, ``step = jax.jit(step)``.
    Create variables and optimizers outside of it.

    References
    ----------
    TensorFlow, "Better performance with tf.function"; JAX, "Just-in-time compilation".
    """
    rows = facts.rows_of(Role.BACKWARD)
    debugging = any(active_share(facts, mode) for mode in EAGER)
    if debugging:
        return None
    if len(rows) < facts.step_count:
        return prove_eager_operators(facts)
    work = facts.share_of(facts.time_of("compute", "python"))
    if work < LEAST_SHARE:
        return None
    gains = traced_gains(facts) or (COSTS[0] * work, COSTS[1] * work, COSTS[2] * work)
    place, host = facts.places.place_of(int(rows[len(rows) // 2])), facts.timeline.host
    name = "gradients taken outside a traced function, per step"
    called = union_of(host.start[rows], host.end[rows])
    return Proof(
        headline="The training step runs operator by operator, from Python, instead of as one "
        "traced function",
        predicted=from_gains(gains, "operators by a burst, or a class figure"),
        evidence=(
            make_evidence(name, len(rows) / facts.step_count, None, samples=len(rows)),
            make_evidence("work and Python, share of step", work, "ratio"),
        ),
        confidence=0.85,
        where=(place,) if place else own_lines(facts, called)[:1],
        bucket="compute" if facts.bucket_share("compute") > facts.bucket_share("host") else "host",
    )
