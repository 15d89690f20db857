"""How users of Keras write its knobs, on any framework."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "keras.run_eagerly": "model.compile(..., run_eagerly={value})",
    "keras.steps_per_execution": "model.compile(..., steps_per_execution={value})",
    "keras.train_on_batch": "Keras 3.9 or later, which traces train_on_batch once",
    "keras.workers": "the PyDataset with super().__init__(workers={value})",
}
