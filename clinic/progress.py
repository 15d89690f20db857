"""What is told while cases are run: one line for each, and the time that is left."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from clinic import launch
from clinic.card import Case, Mode
from clinic.judge import right
from clinic.outcome import Outcome, Results, timed
from clinic.rivals import product
from clinic.score import marks

STARTING_S, TELLING_S = 3.0, 2.0
"""importing the framework, and diagnosing, for the first estimate"""


class Progress:
    """Time spent and left. What cases should cost, in seconds, is scaled by what those that are
    done did cost."""

    def __init__(self, costs: Mapping[Hashable, float]) -> None:
        self.costs = dict(costs)
        self.count, self.left = len(costs), sum(costs.values())
        self._done = 0.0
        self._begin = launch.wall()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return launch.wall() - self._begin

    def line(self, key: Hashable, said: str) -> str:
        """Count a case as done; the line about it."""
        self._done += self.costs.pop(key)
        self.left = sum(self.costs.values()) * self.spent / self._done
        number = self.count - len(self.costs)
        rest = f"  {minutes(self.left)} left" if self.costs else ""
        return f"[{number}/{self.count}] {said}{rest}"


def budget(case: Case, mode: Mode, results: Results | None, oracle: bool) -> float:
    """Seconds that a case should take, less what is known of it already."""
    watched = results is not None and results.load(case, mode, False)
    total = 0.0 if watched else TELLING_S
    if case.recording:
        return total + (2 * TELLING_S if oracle and case.twin else 0.0)
    if not watched:
        total += case.budget.watch_s + STARTING_S
    if oracle and timed(case) and not (results and results.gains(case, mode)):
        each = case.budget.arm_s + STARTING_S
        total += len(case.arms()) * case.budget.pairs * each
    return total


def failed(case: Case, outcome: Outcome) -> bool:
    """Whether it could not be run, or the answer was wrong."""
    (mark,) = marks("whyidle", [(case, outcome)])
    return bool(outcome.error) or right(mark) is False


def told(case: Case, outcome: Outcome) -> str:
    """What came of one case."""
    if outcome.error:
        return f"{case.id} failed: {outcome.error.splitlines()[-1][:120]}"
    said = ", ".join(guess.cause for guess in product(outcome).guesses[:2]) or outcome.state
    truth = " + ".join(fault.cause or "unknown" for fault in case.inject) or case.kind
    gain = outcome.gains.get("cured")
    (mark,) = marks("whyidle", [(case, outcome)])
    sign = {True: "+", False: "-", None: " "}[right(mark)]
    return f"{sign} {case.id} {truth}{f' x{gain.ratio:.2f}' if gain else ''} -> {said}"


def minutes(seconds: float) -> str:
    """As people say it."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
