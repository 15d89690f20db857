"""The host plane of a profile: the framework's and the driver's calls on each thread, the steps,
and the waits for input."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from whyidle.model.timeline import HostKind
from whyidle.readers._events.event_rows import FEWEST_STEPS, EventRows, merge_spans
from whyidle.readers.xplane.xplane_devices import STEP_NUMBER
from whyidle.readers.xplane.xspace import Line, Plane

I64 = NDArray[np.int64]
_DRIVER_LINE: Final = "Host Threads/"
_DRIVER: Final = re.compile(r"^(cu|cuda|hip)[A-Z]\w+$")
_WAIT: Final = re.compile(
    r"::Await$|^np\.asarray\(jax\.Array\)|[Bb]lock_?([Hh]ost)?_?[Uu]ntil_?[Rr]eady|AwaitReady|"
    r"TFE_TensorHandleResolve|TransferLiteralFromDevice"
)
_INPUT_WAIT: Final = re.compile(
    r"IteratorGetNext(Sync|AsOptional)?Op::DoCompute|^EagerLocalExecute: IteratorGetNext"
)
_INPUT_THREAD: Final = re.compile(r"^tf_data_")
_ITERATOR: Final = re.compile(r"Iterator|:(Optional\w+|PyFunc|EagerPyFunc)$")
_OPERATOR: Final = re.compile(r"^EagerLocalExecute: (?!__inference|Iterator|Optional)")
_COMPUTE: Final = re.compile(r"^ThunkExecutor::Execute$")
_FRAME: Final = re.compile(
    r"^\$(?:(?P<file>\S+\.py):(?P<line>\d+)|(?P<module>\S+)) (?P<function>.*)"
)
_CALL: Final = re.compile(r"^PjitFunction\(.*\)$")
_DIRECTION: Final = re.compile(r"Memcpy\w*?(HtoD|DtoH|DtoD)", re.I)
_CALLED: Final = re.compile(r"^(StatefulPartitionedCall/)+")
"""how TensorFlow begins the names of operators in a function"""
OUTSIDE: Final = "Python outside the framework"


class HostReader:
    """Appends the calls of a host plane's threads.

    What computes is an operator. The framework's own calls belong to the runtime on the host of a
    device, which they feed; on a CPU they are Python's, as they keep the main thread from its work.
    """

    def __init__(
        self, plane: Plane, rows: EventRows, operations: Mapping[str, str], *, on_device: bool
    ) -> None:
        self.plane, self.rows, self.on_device = plane, rows, on_device
        self.operations = operations
        """operations of compiled programs -> what they are called"""
        self.lines = plane.lines
        self.main = max(plane.lines, key=_weigh_line, default=None)
        """the thread that runs the steps"""

    def add_all(self, *, marked: bool) -> dict[int, str]:
        """Append everything; ``marked`` if the steps are known already.

        Returns:
            correlation id -> direction (``HtoD``) of each copy call.
        """
        directions: dict[int, str] = {}
        if self.main is None:
            return directions
        for line in self.lines:
            own = self._enclosing_line(line) if line.name.startswith(_DRIVER_LINE) else line
            self._add_calls(line, self.rows.threads[own.name], directions)
        self._add_input_waits()
        if not marked:
            self._add_steps()
        self._add_python()
        return directions

    def _enclosing_line(self, driver: Line) -> Line:
        """The thread whose driver calls are recorded on a line of their own."""

        def count_enclosed(line: Line) -> int:
            called = self._find(line, lambda text: not text.startswith("$"))
            start, end = merge_spans(line.start[called], line.end[called])
            opened = np.searchsorted(start, driver.start, side="right")
            return int((opened > np.searchsorted(end, driver.start, side="right")).sum())

        others = [line for line in self.lines if not line.name.startswith(_DRIVER_LINE)]
        counts = [count_enclosed(line) for line in others]
        most = max(counts, default=0)
        return others[counts.index(most)] if 2 * most > len(driver.metadata) else driver

    def _find(self, line: Line, wanted: Callable[[str], object]) -> I64:
        """Rows of the events with a length whose names are wanted."""
        numbers = np.unique(line.metadata).tolist()
        chosen = [number for number in numbers if wanted(self.plane.event_name(number))]
        return np.flatnonzero(np.isin(line.metadata, chosen) & (line.length_ps >= 0))

    def _add_calls(self, line: Line, thread: int, directions: dict[int, str]) -> None:
        for number in np.unique(line.metadata).tolist():
            events = np.flatnonzero((line.metadata == number) & (line.length_ps >= 0))
            kind = self._kind_of(line, number, events)
            if kind is None:
                continue
            name = self.plane.event_name(number)
            links = np.full(len(events), -1, dtype=np.int64)
            if kind is HostKind.RUNTIME:
                for i, row in enumerate(events.tolist()):
                    link = self.plane.event_stats(line.spans[row]).get("correlation_id", -1)
                    links[i] = link if isinstance(link, int) and link < 1 << 62 else -1
                if copied := _DIRECTION.search(name):
                    directions.update(dict.fromkeys(links.tolist(), copied[1]))
            self.rows.add_host(
                line.start[events],
                line.end[events],
                kind=kind,
                name=self.rows.names[self.operations.get(name) or _frame_name(name)],
                thread=thread,
                corr=links,
            )

    def _kind_of(self, line: Line, number: int, events: I64) -> HostKind | None:
        """The kind of all events of a name on a thread; None: no evidence."""
        name = self.plane.event_name(number)
        if not len(events) or _INPUT_THREAD.match(line.name) or name.startswith("end: "):
            return None
        if _DRIVER.match(name) or _WAIT.search(name):
            return HostKind.RUNTIME
        if name.startswith("$"):
            return HostKind.PYTHON
        stats = self.plane.event_stats(line.spans[int(events[0])])
        if "step_num" in stats:
            return None
        if self._computes(name, number) or "hlo_op" in stats:
            return HostKind.OP
        if self.on_device:
            return HostKind.OP if _CALL.match(name) else HostKind.RUNTIME
        return HostKind.PYTHON if line is self.main else None

    def _computes(self, name: str, number: int) -> bool:
        if _ITERATOR.search(name):
            return False
        operator = self.plane.events[number].display_name if number in self.plane.events else ""
        return bool(operator or _OPERATOR.match(name) or _COMPUTE.match(name))

    def _add_input_waits(self) -> None:
        """Waits for the next batch, wherever the framework waits: the step needs it."""
        assert self.main is not None
        for line in self.lines:
            waits = self._find(line, _INPUT_WAIT.search)
            self._add_marks(line, waits, "IteratorGetNext")

    def _add_marks(self, line: Line, events: I64, name: str | list[str]) -> None:
        assert self.main is not None
        names = self.rows.name_codes([name] * len(events) if isinstance(name, str) else name)
        self.rows.add_host(
            line.start[events],
            line.end[events],
            kind=HostKind.ANNOTATION,
            name=names,
            thread=self.rows.threads[self.main.name],
        )

    def _add_steps(self) -> None:
        """The steps that the user marked; else the calls of the compiled function that takes most
        of the time."""
        if not self._add_marked_steps():
            assert self.main is not None
            line = self.main
            calls = self._find_step_calls(line)
            if len(calls) >= FEWEST_STEPS:
                name = self.plane.event_name(int(line.metadata[calls[0]]))
                self._add_marks(line, calls, f"step of {name}")

    def _add_marked_steps(self) -> bool:
        """Steps of ``StepTraceAnnotation`` (JAX) and ``Trace`` (TensorFlow), which have ``_r``, and
        of Keras' TensorBoard callback."""
        best: tuple[Line, I64, list[str]] | None = None
        for line in self.lines:
            for number in np.unique(line.metadata).tolist():
                events = np.flatnonzero((line.metadata == number) & (line.length_ps >= 0))
                if not len(events):
                    continue
                if "step_num" not in self.plane.event_stats(line.spans[int(events[0])]):
                    continue
                stats = [self.plane.event_stats(line.spans[row]) for row in events.tolist()]
                name = self.plane.event_name(number)
                names = [f"{name}{STEP_NUMBER}{values.get('step_num', '')}" for values in stats]
                if best is None or len(events) > len(best[1]):
                    best = line, events, names
        if best is None:
            return False
        self._add_marks(*best)
        return True

    def _find_step_calls(self, line: Line) -> I64:
        """Outermost calls of the compiled function with the longest total time, if that is a good
        part of all: operators that are called one by one are functions, too, but no steps."""

        def is_function(number: int) -> bool:
            row = int(np.flatnonzero(line.metadata == number)[0])
            return "tf_function_call" in self.plane.event_stats(line.spans[row])

        numbers = np.unique(line.metadata).tolist()
        functions = [n for n in numbers if _CALL.match(self.plane.event_name(n)) or is_function(n)]
        best, longest = np.empty(0, np.int64), 0
        for number in functions:
            calls = np.flatnonzero((line.metadata == number) & (line.length_ps > 0))
            calls = calls[np.argsort(line.start[calls], kind="stable")]
            ends = np.maximum.accumulate(line.end[calls])
            outermost = np.r_[True, line.start[calls][1:] >= ends[:-1]] if len(calls) else []
            calls = calls[outermost]
            total = int((line.end[calls] - line.start[calls]).sum())
            if len(calls) >= FEWEST_STEPS and total > longest:
                best, longest = calls, total
        called = np.isin(line.metadata, functions) & (line.length_ps > 0)
        start, end = merge_spans(line.start[called], line.end[called])
        # each of two networks that are trained in turn has more than a third
        return best if longest * 3 > (end - start).sum() else best[:0]

    def _add_python(self) -> None:
        """Time of the main thread outside all calls of the framework, if Python was not traced."""
        assert self.main is not None
        line = self.main
        if len(self._find(line, lambda text: text.startswith("$"))):
            return
        steps = [
            number
            for number in np.unique(line.metadata).tolist()
            if "step_num" in self.plane.event_stats(line.spans[_first_row(line, number)])
        ]
        inside = np.flatnonzero((line.length_ps >= 0) & ~np.isin(line.metadata, steps))
        start, end = merge_spans(line.start[inside], line.end[inside])
        self.rows.add_host(
            end[:-1],
            start[1:],
            kind=HostKind.PYTHON,
            name=self.rows.names[OUTSIDE],
            thread=self.rows.threads[line.name],
        )


def _first_row(line: Line, number: int) -> int:
    return int(np.argmax(line.metadata == number))


def _weigh_line(line: Line) -> tuple[bool, float]:
    """Steps run on a thread of Python; of several, on the one that calls the framework longest."""
    return line.name.startswith("python"), float(np.maximum(line.length_ps, 0).sum(dtype=float))


def _frame_name(name: str) -> str:
    """A traced function as PyTorch's profiler writes it: ``train.py(12): step``. Operators have
    the name that they have in their function."""
    match = _FRAME.match(name)
    if match is None:
        return _CALLED.sub("", name)
    if match["file"]:
        return f"{match['file']}({match['line']}): {match['function']}"
    return f"{match['module']}: {match['function']}"
