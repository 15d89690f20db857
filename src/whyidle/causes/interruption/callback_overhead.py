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
"""share that remains (low, expected, high gain): work that every batch needs; work at every
hundredth batch, as advised; work once per epoch"""


@cause(
    "Callbacks take time after every batch",
    bucket="interruption",
    needs=("device_time", "own_settings", "steady_steps"),
)
def callback_overhead(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Keras callbacks do work in ``on_train_batch_begin`` or ``on_train_batch_end``: they write files,
    read numbers from the device, or plot.

    Why it costs
    ------------
    The next step begins when all callbacks have returned. A callback that overrides one of these
    methods without ``async_safe = True`` also makes every batch wait for its numbers.

    How it is detected
    ------------------
    The probe records callback calls of more than 50 us; stack samples name the lines. Checkpoints,
    evaluations, and time in which the device works do not count. The rest must reach 1 % of the
    step. A hundredth of it is expected to remain, at most 30 %.

    What looks alike
    ----------------
    For ``ModelCheckpoint(save_freq=...)`` see ``sync-checkpoint``, for validation
    ``heavy-evaluation``.

    What to do
    ----------
    Do the work at every hundredth batch or in ``on_epoch_end``. Use
    ``TensorBoard(update_freq=100)`` without histograms. Buffer what is written.

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
