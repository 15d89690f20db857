"""Lightning: ``Trainer(callbacks=[LightningCallback()])``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyidle.api.own_process import Profile
from whyidle.errors import MissingExtraError
from whyidle.integrations._training import WatchedTraining

if TYPE_CHECKING:
    from whyidle.api.documents import Diagnosis

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


class LightningCallback(Callback):  # type: ignore[misc, unused-ignore]
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

    def __init__(
        self,
        report: str = "terminal",
        html: str | Path | None = None,
        store: str | Path | None = None,
        profile: Profile = "auto",
    ) -> None:
        super().__init__()
        self._training = WatchedTraining(report, html, store, profile)

    @property
    def diagnosis(self) -> Diagnosis | None:
        """Why the device idled; None before the end of the fit, and on ranks other than 0."""
        return self._training.diagnosis

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Start to watch on the process of global rank 0."""
        if trainer.is_global_zero:
            self._training.begin_training()

    def on_train_batch_end(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Mark a step where the optimizer stepped."""
        self._training.mark_step(trainer.global_step)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        """Stop watching and report."""
        self._training.end_training()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Stop watching and report what was seen until the failure."""
        self._training.end_training(status=1)
