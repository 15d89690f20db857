"""A loop handles samples or elements one after the other, in the model or beside it."""

from __future__ import annotations

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.operator_loops import find_operator_loop, find_rollout
from whyidle.causes.host._loop_proof import prove_loop
from whyidle.model.cause import Proof, cause
from whyidle.model.roles import Role


@cause(
    "A loop calls many short operators one after the other",
    bucket="compute",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def short_operators_in_model(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``forward``, the loss or what prepares it loops over samples, words or elements, and calls
    operators on each: a table is looked up per word, targets are assigned per box, triplets are
    mined per anchor.

    Why it costs
    ------------
    An operator and its gradient cost tens of microseconds of dispatch, however little they compute.
    A loop over 300 words makes thousands of them, in the model forward and backward.

    How it is detected
    ------------------
    On a watched job on the CPU, stack samples show the time at each line. The stored source shows
    which lines lie in a loop, or in a function called from one, whose iterations do not need each
    other's results. Samples there may find the interpreter at work a third of the time or more, or
    a step has so many graph nodes that each takes no longer than its dispatch: the operators are
    short. Outside of model and loss, a tenth of them or more must find its lock free, as operators
    leave it: a loop that only runs Python has no call on whole tensors.
    The gain is the time at these lines and, of lines in model and loss, their part of the recorded
    backward pass, by forward time.

    What looks alike
    ----------------
    A loop over layers calls a different module each time. A recurrence needs the result of the turn
    before; use the framework's fused module for it. A loop of few, large operators is not slow
    because it is a loop.

    What to do
    ----------
    Replace the loop by operators on whole tensors: broadcasting over a new dimension, ``gather``
    and ``scatter_reduce``, or ``torch.vmap``; for elements of unequal length on padded tensors with
    a mask. Turn strings into numbers before training, in the dataset or once for all.

    References
    ----------
    PyTorch, Performance Tuning Guide; "torch.nn.utils.rnn.pad_sequence"; functorch, "vmap".
    """
    called = facts.on_cpu and len(facts.rows_of(Role.BACKWARD))  # else a compiler has the gradient
    loop = find_operator_loop(facts) if called and find_rollout(facts) is None else None
    if loop is None:
        return None
    return prove_loop(
        facts, loop, "A loop{at} calls operators on one element at a time: {time} of each step"
    )
