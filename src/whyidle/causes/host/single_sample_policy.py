"""A policy is asked for one action at a time."""

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
    ----------------
    Reinforcement learning plays an episode turn by turn: the policy gets one observation and gives
    one action, and the environment answers. Losses are then made turn by turn, too.

    Why it costs
    ------------
    A small network takes as long for one observation as for a hundred: dispatching its operators
    and their gradients is all of the time.

    How it is detected
    ------------------
    On a watched job on the CPU, the stored source shows a loop that unpacks an environment's
    answer (observation, reward, end and more of ``env.step(action)``) and updates nothing in each
    turn. Stack samples show the time of the model in this loop, and of loops over what it gave; at
    a third of them or more the interpreter is at work. The gain is this time and its part of the
    backward pass, as for ``short-operators-in-model``. The environment's own time is
    not part of it.

    What looks alike
    ----------------
    Several environments that go together (``envs.step``) are a batch. If the environment takes most
    of the step, a faster policy gains little.

    What to do
    ----------
    Step as many environments together as there is room for, and call the policy on the batch of
    their observations. Or play without gradients, keep observations and actions, and compute the
    loss of all turns by one call of the model.

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
