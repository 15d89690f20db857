"""Lightning: ``Trainer(callbacks=[LightningCallback()])``."""

from __future__ import annotations

from typing import Any

from whyidle.errors import MissingExtraError
from whyidle.integrations._training_watch import WatchedTraining

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as error:
        raise MissingExtraError(
            "LightningCallback needs Lightning.",
            why=f"{error}.",
            hint="pip install 'whyidle[lightning]'",
        ) from error


class LightningCallback(WatchedTraining, Callback):  # type: ignore[misc, unused-ignore]
    """Watches ``Trainer.fit`` and reports why the device idled.

    The callback marks the ends of optimizer steps and nothing else. Each process watches itself;
    the process of global rank 0 reports. Use ``whyidle run`` to diagnose several ranks together.

    Args:
        report: ``terminal`` prints the report to standard error at the end of the fit; ``none``
            only stores it.
        html: the file to write the HTML page to; None writes no page.
        store: the folder of the run store.
        profile: when every operator of a few steps is recorded, as for ``whyidle.watch``.
    """

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to watch on the process of global rank 0."""
        if trainer.is_global_zero:
            self._begin_training()

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Mark a step where the optimizer stepped."""
        self._mark_step(trainer.global_step)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop watching and report."""
        self._end_training()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop watching and report the time before the failure."""
        self._end_training(status=1)
