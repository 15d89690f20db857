"""Callbacks take time after every batch."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.sampled_lines import lines_with_share
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.roles import Role

LEFT = (0.3, 0.01, 0.0)
"""part that stays if callbacks work at every hundredth batch, as advised, or once per epoch;
careful: what they need of every batch stays"""


@cause(
    "Callbacks take time after every batch",
    bucket="interruption",
    needs=("device_time", "own_settings", "steady_steps"),
)
def callback_overhead(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Callbacks of Keras work in ``on_train_batch_begin`` or ``on_train_batch_end``: they write files,
    read numbers from the device, or plot.

    Why it costs
    ------------
    The next step begins when all callbacks have returned. A callback that overrides one of these
    methods without ``async_safe = True`` also makes every batch wait for its numbers.

    How it is detected
    ------------------
    A watched process records the calls of the list of callbacks that take more than 50 us; stack
    samples show the lines. Checkpoints and evaluations inside do not count, nor does time in which
    the device works while a callback waits for its numbers. The gain is this time
    without the hundredth that stays when callbacks work at every hundredth batch.

    What looks alike
    ----------------
    ``ModelCheckpoint(save_freq=...)`` is ``sync-checkpoint``; validation is ``heavy-evaluation``.

    What to do
    ----------
    Work at every hundredth batch, or in ``on_epoch_end``; ``TensorBoard(update_freq=100)`` instead
    of ``update_freq=1``, without histograms; buffer what is written.

    References
    ----------
    Keras, "Callback API"; tensorflow/tensorflow#37876; keras-team/keras#19953.
    """
    host, rows = facts.timeline.host, facts.rows_of(Role.CALLBACK)
    windows = union_of(host.start[rows], host.end[rows]) & facts.time_of("callback")
    lost, calls = facts.share_of(windows), len(rows) / facts.step_count
    if lost < LEAST_SHARE:
        return None
    low, expected, high = ((1.0 - left) * lost for left in LEFT)
    return Proof(
        headline=f"Callbacks take {format_duration(lost * facts.step_s)} of every step",
        low=low,
        high=lost,
        predicted=from_gains((low, expected, high), "P9: callbacks at every hundredth batch"),
        evidence=(
            make_evidence("time in callbacks, share of step", lost, "ratio", samples=len(rows)),
            make_evidence("calls per step that take over 50 us", calls, None),
        ),
        confidence=0.9,
        where=tuple(place for place, _ in lines_with_share(facts, windows))[:MOST_PLACES],
    )
