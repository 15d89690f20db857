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

from . import NO_FORM, Hand
from ._background import Background, UnknownError, copied

KNOB = "logging.asynchronous"
LOOKS, EVERY = 20, 200
"""trackers may be imported at any time: after so many steps, and then after one of so many"""


class Tracker(NamedTuple):
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
    Tracker("torch.utils.tensorboard.writer", "SummaryWriter", WRITER, "walltime", 1.0),
    Tracker("tensorboardX.writer", "SummaryWriter", WRITER, "walltime", 1.0),
    Tracker("mlflow.tracking.client", "MlflowClient", METRICS, "timestamp", 1e-3, whole=True),
)


def turn(hand: Hand, edits: dict[str, Any]) -> None:
    """Wrap the trackers that are there, and those that come."""
    hand.decline([knob for knob in edits if knob != KNOB], NO_FORM)
    if not edits.get(KNOB):
        return
    hand.waits([KNOB], "no call of a TensorBoard writer or MLflow client could be made later")
    waiting, background = list(TRACKERS), Background()

    def look(step: int) -> None:
        if step > LOOKS and step % EVERY:
            return
        for one in list(waiting):
            kind = getattr(sys.modules.get(one.module), one.kind, None)
            if isinstance(kind, type):
                waiting.remove(one)
                _adopt(hand, background, one, kind)

    look(0)
    hand.after_steps(look)
    hand.undo.append(background.calls.join)


def _adopt(hand: Hand, background: Background, tracker: Tracker, kind: type) -> None:
    for name, one in list(vars(kind).items()):
        if not inspect.isfunction(one) or one.__code__.co_flags & inspect.CO_VARARGS:
            continue
        if name in tracker.adds:
            hand.replace(kind, name, _adding(hand, background, tracker))
        elif not name.startswith("_"):
            hand.replace(kind, name, _waiting(hand, background))


def _adding(hand: Hand, background: Background, tracker: Tracker) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def add(self: Any, *args: Any, **kwargs: Any) -> Any:
            asked = None
            if not hand.child and not background.here:
                asked = hand.contained([KNOB], _asked, signature, tracker, (self, *args), kwargs)
                if asked is None:
                    background.wait()
            if asked is None:
                return original(self, *args, **kwargs)
            background.later(original, (), asked)
            hand.took(KNOB)
            return None

        return add

    return make


def _asked(
    signature: inspect.Signature, tracker: Tracker, args: Any, kwargs: Any
) -> dict[str, Any] | None:
    """The arguments by name, as they are now; None where it has to be called at once."""
    try:
        given = signature.bind(*args, **kwargs).arguments
        own = next(iter(signature.parameters))
        if given.get("synchronous") is False or given.get("kwargs"):
            return None
        made = {name: one if name == own else copied(one) for name, one in given.items()}
    except (TypeError, UnknownError):  # the script's own mistake is told as ever
        return None
    if tracker.time in signature.parameters and made.get(tracker.time) is None:
        now = time.time() / tracker.unit
        made[tracker.time] = int(now) if tracker.whole else now
    return made


def _waiting(hand: Hand, background: Background) -> Callable[..., Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not hand.child and not background.here:
                background.wait()
            return original(*args, **kwargs)

        return call

    return make
