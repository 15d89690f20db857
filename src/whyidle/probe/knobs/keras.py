"""Sets arguments of Keras' models and datasets as if the script had."""

from __future__ import annotations

from functools import partial
from typing import Any

from . import NO_FORM, KnobSession

WORKERS, EAGER = "keras.workers", "keras.run_eagerly"
ADAPTER = "keras.src.trainers.data_adapters.py_dataset_adapter"
TRAINERS = (
    ("keras.src.trainers.trainer", "Trainer"),
    ("keras.src.engine.training", "Model"),
    ("tf_keras.src.engine.training", "Model"),
)


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Change datasets and models that the job makes from now on."""
    session.decline_knobs([knob for knob in edits if knob not in (WORKERS, EAGER)], NO_FORM)
    if WORKERS in edits:
        session.wait_for([WORKERS], "the job fits no PyDataset with a single worker")
        session.after_import(
            [WORKERS],
            ADAPTER,
            "PyDatasetAdapter",
            partial(_more_workers, session, edits[WORKERS]),
        )
    if EAGER in edits:
        session.wait_for([EAGER], "the job compiles no model with run_eagerly")
        for module, name in TRAINERS:
            session.after_import(
                [EAGER], module, name, partial(_set_eager, session, name, edits[EAGER])
            )


def _more_workers(session: KnobSession, workers: int, loaded: Any) -> None:
    """Give datasets threads that make batches ahead; the order of batches stays the same."""

    def raise_workers(dataset: Any) -> None:
        if dataset.workers <= 1 and not dataset.use_multiprocessing:
            dataset.workers = workers
            session.record_applied(WORKERS)

    def make(original: Any) -> Any:
        def init(self: Any, x: Any, *args: Any, **named: Any) -> None:
            session.run_contained([WORKERS], raise_workers, x)
            original(self, x, *args, **named)

        return init

    session.wrap_constructor(loaded.PyDatasetAdapter, make)


def _set_eager(session: KnobSession, name: str, value: bool, loaded: Any) -> None:
    def make(original: Any) -> Any:
        def compile(self: Any, *args: Any, **named: Any) -> Any:  # noqa: A001
            if named.get("run_eagerly"):
                named["run_eagerly"] = value
                session.run_contained([EAGER], session.record_applied, EAGER)
            return original(self, *args, **named)

        return compile

    session.replace_function(getattr(loaded, name), "compile", make)
