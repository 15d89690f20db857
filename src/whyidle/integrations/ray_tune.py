"""Ray Tune: ``Tuner(watched_trainable(train), ...)`` with ``RayTuneCallback()`` in ``RunConfig``.

The watch runs in the worker, the callback in the driver: they meet in the trial's folder.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from whyidle.api.own_process import Profile, Watch
from whyidle.api.trial_attributes import Attributes, recorded_attributes, trial_attributes
from whyidle.errors import MissingExtraError, WhyidleError

try:
    from ray.tune import Callback
except ImportError as error:
    raise MissingExtraError(
        "RayTuneCallback needs Ray Tune.", why=f"{error}.", hint="pip install 'whyidle[ray]'"
    ) from error

FILE, STORE = "whyidle.json", ".whyidle"


def watched_trainable(
    train: Callable[[dict[str, Any]], Any], profile: Profile = "off"
) -> Callable[[dict[str, Any]], Any]:
    """Watch a function that trains, in its worker, also where Ray ends the trial early.

    Args:
        train: the function that is given to ``Tuner``.
        profile: when every operator of a few steps is recorded, as for ``whyidle.watch``.
    """

    @functools.wraps(train)
    def train_watched(config: dict[str, Any]) -> Any:
        from ray import tune  # noqa: PLC0415  # in the worker

        folder = Path(tune.get_context().get_trial_dir())
        folder.mkdir(parents=True, exist_ok=True)
        watch, begin = Watch(folder / STORE, profile), time.monotonic()
        diagnosis = None
        try:
            watch.start()
        except WhyidleError as error:
            print(f"whyidle: {error}", file=sys.stderr)
        try:
            return train(config)
        finally:
            seconds = time.monotonic() - begin
            watch.stop()
            with suppress(WhyidleError):
                diagnosis = watch.diagnosis
            text = json.dumps(trial_attributes(diagnosis, seconds))
            (folder / FILE).write_text(text, encoding="utf-8")

    return train_watched


class RayTuneCallback(Callback):  # type: ignore[misc, unused-ignore]
    """Adds cause, utilization and cost to each trial's last result, from where they reach the
    results of ``Tuner.fit``; ``attributes`` holds them by the trial's id. They are read at the end
    of the experiment. The worker of a trial that Ray ended early has no time to write them: its
    recording is diagnosed here."""

    def __init__(self) -> None:
        super().__init__()
        self.attributes: dict[str, Attributes] = {}

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Read what the workers have written."""
        for trial in trials:
            found = _read_attributes(Path(trial.local_path), trial.last_result)
            if found:
                self.attributes[trial.trial_id] = found
                trial.last_result.update(found)


def _read_attributes(folder: Path, result: dict[str, Any]) -> Attributes:
    with suppress(OSError, ValueError):
        found: Attributes = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return found
    return recorded_attributes(folder / STORE, result.get("time_total_s", 0.0))
