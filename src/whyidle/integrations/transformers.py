"""Hugging Face Transformers: ``Trainer(callbacks=[TrainerCallback()])``."""

from __future__ import annotations

from typing import Any

from whyidle.errors import MissingExtraError
from whyidle.integrations._training_watch import WatchedTraining

try:
    from transformers import TrainerCallback as Callback
except ImportError as error:
    raise MissingExtraError(
        "TrainerCallback needs Transformers.",
        why=f"{error}.",
        hint="pip install 'whyidle[transformers]'",
    ) from error


class TrainerCallback(WatchedTraining, Callback):  # type: ignore[misc, unused-ignore]
    """Watches ``Trainer.train`` and reports why the device idled.

    The callback marks the ends of optimizer steps and nothing else. Each process watches itself;
    the process of global rank 0 reports. Use ``whyidle run`` to diagnose several ranks together.

    Args:
        report: ``terminal`` prints the report to standard error at the end of the training;
            ``none`` only stores it.
        html: the file to write the HTML page to; None writes no page.
        store: the folder of the run store.
        profile: when every operator of a few steps is recorded, as for ``whyidle.watch``.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Start to watch on the process of global rank 0."""
        if state.is_world_process_zero:
            self._begin_training()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Mark a step."""
        self._mark_step(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stop watching and report."""
        self._end_training()
