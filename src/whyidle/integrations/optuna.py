"""Optuna: ``study.optimize(WatchedObjective(objective), n_trials=50)``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whyidle.api.own_process import Profile, Watch
from whyidle.api.trial_attributes import trial_attributes
from whyidle.errors import WhyidleError


class WatchedObjective:
    """An objective of Optuna that is watched: each trial, a pruned one included, receives the user
    attributes ``whyidle.state``, ``whyidle.cause``, ``whyidle.busy``, ``whyidle.gpu_hours`` (on the
    CPU ``whyidle.hours``) and the shares ``whyidle.waits.*`` of its step.

    Use it with ``n_jobs=1``: one training at a time can be watched in a process. Optuna accepts
    attributes only while a trial runs, so this wraps the objective and is no callback.

    Args:
        objective: the objective; it trains in this process.
        store: the folder of the run store.
        profile: when every operator of a few steps is recorded, as for ``whyidle.watch``.
    """

    def __init__(
        self,
        objective: Callable[[Any], Any],
        store: str | Path | None = None,
        profile: Profile = "off",
    ) -> None:
        self._objective = objective
        self._store, self._profile = store, profile

    def __call__(self, trial: Any) -> Any:
        """Run and watch the objective; its value and its exceptions are passed on."""
        watch, begin = Watch(self._store, self._profile), time.monotonic()
        diagnosis = None
        try:
            watch.start()
        except WhyidleError as error:
            print(f"whyidle: {error}", file=sys.stderr)
        try:
            return self._objective(trial)
        finally:
            seconds = time.monotonic() - begin
            watch.stop()
            try:
                diagnosis = watch.diagnosis
            except WhyidleError as error:
                print(f"whyidle: {error}", file=sys.stderr)
            for name, value in trial_attributes(diagnosis, seconds).items():
                trial.set_user_attr(name, value)
