"""A policy computes one action at a time."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.operator_loops import find_rollout
from whyidle.causes.host._loop_proof import prove_loop
from whyidle.model.cause import Proof, cause


@cause(
    "The policy is called with a single observation",
    bucket="compute",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def single_sample_policy(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Reinforcement learning plays an episode step by step: the policy gets one observation, returns
    one action, and the environment answers. The loss is often computed step by step, too.

    Why it costs
    ------------
    A small network takes as long for one observation as for a hundred: all of its time is the
    dispatch of operators and their gradients.

    How it is detected
    ------------------
    In a watched job on the CPU, the stored source shows a loop that unpacks the result of
    ``env.step(action)`` (observation, reward, end and more) and updates nothing in its iterations.
    Stack samples show the time of the model in this loop and of loops over its results. The
    interpreter is at work in at least a third of them. The gain is this time and its part of the
    backward pass, as for ``short-operators-in-model``. The environment's own time does not count.

    What looks alike
    ----------------
    Several environments that step together (``envs.step``) are a batch. If the environment takes
    most of the step, a faster policy gains little.

    What to do
    ----------
    Step many environments together, and call the policy on the batch of their observations. Or play
    without gradients, keep observations and actions, and compute the loss of all steps at once.

    References
    ----------
    PyTorch examples, reinforcement_learning/actor_critic.py; Gymnasium, "Vectorizing your
    environment".
    """
    rollout = find_rollout(facts) if facts.on_cpu else None
    if rollout is None:
        return None
    return prove_loop(
        facts, rollout, "The policy is asked for one action at a time{at}: {time} of each step"
    )
