"""Records requests for batches of Grain, the loader that JAX's documentation uses.

Its datasets are chains of iterators, each of which asks the one before: only the outermost request
on the thread that trains is a batch.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...core.events import Events
from ...core.import_hooks import call_after_import
from ...core.recorder import clock_ns
from ...core.wrapped_functions import set_attribute

HOOK = "grain"
LOADER, DATASET = "grain._src.python.data_loader", "grain._src.python.dataset.dataset"


class BatchRequests:
    """The requests of one process."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.inside = False

    def watch(self, kind: Any) -> Callable[[], None]:
        """Record the requests to iterators of a class; return what stops that."""
        events, original = self.events, kind.__next__

        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:  # noqa: N807
            own = threading.get_ident() == (events.home or threading.main_thread().ident)
            if self.inside or not own or HOOK in events.off:
                return original(iterator)
            self.inside, begin = True, clock_ns()
            try:
                return original(iterator)
            finally:
                self.inside = False
                events.run_contained(HOOK, events.batch_taken, type(iterator), begin)

        return set_attribute(kind, "__next__", __next__)


def install_batch_hooks(events: Events) -> None:
    """Watch Grain's iterators once the job imports them."""
    requests = BatchRequests(events)
    undoes: list[Callable[[], None]] = []

    def watch_loader(module: Any) -> None:
        undoes.append(requests.watch(module.DataLoaderIterator))

    def watch_datasets(module: Any) -> None:
        base = module.DatasetIterator
        undoes.extend(requests.watch(kind) for kind in _subclasses(base))
        made = base.__dict__.get("__init_subclass__")

        def watch_subclass(kind: Any, /, **kwargs: Any) -> None:
            super(base, kind).__init_subclass__(**kwargs)
            if "__next__" in vars(kind):
                undoes.append(requests.watch(kind))

        if made is None:
            undoes.append(set_attribute(base, "__init_subclass__", classmethod(watch_subclass)))

    stops = [
        call_after_import(LOADER, "DataLoaderIterator", watch_loader),
        call_after_import(DATASET, "DatasetIterator", watch_datasets),
    ]
    events.undo[HOOK] = lambda: [undo() for undo in (*stops, *undoes)]


def _subclasses(base: Any) -> Iterator[Any]:
    for kind in base.__subclasses__():
        if "__next__" in vars(kind):
            yield kind
        yield from _subclasses(kind)
