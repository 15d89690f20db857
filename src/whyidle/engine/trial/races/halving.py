"""Asynchronous successive halving, by Optuna: at each rung the slower half does not go on.

The numbers and their order are the model's, so nothing is sampled; Optuna decides who goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.engine import Entry
from whyidle.engine.trial.races import Run
from whyidle.engine.trial.told import Rung

NEEDS = "optuna"
HALVES = 2


def race(entries: Sequence[Entry], run: Run) -> list[Ran | None]:
    """Run one after another; each goes on from a rung while it is among the faster half of those
    that have come to it, and while there are only two, while it is the fastest."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=HALVES)
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(direction="minimize", sampler=sampler, pruner=pruner)
    space = {"entry": optuna.distributions.IntDistribution(0, len(entries) - 1)}
    rans: list[Ran | None] = []
    for number, entry in enumerate(entries):
        study.enqueue_trial({"entry": number})
        trial = study.ask(space)

        def go_on(rung: Rung, trial: optuna.Trial = trial) -> bool:
            trial.report(rung.step_s, step=HALVES ** (rung.number - 1))
            return not trial.should_prune()

        ran = run(entry, go_on)
        rans.append(ran)
        state = optuna.trial.TrialState
        if ran.good and ran.rung is not None:
            study.tell(trial, ran.rung.step_s)
        else:
            study.tell(trial, state=state.PRUNED if ran.ending == "outrun" else state.FAIL)
    return rans
