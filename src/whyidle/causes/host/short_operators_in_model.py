"""A loop handles samples or elements one by one, in the model or outside it."""

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
    -------------
    ``forward``, the loss or code that prepares it loops over samples, words or elements and calls
    operators on each: a table is indexed per word, targets are assigned per box.

    Why it costs
    ------------
    Dispatching an operator and its gradient takes tens of microseconds, however little they
    compute. A loop over 300 words calls thousands of them.

    How it is detected
    ------------------
    In a watched job on the CPU, stack samples show the time at each line. The stored source shows
    which lines are in a loop, or in a function called from one, whose iterations do not need each
    other's results. Operators are short if the interpreter is at work in a third of the samples
    there, or if the step takes at most 50 us per graph node. Outside model and loss, at least 10 %
    of the samples must find the interpreter's lock free, as operators leave it: tensor operators
    cannot replace plain Python. The gain is the time at these lines. Lines in model and loss add
    their part of the backward pass, in proportion to forward time.

    What looks alike
    ----------------
    A loop over layers calls a different module each time. A recurrence needs the previous result.
    If only the states of ``LSTMCell``, ``GRUCell`` or ``RNNCell`` pass from one turn to the next,
    one layer computes the same; where an output, a mask or attention does, none is proposed. A loop
    of a few large operators is not slow.

    What to do
    ----------
    Replace the loop by operators on whole tensors: broadcasting over a new dimension, ``gather``
    and ``scatter_reduce``, or ``torch.vmap``. Call ``nn.LSTM`` once on the whole sequence. For
    elements of unequal length, pad and mask. Turn strings into numbers in the dataset or before
    training.

    References
    ----------
    PyTorch, Performance Tuning Guide; "torch.nn.utils.rnn.pad_sequence"; functorch, "vmap".
    """
    called = facts.on_cpu and len(facts.rows_of(Role.BACKWARD))  # else a compiler has the gradient
    loop = find_operator_loop(facts) if called and find_rollout(facts) is None else None
    if loop is None:
        return None
    what = "operators on one element at a time"
    if loop.layer:
        what = f"{loop.layer}Cell for one time step after the other"
    return prove_loop(facts, loop, f"A loop{{at}} calls {what}: {{time}} of each step")
