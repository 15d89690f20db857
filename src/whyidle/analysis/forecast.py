"""What removing a cost is worth: predictors named as in the catalogue of causes (P3 to P9).

Every predictor returns a ``Predicted`` speed-up of the step with an interval. ``lost`` arguments
are shares of the step (0-1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.step_replay import Saved, StepReplay, combine_changes, no_change
from whyidle.model.diagnosis import Predicted

F64 = NDArray[np.float64]

LEAST_LEFT = 0.01
"""no prediction promises more than a hundredfold step"""


def predict_removal(
    low: float, high: float, method: str, expected: float | None = None
) -> Predicted:
    """The step without a share of it: ``T^ = T - lost`` for the careful, expected and hopeful
    end. ``expected`` defaults to the middle."""
    middle = (low + high) / 2 if expected is None else min(max(expected, low), high)
    return Predicted(
        speedup=_to_speedup(middle), low=_to_speedup(low), high=_to_speedup(high), method=method
    )


def may_cost(low: float, high: float, method: str, expected: float) -> Predicted:
    """As ``predict_removal``, where at the careful end the step may become longer (``low`` < 0).
    That it does is never promised: then the job stays as it is."""
    told = predict_removal(low, high, method, expected)
    careful = told.low if low >= 0.0 else 1.0 / (1.0 - low)
    return Predicted(speedup=told.speedup, low=careful, high=told.high, method=method)


def from_gains(gains: tuple[float, float, float], method: str) -> Predicted:
    """From the share of the step won (0-1): careful, expected, hopeful."""
    low, expected, high = sorted(gains)
    return predict_removal(low, high, method, expected)


def _to_speedup(lost: float) -> float:
    return float(1.0 / max(1.0 - min(max(lost, 0.0), 1.0), LEAST_LEFT))


WORKERS = (2, 8)
"""how many loader workers a job can be given, at least and at most, where the recording does not
tell its cores: the smallest hosts have two cores, common GPU nodes give eight and more to a GPU"""
STALL_ERROR = 0.04
"""what-if predictions of loader stalls were within about 4 % of measurement (DS-Analyzer, VLDB
2021)"""


def from_stalls(gains: tuple[float, float, float], method: str) -> Predicted:
    """The same for waits that P1 or P2 foretell, whose own error both ends hold."""
    low, expected, high = sorted(gains)
    low, high = 1.0 - (1.0 - low) * (1.0 + STALL_ERROR), 1.0 - (1.0 - high) * (1.0 - STALL_ERROR)
    return predict_removal(low, high, method, expected)


def hidden_loading(
    blocked: float,
    work: float,
    handoff: tuple[float, float],
    busy: float,
    *,
    workers: tuple[int, int] = WORKERS,
    floor: tuple[float, float] = (0.0, 0.0),
    usual: float | None = None,
    given: int | None = None,
    ends: float = 0.0,
) -> tuple[float, float, float]:
    """P1 without a storage model: share won when workers load while the device computes.

    Args:
        blocked: share of the step the device idles for the loader, ``W``.
        work: share of the step the training process spends loading, ``s`` >= ``W``.
        handoff: what taking each batch from a worker will cost (likely, careful), as share.
        busy: share of the step the device is busy; no loader makes the step shorter than that.
        workers: how many can work at once (careful, hopeful).
        floor: the step that the cores need for all the work, as share (hopeful, careful).
        usual: the same as expected; None: the middle.
        given: how many workers the job is to have, where the cores have room for them; None: how
            many it can have is not known, and the middle of both bounds is expected.
        ends: share of the step that these are waited for where short epochs begin and end.

    Returns:
        (careful, expected, hopeful); careful is negative where handing over and sharing cores may
        cost more than is hidden. The step cannot become shorter than ``s / workers``; at
        best the host wins all of ``s``, at worst only ``W`` less the hand-off. Expected is what the
        workers given make of it, whose waits overlap, but no less than the cores need.
    """
    few, many = workers
    hopeful = max(0.0, 1.0 - max(1.0 - work, work / many, busy, floor[0]))
    likely = max(1.0 - blocked + handoff[0], work / many)
    slow = max(1.0 - blocked + handoff[1], work / few) * (1.0 + STALL_ERROR)
    careful = 1.0 - max(slow, floor[1] * (1.0 + STALL_ERROR))
    careful = min(careful, hopeful)
    usual = sum(floor) / 2 if usual is None else usual
    told = (likely + slow) / 2 if given is None else max(1.0 - blocked + handoff[0], work / given)
    expected = 1.0 - max(told, usual, 1.0 - blocked + ends)
    return careful, min(max(expected, careful), hopeful), hopeful


def unhidden_loading(work: float, rest: float) -> float:
    """Share of the step that even many workers could not hide: ``s / n - (T - W)``."""
    return max(0.0, work / WORKERS[1] - rest)


def predict_interruptions(share: float, residual: float) -> float:
    """P9: share won when pauses of ``share`` shrink to ``residual`` (0-1) of themselves."""
    return share * (1.0 - residual)


def predict_after(predicted_lost: float, other_lost: float) -> float:
    """What a second fix of ``other_lost`` is worth once the first has been applied, as share of
    the shortened step."""
    return other_lost / max(1.0 - predicted_lost, LEAST_LEFT)


def predict_substitution(
    replay: StepReplay,
    factors: tuple[F64, F64, F64],
    method: str,
    *,
    unrecorded: Saved = no_change,
    timed: bool = False,
    besides: tuple[Saved, Saved, Saved] = (no_change, no_change, no_change),
) -> tuple[float, float, Predicted]:
    """P5: device events that take other times, replayed against the recorded launches.

    Args:
        replay: the steps in scope.
        factors: time per recorded time of every device event: careful, expected, hopeful.
        method: said in the prediction.
        unrecorded: host time that only the recording cost. Without it the host launches earlier,
            which is the hopeful end; both steps are compared without it.
        timed: that cost was measured and not estimated, so that it is expected, too.
        besides: host time that passes no longer, or comes on top: the same three.

    Returns:
        The share of the step saved, careful and hopeful, and the predicted speed-up, whose careful
        end is below 1 where what comes on top may be more than what is saved.
    """
    now, free = replay.base_ns, replay.replayed_length(unrecorded)
    recorded, alone = (
        [
            1.0 - replay.replayed_length(combine_changes(saved, host), factor=factor) / length
            for factor, host in zip(factors, besides, strict=True)
        ]
        for saved, length in ((no_change, now), (unrecorded, free))
    )
    careful = min(recorded[0], alone[0])
    low = max(0.0, careful)
    middle = max(low, (alone if timed else recorded)[1])
    high = max(middle, recorded[2], alone[2])
    return low, high, may_cost(careful, high, method, middle)


def no_faster(
    low: float, high: float, predicted: Predicted, floor: float
) -> tuple[float, float, Predicted]:
    """The same where the step cannot become shorter than a share of it; it may at the hopeful end,
    as that share is not known well."""
    most = max(0.0, 1.0 - floor)
    expected, careful = (min(1.0 - 1.0 / end, most) for end in (predicted.speedup, predicted.low))
    return min(low, most), high, may_cost(careful, high, predicted.method, expected)
