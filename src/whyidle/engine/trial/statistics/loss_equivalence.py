"""Whether a fix left the numbers as they were, as its consent class promises.

Class ``none`` is the same bit for bit, where the job itself is. Where it is not, nobody can promise
that: a fix is then held to what untreated runs of it differ by, and that is told. A fix that only
takes sums in another order is held, loss by loss, to how far the untreated job itself is led astray
by as much (`loss_tolerance`): losses of a short trial differ by a hundredth with other seeds and by
a millionth with another order of sums, so other seeds would let nearly everything pass. They are
the measure where a fix may draw other random numbers, or compute with less precision by consent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whyidle.engine.trial.arms.process_report import ProcessReport
from whyidle.engine.trial.statistics.speedup import samples_per_step
from whyidle.model.diagnosis import Consent

BLOCKS = 8
"""means of so many stretches of the loss are compared: single losses scatter with the batch"""
ROOM = 3.0
"""how many times as far apart as two untreated runs of other random order a treated one may be"""
ORDER = 10.0
"""how many times as far as untreated runs with other rounding a treated one may be: two such runs
of small networks were up to five times as far apart as another two (``tests``, and `UNITS` of
``rounding_noise.py``); a learning rate that is off by a thousandth brings twenty times as much"""
EXACT = 1e-6
"""relative difference that one more rounding of a loss itself brings, single precision"""
FAR = 2.0
"""how many times as far, or less, parameters may go in the first steps"""
OTHER_SIZE = 0.1
"""steps whose number of samples differs by a larger share are not compared one by one: ends of
epochs alone bring less"""
UNMEASURED = "how far other rounding takes the job could not be measured"
NEAR = 1e-3
"""relative difference that other rounding may bring, where nothing else is known"""


@dataclass(frozen=True, slots=True)
class LossCheck:
    """Whether the numbers hold, and how that was seen, for people. Not ``measured``: how far they
    may be off is not known."""

    holds: bool
    told: str
    measured: bool = True


@dataclass(frozen=True, slots=True)
class RunDifference:
    """How two untreated runs differ: from which loss on (1, 2, ...), by which share of it there,
    and by which at most."""

    since: int
    first: float
    most: float

    @property
    def describe_difference(self) -> str:
        """For people."""
        return (
            "the job does not repeat itself: two untreated runs differ by up to "
            f"{self.most:.1e} from step {self.since} on"
        )

    @property
    def may_be_rounding(self) -> bool:
        """Whether it may be rounding: as small at first as nothing else is, and grows from there.
        Else it computes something else each time, of which single losses tell nothing."""
        return self.first <= NEAR


@dataclass(frozen=True, slots=True)
class BaselineRuns:
    """What untreated runs show of themselves: the first one, another one (``again``), one with
    other seeds (``other``), some whose results were off by a few roundings (``swayed``), and of a
    job that does not repeat itself some ``more``, which say how far apart such runs are. None: not
    run."""

    base: ProcessReport
    again: ProcessReport | None = None
    other: ProcessReport | None = None
    swayed: Sequence[ProcessReport] = ()
    more: Sequence[ProcessReport] = ()

    @property
    def is_repeatable(self) -> bool:
        """Whether two runs are the same bit for bit, as far as is known."""
        return self.again is None or are_identical(self.base.losses, self.again.losses)

    @property
    def run_difference(self) -> RunDifference | None:
        """How two runs differ; None where they are the same, as far as is known."""
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
    """Hold what a treated run learned against untreated ones; ``redrawn`` is whether the fix may
    have the job draw other random numbers."""
    base, moved = untreated.base.losses, untreated.base.moved
    count = min(len(base), len(treated.losses))
    if consent != "convergence" and not _as_far(moved, treated.moved):
        return LossCheck(False, f"parameters go {treated.moved:.3g} far at first, not {moved:.3g}")
    if not count:
        held = consent == "none" and moved is not None and treated.moved == moved
        return LossCheck(held, "no loss was seen" + (", parameters move as before" if held else ""))
    if consent == "convergence" and other_batches(untreated.base, treated):
        return _by_time(untreated, treated)
    if are_identical(base, treated.losses):
        return _check_parameters(
            consent, untreated, treated, f"{count} losses, the same bit for bit"
        )
    odd = next(
        i for i in range(count) if not are_identical(base[i : i + 1], treated.losses[i : i + 1])
    )
    if math.isfinite(base[odd]) and not math.isfinite(treated.losses[odd]):
        return LossCheck(False, f"loss {odd + 1} is no longer finite")
    if consent == "none" and untreated.is_repeatable:
        became = f"{base[odd]:.6g} became {treated.losses[odd]:.6g}"
        return LossCheck(False, f"loss {odd + 1} is another: {became}")
    varies = untreated.run_difference
    if varies is not None:
        return _check_unrepeatable(consent, untreated, treated, varies, redrawn=redrawn)
    if consent in ("none", "rounding") and not redrawn:
        return _check_rounding(untreated, treated)
    return _check_near(untreated, treated)


def _check_unrepeatable(
    consent: Consent,
    untreated: BaselineRuns,
    treated: ProcessReport,
    varies: RunDifference,
    *,
    redrawn: bool,
) -> LossCheck:
    """Of a job that does not repeat itself: whether it is as far off as such a job may be from
    itself, and that nothing closer can be told."""
    close = consent in ("none", "rounding") and not redrawn and varies.may_be_rounding
    if close:
        check = _check_rounding(untreated, treated)
        return replace(check, told=f"{varies.describe_difference}; with it {check.told}")
    check = _check_near(untreated, treated)
    told = (
        f"{varies.describe_difference}; with it {check.told} (up to {ROOM:.0f} times as "
        "far is let pass)"
    )
    return replace(check, told=told)


def are_identical(one: Sequence[float], another: Sequence[float]) -> bool:
    """Whether two runs are the same bit for bit as long as both go on; no number is one, too."""
    pairs = zip(one, another, strict=False)
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs)


def _check_parameters(
    consent: Consent, untreated: BaselineRuns, treated: ProcessReport, told: str
) -> LossCheck:
    """The losses are the same: so must the parameters be, where the untreated ones are."""
    norm, again = untreated.base.norm, untreated.again
    steady = again is None or again.norm == norm
    if consent == "none" and steady and norm is not None and treated.norm != norm:
        return LossCheck(False, f"parameters of norm {norm!r} have {treated.norm!r}")
    return LossCheck(True, told)


def _check_rounding(untreated: BaselineRuns, treated: ProcessReport) -> LossCheck:
    """Whether it goes no further from the base than other rounding takes the job itself, at any
    step up to there; and where that is far already, not in the mean of many steps either."""
    base = untreated.base.losses
    known = [one.losses for one in (untreated.again, *untreated.swayed) if one is not None]
    allowed = loss_tolerance(base, known)
    apart = [abs(a - b) for a, b in zip(base, treated.losses, strict=False)][: len(allowed)]
    worst = max(range(len(apart)), key=lambda i: apart[i] / allowed[i], default=None)
    if worst is None or not math.isfinite(apart[worst]):
        return LossCheck(False, "losses cannot be compared")
    if apart[worst] <= allowed[worst]:
        mean = _in_mean(base, treated.losses, known)
        if not mean.holds:
            return mean if untreated.swayed else _no_losses(mean.told)
    holds = apart[worst] <= allowed[worst]
    scale = abs(base[worst]) or 1.0
    told = f"loss {worst + 1} is {apart[worst] / scale:.1e} off"
    if not holds and not untreated.swayed:
        return _no_losses(told)
    cause = (
        "another order of sums" if untreated.is_repeatable else f"{ORDER:.0f} times as much as that"
    )
    return LossCheck(holds, f"{told}; {cause} may bring {allowed[worst] / scale:.1e}")


def _no_losses(told: str) -> LossCheck:
    return LossCheck(False, f"{told}; {UNMEASURED}", measured=False)


def loss_tolerance(base: Sequence[float], known: Sequence[Sequence[float]]) -> list[float]:
    """How far from the base the same job may come, at each step: a few times as far as any of the
    ``known`` runs has been by then."""
    count = min((len(one) for one in known), default=len(base))
    far, allowed = 0.0, []
    for step, loss in enumerate(base[: min(count, len(base))]):
        apart = [abs(one[step] - loss) for one in known]
        far = max(far, *(each for each in apart if math.isfinite(each)), 0.0)
        allowed.append(max(ORDER * far, EXACT * abs(loss), 1e-300))
    return allowed


def _as_far(base: float | None, treated: float | None) -> bool:
    """Whether parameters go about as far as before: what learns nothing has losses that look like
    those of any other seed for a while."""
    if base is None or treated is None or not base > 0 or not math.isfinite(base):
        return True
    return 1 / FAR < treated / base < FAR


def other_batches(base: ProcessReport, treated: ProcessReport) -> bool:
    """Whether steps have another number of samples."""
    one, another = samples_per_step(base), samples_per_step(treated)
    return one is not None and another is not None and abs(another / one - 1.0) > OTHER_SIZE


def _by_time(untreated: BaselineRuns, treated: ProcessReport) -> LossCheck:
    """Whether after the same time of training it has learned at least as much, give or take what
    other seeds bring: losses of the same step, or of as many samples, say nothing of that."""
    base = untreated.base
    known = [one for one in (untreated.again, untreated.other) if one is not None]
    end = min(one.marks[-1] - one.marks[0] for one in (base, treated, *known))
    before, after = (_loss_curve(one, end) for one in (base, treated))
    usual = max((_relative_difference(before, _loss_curve(one, end)) for one in known), default=0.0)
    scale = sum(map(abs, before)) / len(before) or 1.0
    worse = (after[-1] - before[-1]) / scale
    told = (
        f"after the same {end / 1e9:.1f} s of training the loss is {after[-1]:.4g}, "
        f"{before[-1]:.4g} untreated; untreated runs {usual:.2%} apart"
    )
    return LossCheck(worse <= max(ROOM * usual, NEAR), told)


def _loss_curve(told: ProcessReport, end: float) -> list[float]:
    """Means of the loss over stretches of equal time, from the first step on up to ``end`` ns."""
    parts: list[list[float]] = [[] for _ in range(BLOCKS)]
    each = len(told.losses) / len(told.marks)
    for number, mark in enumerate(told.marks):
        since = mark - told.marks[0]
        if since <= end:
            own = told.losses[round(number * each) : round((number + 1) * each)]
            parts[min(int(BLOCKS * since / end), BLOCKS - 1)] += own
    means: list[float] = []
    for part in parts:
        means.append(sum(part) / len(part) if part else means[-1] if means else math.nan)
    return means


def _relative_difference(one: Sequence[float], another: Sequence[float]) -> float:
    """Root mean square difference of two curves, as a share of the first one's mean."""
    square = sum((a - b) ** 2 for a, b in zip(one, another, strict=True)) / len(one)
    return math.sqrt(square) / (sum(map(abs, one)) / len(one) or 1.0)


def _check_near(untreated: BaselineRuns, treated: ProcessReport) -> LossCheck:
    """Whether it is about as far off as untreated runs are from each other."""
    runs = (untreated.again, untreated.other, *untreated.more)
    known = [one.losses for one in runs if one is not None]
    whose = " with other seeds" if untreated.other is not None else ""
    return _in_mean(untreated.base.losses, treated.losses, known, whose)


def _in_mean(
    base: Sequence[float],
    treated: Sequence[float],
    known: Sequence[Sequence[float]],
    whose: str = "",
) -> LossCheck:
    apart = loss_distance(base, treated)
    usual = max((loss_distance(base, one) for one in known), default=0.0)
    told = f"losses {apart:.2%} apart; untreated runs{whose} {usual:.2%}"
    return LossCheck(apart <= max(ROOM * usual, NEAR), told)


def loss_distance(one: Sequence[float], another: Sequence[float]) -> float:
    """Root mean square difference of the losses' means over stretches, as a share of the mean."""
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
