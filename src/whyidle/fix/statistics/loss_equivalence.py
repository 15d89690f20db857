"""Checks that a fix changed the losses no more than its consent class allows.

Class ``none`` requires bitwise equal losses if the job is reproducible; else differences as between
untreated runs, which the report states. A fix that only changes the order of summation is compared,
loss by loss, with the effect of such rounding on the untreated job (`loss_tolerance`). Other seeds
change losses of a short trial by a hundredth, rounding by a millionth, so runs with other seeds are
a reference only for fixes that may draw other random numbers or reduce the precision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whyidle.fix.arms.process_report import ProcessReport
from whyidle.model.diagnosis import Consent

BLOCKS = 8  # number of block means of the loss to compare; single losses vary with the batch
ROOM = 3.0  # allowed distance, relative to the distance of untreated runs with other random numbers
ORDER = 10.0
"""allowed distance, relative to the distance of untreated runs with other rounding. For small
networks that distance varies up to fivefold (``tests``, and `UNITS` of ``rounding_noise.py``); a
learning rate that is wrong by a thousandth causes twenty times as much"""
EXACT = 1e-6  # relative difference due to one more rounding of a loss, single precision
FAR = 2.0  # allowed factor between the distances that parameters move in the first steps
UNMEASURED = "the effect of rounding on this job could not be measured"
NEAR = 1e-3  # relative difference that is always allowed


@dataclass(frozen=True, slots=True)
class LossCheck:
    """Whether the losses are equivalent, and why."""

    holds: bool
    explanation: str  # the comparison in words
    measured: bool = True  # False: the allowed difference is unknown


@dataclass(frozen=True, slots=True)
class RunDifference:
    """How two unchanged runs differ."""

    since: int  # first different loss, counted from 1
    first: float  # relative difference there
    most: float  # largest relative difference

    @property
    def describe_difference(self) -> str:
        """The difference in words."""
        return (
            f"the job is not reproducible: two unchanged runs differ by up to {self.most:.1e} from "
            f"step {self.since} on"
        )

    @property
    def may_be_rounding(self) -> bool:
        """Whether rounding may explain it: then the first difference is small. Else the job
        computes something else each time, and single losses cannot be compared."""
        return self.first <= NEAR


@dataclass(frozen=True, slots=True)
class BaselineRuns:
    """Untreated runs for comparison. None: not run."""

    base: ProcessReport
    again: ProcessReport | None = None  # a repetition
    other: ProcessReport | None = None  # with other seeds
    swayed: Sequence[ProcessReport] = ()  # with artificial rounding noise
    more: Sequence[ProcessReport] = ()  # further repetitions of a job that is not reproducible

    @property
    def is_repeatable(self) -> bool:
        """Whether two runs are bitwise equal, as far as is known."""
        return self.again is None or are_identical(self.base.losses, self.again.losses)

    @property
    def run_difference(self) -> RunDifference | None:
        """How two runs differ; None if they are equal, as far as is known."""
        if self.again is None or self.is_repeatable:
            return None
        pairs = enumerate(zip(self.base.losses, self.again.losses, strict=False))
        apart = [
            (step, abs(a - b) / (abs(a) or 1.0))
            for step, (a, b) in pairs
            if not are_identical([a], [b])
        ]
        finite = [each for _, each in apart if math.isfinite(each)]
        return RunDifference(apart[0][0] + 1, apart[0][1], max(finite, default=math.inf))


def check_losses(
    consent: Consent, untreated: BaselineRuns, treated: ProcessReport, *, redrawn: bool = False
) -> LossCheck:
    """Compare a treated run with untreated ones of the same rank. ``redrawn``: the fix may change
    the random numbers."""
    untreated, treated = _select_known(untreated, treated)
    base, moved = untreated.base.losses, untreated.base.moved
    count = min(len(base), len(treated.losses))
    if consent != "convergence" and not _as_far(moved, treated.moved):
        return LossCheck(False, f"parameters move by {treated.moved:.3g} at first, not {moved:.3g}")
    if not count:
        return _check_without_losses(consent, untreated, treated)
    if are_identical(base, treated.losses):
        norm, again = untreated.base.norm, untreated.again
        steady = again is None or again.norm == norm
        if consent == "none" and steady and norm is not None and treated.norm != norm:
            return LossCheck(False, f"the parameters' norm is {treated.norm!r}, not {norm!r}")
        return LossCheck(True, f"{count} losses, bitwise equal")
    index = next(
        i for i in range(count) if not are_identical(base[i : i + 1], treated.losses[i : i + 1])
    )
    if math.isfinite(base[index]) and not math.isfinite(treated.losses[index]):
        return LossCheck(False, f"loss {index + 1} is no longer finite")
    if consent == "none" and untreated.is_repeatable:
        values = f"{treated.losses[index]:.6g} instead of {base[index]:.6g}"
        return LossCheck(False, f"loss {index + 1} differs: {values}")
    varies = untreated.run_difference
    if varies is not None:
        return _check_unrepeatable(consent, untreated, treated, varies, redrawn=redrawn)
    if consent in ("none", "rounding") and not redrawn:
        return _check_rounding(untreated, treated)
    return _check_near(untreated, treated)


def _check_without_losses(
    consent: Consent, untreated: BaselineRuns, treated: ProcessReport
) -> LossCheck:
    """A fix that claims to leave the numbers alone is held by what else shows them: parameters that
    move equally far, or the same batches in the same order where no parameters can be read or two
    untreated runs move them differently."""
    base, again = untreated.base, untreated.again
    if consent == "none" and base.moved is not None and treated.moved == base.moved:
        return LossCheck(True, "no loss was recorded, parameters move as before")
    steady = base.moved is not None and (again is None or again.moved == base.moved)
    count = min(len(base.batches), len(treated.batches))
    alike = count > 0 and [*base.batches[:count]] == [*treated.batches[:count]]
    if consent == "none" and alike and not steady:
        return LossCheck(True, f"no loss was recorded, {count} batches are the same, in order")
    text = "no loss was recorded, so its effect on the numbers is unknown"
    return LossCheck(False, text, measured=False)


def _select_known(
    untreated: BaselineRuns, treated: ProcessReport
) -> tuple[BaselineRuns, ProcessReport]:
    """The runs with those losses only that the treated run tells: several steps are one call."""
    if not treated.known:
        return untreated, treated

    def select(report: ProcessReport) -> ProcessReport:
        kept = [report.losses[i] for i in treated.known if i < len(report.losses)]
        return replace(report, losses=kept)

    def select_if_run(report: ProcessReport | None) -> ProcessReport | None:
        return None if report is None else select(report)

    runs = BaselineRuns(
        select(untreated.base),
        select_if_run(untreated.again),
        select_if_run(untreated.other),
        [select(one) for one in untreated.swayed],
        [select(one) for one in untreated.more],
    )
    return runs, select(treated)


def _check_unrepeatable(
    consent: Consent,
    untreated: BaselineRuns,
    treated: ProcessReport,
    varies: RunDifference,
    *,
    redrawn: bool,
) -> LossCheck:
    close = consent in ("none", "rounding") and not redrawn and varies.may_be_rounding
    if close:
        check = _check_rounding(untreated, treated)
        return replace(
            check, explanation=f"{varies.describe_difference}; with it {check.explanation}"
        )
    check = _check_near(untreated, treated)
    text = (
        f"{varies.describe_difference}; with it {check.explanation} (up to "
        f"{ROOM:.0f} times as much is accepted)"
    )
    return replace(check, explanation=text)


def are_identical(one: Sequence[float], another: Sequence[float]) -> bool:
    """Whether two runs are bitwise equal over their common length; NaN equals NaN."""
    pairs = zip(one, another, strict=False)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


def _check_rounding(untreated: BaselineRuns, treated: ProcessReport) -> LossCheck:
    base = untreated.base.losses
    references = [one.losses for one in (untreated.again, *untreated.swayed) if one is not None]
    allowed = loss_tolerance(base, references)
    apart = [abs(a - b) for a, b in zip(base, treated.losses, strict=False)][: len(allowed)]
    worst = max(range(len(apart)), key=lambda i: apart[i] / allowed[i], default=None)
    if worst is None or not math.isfinite(apart[worst]):
        return LossCheck(False, "losses cannot be compared")
    if apart[worst] <= allowed[worst]:
        mean = _in_mean(base, treated.losses, references)
        if not mean.holds:
            return mean if untreated.swayed else _no_losses(mean.explanation)
    holds = apart[worst] <= allowed[worst]
    scale = abs(base[worst]) or 1.0
    text = f"loss {worst + 1} differs by {apart[worst] / scale:.1e}"
    if not holds and not untreated.swayed:
        return _no_losses(text)
    limit = f"{allowed[worst] / scale:.1e}"
    accepted = f"rounding allows {limit}" if untreated.is_repeatable else f"accepted up to {limit}"
    return LossCheck(holds, f"{text}; {accepted}")


def _no_losses(text: str) -> LossCheck:
    return LossCheck(False, f"{text}; {UNMEASURED}", measured=False)


def loss_tolerance(base: Sequence[float], known: Sequence[Sequence[float]]) -> list[float]:
    """Allowed difference of each loss: a multiple of the largest so far among ``known`` runs."""
    count = min((len(one) for one in known), default=len(base))
    far, allowed = 0.0, []
    for step, loss in enumerate(base[: min(count, len(base))]):
        apart = [abs(one[step] - loss) for one in known]
        far = max(far, *(each for each in apart if math.isfinite(each)), 0.0)
        allowed.append(max(ORDER * far, EXACT * abs(loss), 1e-300))
    return allowed


def _as_far(base: float | None, treated: float | None) -> bool:
    """Whether parameters move about as far, which losses of few steps do not show."""
    if base is None or treated is None or not base > 0 or not math.isfinite(base):
        return True
    return 1 / FAR < treated / base < FAR


def _check_near(untreated: BaselineRuns, treated: ProcessReport) -> LossCheck:
    runs = (untreated.again, untreated.other, *untreated.more)
    known = [one.losses for one in runs if one is not None]
    whose = " with other seeds" if untreated.other is not None else ""
    return _in_mean(untreated.base.losses, treated.losses, known, whose)


def _in_mean(
    base: Sequence[float],
    treated: Sequence[float],
    references: Sequence[Sequence[float]],
    whose: str = "",
) -> LossCheck:
    distance = loss_distance(base, treated)
    variation = max((loss_distance(base, one) for one in references), default=0.0)
    text = f"losses differ by {distance:.2%}; runs without it{whose} by {variation:.2%}"
    return LossCheck(distance <= max(ROOM * variation, NEAR), text)


def loss_distance(one: Sequence[float], another: Sequence[float]) -> float:
    """Root mean square difference of block means of the losses, relative to their mean."""
    count = min(len(one), len(another))
    if not count:
        return 0.0
    size = max(1, count // BLOCKS)
    ends = range(size, count + 1, size)
    means = [
        (sum(one[end - size : end]) / size, sum(another[end - size : end]) / size) for end in ends
    ]
    scale = sum(abs(a) for a, _ in means) / len(means)
    square = sum((a - b) ** 2 for a, b in means) / len(means)
    return math.sqrt(square) / scale if scale else math.sqrt(square)
