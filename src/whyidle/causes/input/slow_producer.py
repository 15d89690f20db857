"""The training loop waits for a thread or process that produces its data."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import idle_cores
from whyidle.analysis.lines.sampled_lines import busiest_lines
from whyidle.analysis.lines.source_lines import at_place
from whyidle.analysis.sampling.share_error import share_bounds, share_evidence
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import NOTICEABLE, Proof, cause


@cause(
    "The training loop waits for a process or thread that it started",
    bucket="input",
    needs=("device_time", "own_settings", "steps"),
)
def slow_producer(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The job makes batches, or runs an environment, in its own processes or threads, and the training
    loop takes the results from a queue, a pipe or a pool. The producers are slower than the loop,
    or get their requests only when the result is needed.

    Why it costs
    ------------
    The loop waits until the next item arrives, however fast the device is.

    How it is detected
    ------------------
    In a watched process, stack samples show the training thread waiting in ``get``, ``recv``,
    ``result`` or similar functions of ``queue``, ``multiprocessing`` or ``concurrent.futures``. The
    report counts this wait from 3 % of the step. The upper bound is the whole wait, with its
    sampling error. The expected gain assumes producers that are twice as fast or as many (P1:
    ``max(T - W, T / 2)``). The lower bound is no gain, because the producers are not recorded.

    What looks alike
    ----------------
    DataLoader workers have causes of their own. Waits in trackers are ``blocking-logging-upload``.

    What to do
    ----------
    Request the next items before the current one is used: submitting to a pool and asking for the
    result at once only moves the wait. Start more producers, up to the number of cores. Make items
    cheaper. Send arrays or tensors in shared memory: lists are pickled element by element. Let the
    queue hold a few items. A DataLoader with workers does all of this.

    References
    ----------
    Python documentation, ``multiprocessing``: "Pipes and Queues"; Mohan et al., VLDB 2021.
    """
    waits = facts.time_of("producer")
    share = facts.share_of(waits)
    if share < NOTICEABLE:
        return None
    _, most = share_bounds(facts, waits)
    where = busiest_lines(facts, waits)
    idle = idle_cores(facts)
    gains = (0.0, min(share, 0.5), most)
    return Proof(
        headline=f"The training loop waits{at_place(where)} for a process or thread that makes "
        f"its data: {share * facts.step_s * 1e3:.3g} ms per step",
        predicted=from_gains(gains, "P1: no gain, twice as many producers, or no wait at all"),
        evidence=(
            share_evidence(facts, "waiting for a producer, share of step", share),
            *([] if idle is None else [make_evidence("idle cores", idle, None)]),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
    )
