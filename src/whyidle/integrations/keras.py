"""Keras: ``model.fit(..., callbacks=[KerasCallback()])``."""

from __future__ import annotations

from typing import Any

from whyidle.errors import MissingExtraError
from whyidle.integrations._training_watch import WatchedTraining

try:
    from keras.callbacks import Callback
except ImportError as error:
    raise MissingExtraError(
        "KerasCallback needs Keras.", why=f"{error}.", hint="pip install 'whyidle[tensorflow]'"
    ) from error


class KerasCallback(WatchedTraining, Callback):  # type: ignore[misc, unused-ignore]
    """Watches ``Model.fit`` and reports why the device idled.

    The callback does nothing in a step: the probe sees the steps of TensorFlow and JAX itself, and
    with PyTorch as the backend the backward passes.

    Args:
        report: ``terminal`` prints the report to standard error at the end of the fit; ``none``
            only stores it.
        html: the file to write the HTML page to; None writes no page.
        store: the folder of the run store.
        profile: when every operator of a few steps is recorded, as for ``whyidle.watch``.
    """

    async_safe = True
    """it has no method for batches, so Keras need not wait for it"""

    def on_train_begin(self, logs: Any = None) -> None:
        """Start to watch."""
        self._begin_training()

    def on_train_end(self, logs: Any = None) -> None:
        """Stop watching and report."""
        self._end_training()
