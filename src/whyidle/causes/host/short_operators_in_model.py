"""The model handles its samples or elements one after the other."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.model_loops import find_model_loop, find_rollout
from whyidle.causes.host._loop_proof import prove_loop
from whyidle.model.cause import Proof, cause
from whyidle.model.roles import Role


@cause(
    "The model calls many short operators one after the other",
    bucket="compute",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def short_operators_in_model(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``forward`` or the loss loops over samples, words or elements, and calls operators on each: a
    table is looked up per word, attention is computed per row.

    Why it costs
    ------------
    An operator and its gradient cost tens of microseconds of dispatch, however little they compute.
    A loop over 300 words makes thousands of them, forward and backward.

    How it is detected
    ------------------
    On a watched job on the CPU, stack samples show the lines of model and loss. The stored source
    shows which of them lie in a loop, or in a function called from one, whose turns do not need
    each other's results. At a third or more of the samples there the interpreter is at work: the
    operators are short. The gain is the time at these lines and
    their part of the recorded backward pass, by forward time.

    What looks alike
    ----------------
    A loop over layers calls a different module each time. A recurrence needs the result of the turn
    before; use the framework's fused module for it. A loop of few, large operators is not slow
    because it is a loop.

    What to do
    ----------
    Turn strings into padded numbers before training, in the dataset or once for all. Call the model
    on whole padded tensors, with a mask.

    References
    ----------
    PyTorch, Performance Tuning Guide; "torch.nn.utils.rnn.pad_sequence"; functorch, "vmap".
    """
    called = facts.on_cpu and len(facts.rows_of(Role.BACKWARD))  # else a compiler has the gradient
    loop = find_model_loop(facts) if called and find_rollout(facts) is None else None
    if loop is None:
        return None
    return prove_loop(
        facts, loop, "The model works through a loop{at} one element at a time: {time} of each step"
    )
