"""Reports that a thread beside the training makes: of trackers whose calls are known.

Calls that only add something are made there, in their order, with the time at which they were
asked for. Anything else that a tracker is asked (to flush, close, fetch, upload a file) waits until
they are done. What is reported is the same; what is not, is left as it is: figures, models, and
trackers that send from a process of their own already.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from . import NO_FORM, KnobSession
from ._background_calls import BackgroundCalls, UnknownError, copy_value

KNOB = "logging.asynchronous"
LOOKS, EVERY = 20, 200
"""trackers may be imported at any time: after so many steps, and then after one of so many"""


class TrackerClass(NamedTuple):
    """A class of a tracker: what only adds, and what its argument for the time is called, in which
    unit of a second."""

    module: str
    kind: str
    adds: tuple[str, ...]
    time: str
    unit: float
    whole: bool = False


WRITER = ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_text")
METRICS = ("log_metric", "log_batch")
TRACKERS = (
    TrackerClass("torch.utils.tensorboard.writer", "SummaryWriter", WRITER, "walltime", 1.0),
    TrackerClass("tensorboardX.writer", "SummaryWriter", WRITER, "walltime", 1.0),
    TrackerClass("mlflow.tracking.client", "MlflowClient", METRICS, "timestamp", 1e-3, whole=True),
)


def apply(hand: KnobSession, edits: dict[str, Any]) -> None:
    """Wrap the trackers that are there, and those that come."""
    hand.decline_knobs([knob for knob in edits if knob != KNOB], NO_FORM)
    if not edits.get(KNOB):
        return
    hand.wait_for([KNOB], "no call of a TensorBoard writer or MLflow client could be made later")
    waiting, background = list(TRACKERS), BackgroundCalls()

    def look(step: int) -> None:
        if step > LOOKS and step % EVERY:
            return
        for one in list(waiting):
            kind = getattr(sys.modules.get(one.module), one.kind, None)
            if isinstance(kind, type):
                waiting.remove(one)
                _adopt_tracker(hand, background, one, kind)

    look(0)
    hand.after_steps(look)
    hand.undo.append(background.calls.join)


def _adopt_tracker(
    hand: KnobSession, background: BackgroundCalls, tracker: TrackerClass, kind: type
) -> None:
    for name, one in list(vars(kind).items()):
        if not inspect.isfunction(one) or one.__code__.co_flags & inspect.CO_VARARGS:
            continue
        if name in tracker.adds:
            hand.replace_function(kind, name, _wrap_adding(hand, background, tracker))
        elif not name.startswith("_"):
            hand.replace_function(kind, name, _wrap_waiting(hand, background))


def _wrap_adding(
    hand: KnobSession, background: BackgroundCalls, tracker: TrackerClass
) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def add(self: Any, *args: Any, **kwargs: Any) -> Any:
            asked = None
            if not hand.is_child and not background.is_own_thread:
                asked = hand.run_contained(
                    [KNOB], _named_arguments, signature, tracker, (self, *args), kwargs
                )
                if asked is None:
                    background.wait_until_done()
            if asked is None:
                return original(self, *args, **kwargs)
            background.enqueue_call(original, (), asked)
            hand.record_applied(KNOB)
            return None

        return add

    return make


def _named_arguments(
    signature: inspect.Signature, tracker: TrackerClass, args: Any, kwargs: Any
) -> dict[str, Any] | None:
    """The arguments by name, as they are now; None where it has to be called at once."""
    try:
        given = signature.bind(*args, **kwargs).arguments
        own = next(iter(signature.parameters))
        if given.get("synchronous") is False or given.get("kwargs"):
            return None
        made = {name: one if name == own else copy_value(one) for name, one in given.items()}
    except (TypeError, UnknownError):  # the script's own mistake is told as ever
        return None
    if tracker.time in signature.parameters and made.get(tracker.time) is None:
        now = time.time() / tracker.unit
        made[tracker.time] = int(now) if tracker.whole else now
    return made


def _wrap_waiting(hand: KnobSession, background: BackgroundCalls) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not hand.is_child and not background.is_own_thread:
                background.wait_until_done()
            return original(*args, **kwargs)

        return call

    return make
