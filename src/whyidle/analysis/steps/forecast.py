"""What removing a cost is worth: predictors P3 to P9 of the catalogue of causes. Each returns a
``Predicted`` speed-up of the step with an interval; ``lost`` arguments are shares of the step
(0-1)."""

from __future__ import annotations

from whyidle.analysis.arrays import F64
from whyidle.analysis.steps.step_replay import Saved, StepReplay, combine_changes, no_change
from whyidle.model.diagnosis import Predicted

LEAST_LEFT = 0.01
"""no prediction promises more than a hundredfold step"""


def predict_removal(
    low: float, high: float, method: str, expected: float | None = None
) -> Predicted:
    """Predict the step without a share of it, ``T^ = T - lost``, with both bounds."""
    middle = (low + high) / 2 if expected is None else min(max(expected, low), high)
    return Predicted(
        speedup=_to_speedup(middle), low=_to_speedup(low), high=_to_speedup(high), method=method
    )


def predict_risk(low: float, high: float, method: str, expected: float) -> Predicted:
    """Predict as ``predict_removal``, with a longer step possible as lower bound (``low`` < 0).
    Such a fix is not applied, so the expected speed-up excludes it."""
    removal = predict_removal(low, high, method, expected)
    careful = removal.low if low >= 0.0 else 1.0 / (1.0 - low)
    return Predicted(speedup=removal.speedup, low=careful, high=removal.high, method=method)


def from_gains(gains: tuple[float, float, float], method: str) -> Predicted:
    """Predict from the share of the step won (0-1): lower bound, expected, upper bound."""
    low, expected, high = sorted(gains)
    return predict_removal(low, high, method, expected)


def _to_speedup(lost: float) -> float:
    return float(1.0 / max(1.0 - min(max(lost, 0.0), 1.0), LEAST_LEFT))


WORKERS = (2, 8)
"""fewest and most loader workers for a job whose cores are unknown: the smallest hosts have two
cores, common GPU nodes eight and more per GPU"""
STALL_ERROR = 0.04
"""what-if predictions of loader stalls were within about 4 % (DS-Analyzer, VLDB 2021)"""


def predict_stalls(gains: tuple[float, float, float], method: str) -> Predicted:
    """Predict from gains of P1 or P2, whose own error widens both ends."""
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
    """P1 without a storage model: return the share won when workers load while the device computes:
    lower bound, expected, upper bound.

    At best the host wins all of its loading ``work``, at worst the time ``blocked`` less the
    ``handoff`` of batches (expected, at most), which with shared cores may be negative. Expected is
    the result of the ``given`` workers (None: unknown, the middle), at least what the cores need:
    ``floor`` (at best, at worst) and ``usual``. As many ``workers`` can work at once (lower bound,
    upper bound). No loader makes the step shorter than the device is ``busy``; ``ends`` is the wait
    for workers where short epochs begin and end. All are shares of the step.
    """
    fewest, most = workers
    hopeful = max(0.0, 1.0 - max(1.0 - work, work / most, busy, floor[0]))
    likely = max(1.0 - blocked + handoff[0], work / most)
    slow = max(1.0 - blocked + handoff[1], work / fewest) * (1.0 + STALL_ERROR)
    careful = 1.0 - max(slow, floor[1] * (1.0 + STALL_ERROR))
    careful = min(careful, hopeful)
    usual = sum(floor) / 2 if usual is None else usual
    loaded = (likely + slow) / 2 if given is None else max(1.0 - blocked + handoff[0], work / given)
    expected = 1.0 - max(loaded, usual, 1.0 - blocked + ends)
    return careful, min(max(expected, careful), hopeful), hopeful


def predict_interruptions(share: float, residual: float) -> float:
    """P9: return the share won when pauses shrink to ``residual`` (0-1) of themselves."""
    return share * (1.0 - residual)


def predict_substitution(
    replay: StepReplay,
    factors: tuple[F64, F64, F64],
    method: str,
    *,
    unrecorded: Saved = no_change,
    timed: bool = False,
    besides: tuple[Saved, Saved, Saved] = (no_change, no_change, no_change),
) -> tuple[float, float, Predicted]:
    """P5: replay device events with other durations against the recorded launches. Return the share
    of the step saved, as lower and upper bound, and the predicted speed-up, whose lower bound is
    below 1 where added time may exceed the savings.

    ``factors`` are new over recorded times of every device event, ``besides`` is host time saved or
    added, both lower bound, expected, upper bound. Without ``unrecorded``, host time that only the
    recording cost, the host launches earlier: as upper bound, and if that cost was ``timed``,
    expected, too. Both steps are compared without it.
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
    return low, high, predict_risk(careful, high, method, middle)


def limit_speedup(
    low: float, high: float, predicted: Predicted, floor: float
) -> tuple[float, float, Predicted]:
    """Limit a prediction to a shortest step, ``floor``, except for the upper bound."""
    most = max(0.0, 1.0 - floor)
    expected, careful = (min(1.0 - 1.0 / end, most) for end in (predicted.speedup, predicted.low))
    return min(low, most), high, predict_risk(careful, high, predicted.method, expected)
