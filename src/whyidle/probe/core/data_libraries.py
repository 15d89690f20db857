"""Records requests for batches of data libraries that a training loop iterates itself: Grain,
Hugging Face ``datasets``, WebDataset and DALI.

Their iterators ask each other, and PyTorch's DataLoader asks them: only requests of the job's own
code on the thread that trains are recorded.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .. import wire
from .events import Events
from .import_hooks import call_after_import
from .recorder import clock_ns
from .wrapped_functions import set_attribute

HOOK = "data libraries"
ASKERS = frozenset({"torch", "datasets", "webdataset", "grain", "nvidia", "tensorflow", "keras"})
"""packages whose code asks on behalf of a loader or another iterator"""


class Library(NamedTuple):
    """Where a class of iterables is defined, and which of its methods give batches.
    ``subclasses``: subclasses have methods of their own."""

    module: str
    owner: str
    methods: tuple[str, ...]
    subclasses: bool = False


LIBRARIES = (
    Library("grain._src.python.data_loader", "DataLoaderIterator", ("__next__",)),
    Library("grain._src.python.dataset.dataset", "DatasetIterator", ("__next__",), True),
    Library("nvidia.dali.plugin.base_iterator", "_DaliBaseIterator", ("__next__",), True),
    Library("datasets.arrow_dataset", "Dataset", ("__iter__", "iter")),
    Library("datasets.iterable_dataset", "IterableDataset", ("__iter__", "iter")),
    Library("webdataset.pipeline", "DataPipeline", ("__iter__",)),
)


class BatchRequests:
    """The requests of one process."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.inside = False
        self.undoes: list[Callable[[], None]] = []

    def watch_library(self, library: Library, module: Any) -> None:
        """Watch a class of a module, and its present and future subclasses."""
        base = getattr(module, library.owner)
        for kind in (base, *(_subclasses(base) if library.subclasses else ())):
            self._watch_class(kind, library.methods)
        if library.subclasses and "__init_subclass__" not in vars(base):

            def watch_subclass(kind: Any, /, **kwargs: Any) -> None:
                super(base, kind).__init_subclass__(**kwargs)
                self.events.run_contained(HOOK, self._watch_class, kind, library.methods)

            self.undoes.append(
                set_attribute(base, "__init_subclass__", classmethod(watch_subclass))
            )

    def _watch_class(self, kind: Any, methods: tuple[str, ...]) -> None:
        for method in methods:
            if method in vars(kind):
                wrap = self._wrap_next if method == "__next__" else self._wrap_generator
                self.undoes.append(set_attribute(kind, method, wrap(vars(kind)[method])))

    def _wrap_next(self, original: Any) -> Any:
        @functools.wraps(original)
        def __next__(iterator: Any) -> Any:  # noqa: N807
            return self._request(type(iterator), original, iterator)

        return __next__

    def _wrap_generator(self, original: Any) -> Any:
        @functools.wraps(original)
        def iterate(owner: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
            batches = original(owner, *args, **kwargs)
            if HOOK in self.events.off or _has_loader(owner):
                return batches
            return self._pass_on(type(owner), batches)

        return iterate

    def _pass_on(self, kind: type, batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            try:
                batch = self._request(kind, next, batches)
            except StopIteration:
                return
            yield batch

    def _request(self, kind: type, call: Callable[..., Any], *args: Any) -> Any:
        """Make a request, and record it if the job's own code asks, or no known library."""
        events = self.events
        own = threading.get_ident() == (events.home or threading.main_thread().ident)
        if self.inside or not own or HOOK in events.off or _asker(kind) in ASKERS:
            return call(*args)
        self.inside, begin = True, clock_ns()
        try:
            return call(*args)
        finally:
            self.inside = False
            events.run_contained(HOOK, self._record, kind, begin)

    def _record(self, kind: type, begin: int) -> None:
        if kind not in self.events.numbers:
            label = f"{kind.__module__}.{kind.__qualname__}"
            number = self.events.recorder.name_number(label, wire.BATCH_FROM_ITERATOR)
            self.events.numbers[kind] = number
        self.events.batch_taken(kind, begin)


def _asker(kind: type) -> str:
    """The package whose code asks an iterable: the first but the iterable's own."""
    own, package = kind.__module__.partition(".")[0], ""
    frame = sys._getframe(2).f_back
    # its own wrappers stand between its iterator and who asks
    for _ in range(4):
        if frame is None:
            break
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package != own:
            break
        frame = frame.f_back
    return package


def install_data_libraries(events: Events) -> None:
    """Watch each library once the job imports it."""
    requests = BatchRequests(events)
    stops = [
        call_after_import(
            library.module,
            library.owner,
            functools.partial(events.run_contained, HOOK, requests.watch_library, library),
        )
        for library in LIBRARIES
    ]
    events.undo[HOOK] = lambda: [undo() for undo in (*stops, *requests.undoes)]


def _has_loader(owner: Any) -> bool:
    """Whether a pipeline of WebDataset begins with a loader, whose requests are recorded."""
    stages = getattr(owner, "pipeline", None)
    return isinstance(stages, list) and bool(stages) and hasattr(stages[0], "num_workers")


def _subclasses(base: Any) -> Iterator[Any]:
    for kind in base.__subclasses__():
        yield kind
        yield from _subclasses(kind)
