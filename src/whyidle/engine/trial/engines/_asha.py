"""A race by Ray Tune: asynchronous successive halving (ASHA) over the rungs of arms.

Entries run one at a time, on one machine: side by side they would slow each other, and it could not
be told from the number that they differ in.
"""

from __future__ import annotations

import base64
import math
import os
import pickle
import queue
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.engines import _there
from whyidle.engine.trial.told import Rung

HALVES = 2
QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}
"""no files of its own, Ctrl-C is ours, arms stay in their folder, and it prints nothing"""
WAIT_S = 300.0
"""within which Ray finds room for a race"""
END_S = 30.0
"""within which an arm that is outrun has ended, with its isolation taken down"""


def race(
    orders: Sequence[_there.Order], holds: Mapping[str, float]
) -> list[_there.Came | Ran | None]:
    """What came of each: of those that were outrun, the rung that they came to; None of those that
    could not be run."""
    from ray import tune

    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    rungs = max(len(order.asked.rungs) for order in orders)
    scheduler = tune.schedulers.ASHAScheduler(
        time_attr="stretch",
        max_t=HALVES**rungs,  # none is ended as the last: it ends by itself
        grace_period=1,
        reduction_factor=HALVES,
    )
    entrant = tune.with_resources(
        tune.with_parameters(_entrant(), orders=list(orders)),
        tune.PlacementGroupFactory([dict(holds)]),
    )
    with tempfile.TemporaryDirectory(prefix="whyidle-race-") as folder:
        tuner = tune.Tuner(
            entrant,
            param_space={"entry": tune.grid_search(list(range(len(orders))))},
            tune_config=tune.TuneConfig(
                metric="step_s",
                mode="min",
                scheduler=scheduler,
                max_concurrent_trials=1,
                time_budget_s=WAIT_S + sum(order.asked.patience_s for order in orders),
            ),
            run_config=tune.RunConfig(
                name="race",
                storage_path=folder,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        )
        found = {one.config["entry"]: one.metrics for one in tuner.fit() if one.config}
    return [_came(found.get(number), order) for number, order in enumerate(orders)]


def _came(told: Mapping[str, Any] | None, order: _there.Order) -> _there.Came | Ran | None:
    if not told or "step_s" not in told:
        return None
    if told.get("came"):
        came: _there.Came = pickle.loads(base64.b64decode(told["came"]))
        return came
    rung = Rung(1 + round(math.log(told["stretch"], HALVES)), told["step_s"])
    return Ran("outrun", None, told.get("time_total_s", 0.0), Path(order.name), "", rung=rung)


def _entrant() -> Any:
    """The class that Tune makes of each entry, in a process of its own there."""
    from ray import tune

    class Entrant(tune.Trainable):  # type: ignore[misc]
        """An arm beside which Tune is told of each rung, and decides."""

        def setup(self, config: Mapping[str, Any], orders: Sequence[_there.Order]) -> None:
            """Start it."""
            self._news: queue.SimpleQueue[Rung | _there.Came | None] = queue.SimpleQueue()
            self._decided: queue.SimpleQueue[bool] = queue.SimpleQueue()
            self._asking = False
            self._last = Rung(1, math.inf)
            run = threading.Thread(target=self._run, args=(orders[config["entry"]],))
            self._arm = run
            run.start()

        def _run(self, order: _there.Order) -> None:
            came = None
            try:
                came = _there.run(order, self._go_on)
            finally:
                self._news.put(came)

        def _go_on(self, rung: Rung) -> bool:
            self._news.put(rung)
            return self._decided.get()

        def step(self) -> dict[str, Any]:
            """Until the next rung, or the end."""
            if self._asking:
                self._decided.put(True)  # to be called again is to be let go on
            told = self._news.get()
            self._asking = isinstance(told, Rung)
            if isinstance(told, Rung):
                self._last = told
                return {"stretch": HALVES ** (told.number - 1), "step_s": told.step_s}
            packed = base64.b64encode(pickle.dumps(told)).decode() if told else ""
            last = HALVES ** (self._last.number - 1)
            return {"stretch": last, "step_s": self._last.step_s, "came": packed, "done": True}

        def cleanup(self) -> None:
            """It was outrun, or has ended."""
            self._decided.put(False)
            self._arm.join(END_S)

    return Entrant
