"""What tf.data pipelines are made of, and what tf.data measures of them: ``PID.tfdata.json``.

Every dataset notes the line of the job that makes it. The pipeline of an iterator is described when
a traced function or the job's own loop takes its first batch, from the dataset objects (functions,
operators in them, parallel calls) and later from tf.data's model (time per element, parallelism,
fill of buffers).
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...core.events import Events
from ...core.own_files import FOLDER
from ...core.wrapped_functions import set_attribute

LINE = "_whyidle_line"
"""attribute of a dataset: the line of the job that made it"""
GIVEN = "_whyidle_given"
"""the same: what the job's generator behind it gave, and how long its own code took"""
INSTALLED = ("site-packages", "dist-packages", "lib/python3", "<frozen")
"""parts of the names of files that are not the job's own"""
REPEAT = "Repeat"
"""the stage whose input is an epoch"""
MOST_STAGES = 32


class Pipelines:
    """The pipelines of one process."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.described: list[dict[str, Any]] = []
        self.numbers: dict[str, int] = {}
        """what a pipeline is made of -> its number"""
        self.current: Any = None
        """the iterator that a loop of the job's own takes batches from, until its model is read"""
        self.modelless = "IteratorGetModelProto" not in _raw_operators()
        """whether this version of TensorFlow tells no model"""

    def note_iterator(self, iterator: Any, consumer: str) -> None:
        """Describe the pipeline of an iterator that batches are taken from, unless it is known."""
        dataset = getattr(iterator, "_dataset", None)
        if dataset is None or getattr(iterator, "_whyidle_pipeline", None) is not None:
            return
        parts = walk_inputs(dataset)
        key = repr([(type(one).__name__, vars(one).get(LINE)) for one in parts])
        number = self.numbers.get(key)
        if number is None and len(self.described) < 8:
            number = self.numbers[key] = len(self.described)
            made = {"consumer": consumer, "iterators": 0, "nodes": []}
            made["stages"] = [describe_stage(one) for one in parts]
            made["options"] = describe_options(dataset)
            made["batches"] = _static_length(dataset)
            self.described = [*self.described, made]
        iterator._whyidle_pipeline = -1 if number is None else number
        if number is not None:
            self._update(number, iterators=self.described[number]["iterators"] + 1)

    def batches_of(self, iterator: Any) -> int | None:
        """Return how many batches an iterator gives; None if that is not known."""
        number = getattr(iterator, "_whyidle_pipeline", -1)
        return self.described[number]["batches"] if number >= 0 else None

    def _update(self, number: int, **facts: Any) -> None:
        made = {**self.described[number], **facts}
        self.described = [*self.described[:number], made, *self.described[number + 1 :]]
        self.events.recorder.documents["tfdata.json"] = {
            "pipelines": self.described,
            "model": not self.modelless,
        }

    def read_model(self, iterator: Any) -> Any:
        """Return tf.data's model of an iterator; None if there is none."""
        if iterator is None or self.modelless or getattr(iterator, "_whyidle_modelless", False):
            return None
        from tensorflow.core.framework import model_pb2
        from tensorflow.python.framework import errors_impl

        resource = getattr(iterator, "_iterator_resource", None)
        if resource is None:
            return None
        try:
            text = _raw_operators()["IteratorGetModelProto"](iterator=resource).numpy()
        except errors_impl.NotFoundError:  # tuning is off
            iterator._whyidle_modelless = True
            return None
        model = model_pb2.ModelProto.FromString(text)
        number = getattr(iterator, "_whyidle_pipeline", -1)
        if number >= 0 and model.gap_times:
            nodes = describe_nodes(model)
            if sum_work(nodes) >= sum_work(self.described[number]["nodes"]):
                self._update(number, nodes=nodes)
        return model

    def read_current(self) -> None:
        """Read the model of the iterator that a loop takes batches from, and let go of it."""
        iterator, self.current = self.current, None
        self.read_model(iterator)

    def count_elements(self, model: Any) -> int:
        """Return how many batches an iterator has given."""
        return int(model.nodes[model.output].num_elements)


def _raw_operators() -> Any:
    return vars(sys.modules["tensorflow"].raw_ops)


def walk_inputs(dataset: Any) -> list[Any]:
    """Return a dataset and all that it is made of, the last stage first."""
    found: list[Any] = []
    waiting = [dataset]
    while waiting and len(found) < MOST_STAGES:
        one = waiting.pop(0)
        found.append(one)
        waiting += one._inputs()
    return found


def describe_stage(dataset: Any) -> dict[str, Any]:
    """Return what a dataset does: its class, its line, its function, and how many calls of that run
    at a time (-1: tf.data decides; None: one by one, unless tf.data makes it parallel)."""
    functions = dataset._functions() if hasattr(dataset, "_functions") else []
    python = getattr(functions[0], "_func", None) if functions else None
    code = getattr(python, "__code__", None)
    name = type(dataset).__name__.strip("_").removesuffix("Dataset").removesuffix("V2")
    size = getattr(dataset, "_batch_size", getattr(dataset, "_buffer_size", None))
    return {
        "name": name,
        "line": vars(dataset).get(LINE),
        "function": getattr(python, "__name__", None),
        "code": f"{code.co_filename}({code.co_firstlineno}): {code.co_name}" if code else None,
        "given": vars(dataset).get(GIVEN),
        "calls": _static_value(getattr(dataset, "_num_parallel_calls", None)),
        "size": _static_length(dataset._inputs()[0]) if name == REPEAT else _static_value(size),
        "operators": list_operators(functions),
    }


def list_operators(functions: list[Any]) -> list[str]:
    """Return the kinds of operators in the functions of a stage."""
    kinds: dict[str, None] = {}
    for wrapper in functions:
        graph = wrapper.function.graph
        for operator in graph.get_operations():
            kinds[operator.type] = None
        for inner in list(getattr(graph, "_functions", {}).values())[:MOST_STAGES]:
            definition = getattr(inner, "cached_definition", None)
            for node in getattr(definition, "node_def", ()):
                kinds[node.op] = None
    return list(kinds)[:60]


def describe_options(dataset: Any) -> dict[str, Any]:
    """Return the options of a dataset that its job has set."""
    options = dataset.options()
    chosen = {
        "threads": options.threading.private_threadpool_size,
        "autotune": options.autotune.enabled,
        "deterministic": options.deterministic,
    }
    return {name: int(value) for name, value in chosen.items() if value is not None}


def describe_nodes(model: Any) -> list[dict[str, Any]]:
    """Return what tf.data's model knows of each stage, the last one first."""
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    waiting = [model.output]
    while waiting and len(found) < MOST_STAGES:
        number = waiting.pop(0)
        if number in seen or number not in model.nodes:
            continue
        seen.add(number)
        node = model.nodes[number]
        waiting += list(node.inputs)
        settings = {one.name: one for one in node.parameters}
        calls = settings.get("parallelism") or settings.get("cycle_length")
        buffer = settings.get("buffer_size")
        found.append(
            {
                "name": node.name,
                "elements": node.num_elements,
                "ns": node.processing_time,
                "parallelism": None if calls is None else calls.value,
                "tunable": None if calls is None else calls.tunable,
                "buffered": node.buffered_elements,
                "buffer": None if buffer is None else buffer.value,
                "bytes": node.bytes_produced,
            }
        )
    return found


def sum_work(nodes: list[dict[str, Any]]) -> int:
    """Return the time of all stages. Where an epoch of ``repeat`` ends, tf.data forgets the stages
    before it: the look that saw most of them tells most."""
    return sum(node["ns"] for node in nodes)


def _static_value(tensor: Any) -> int | None:
    if tensor is None:
        return None
    from tensorflow.python.framework import tensor_util

    value = tensor if isinstance(tensor, int) else tensor_util.constant_value(tensor)
    return None if value is None else int(value)


def _static_length(dataset: Any) -> int | None:
    length = int(dataset.cardinality().numpy())
    return length if length >= 0 else None


def install_dataset_hooks(events: Events) -> None:
    """Note the line of the job that makes each dataset."""
    from tensorflow.python.data.ops import dataset_ops

    original = dataset_ops.DatasetV2.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        events.run_contained("datasets", note_line, self)

    events.undo["datasets"] = set_attribute(dataset_ops.DatasetV2, "__init__", __init__)
    make_dataset = dataset_ops.DatasetV2.from_generator

    @functools.wraps(make_dataset)
    def from_generator(generator: Any, *args: Any, **kwargs: Any) -> Any:
        given = {"elements": 0, "ns": 0}
        timed = time_generator(generator, given) if callable(generator) else generator
        dataset = make_dataset(timed, *args, **kwargs)
        setattr(dataset, GIVEN, given)
        return dataset

    events.undo["generators"] = set_attribute(
        dataset_ops.DatasetV2, "from_generator", staticmethod(from_generator)
    )


def time_generator(generator: Callable[..., Any], given: dict[str, int]) -> Callable[..., Any]:
    """Return a generator function that also notes how long the job's own code takes."""
    clock = time.perf_counter_ns

    @functools.wraps(generator)
    def give_elements(*args: Any) -> Any:
        elements = iter(generator(*args))
        while True:
            begin = clock()
            try:
                element = next(elements)
            except StopIteration:
                return
            given["ns"] += clock() - begin
            given["elements"] += 1
            yield element

    return give_elements


def note_line(dataset: Any) -> None:
    """Note the line of the job that makes a dataset."""
    line = find_own_line(sys._getframe(1))
    if line is not None:
        setattr(dataset, LINE, line)


def find_own_line(frame: FrameType | None) -> str | None:
    """Return the innermost line, from this frame outwards, that is of no installed package."""
    while frame is not None:
        file = frame.f_code.co_filename
        if not any(part in file for part in INSTALLED) and not file.startswith(FOLDER):
            return f"{file}({frame.f_lineno}): {frame.f_code.co_name}"
        frame = frame.f_back
    return None
