"""Facts about pipelines of tf.data: their stages as the job wrote them, and the nodes that tf.data
made of them, with its own measurements. None: not recorded, or not fixed by the job."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class Given(Struct, frozen=True):
    """What a generator of the job gave, and how long its own code took."""

    elements: int = 0
    ns: int = 0


class Stage(Struct, frozen=True):
    """One call of the job that adds to a pipeline, such as ``map``. Places are
    ``file(line): function``."""

    name: str = ""
    line: str | None = None  # that makes it
    function: str | None = None  # that it calls for each element
    code: str | None = None  # where that begins
    calls: int | None = None  # at a time; -1: tf.data decides
    size: int | None = None  # of batches, of a buffer, of what is repeated
    operators: tuple[str, ...] = ()  # kinds of operators in its function
    given: Given | None = None  # of ``from_generator``


class Node(Struct, frozen=True):
    """One node of the pipeline as tf.data runs it."""

    name: str = ""
    elements: int = 0
    ns: int = 0  # time in its own work, summed over all threads
    parallelism: float | None = None
    tunable: bool | None = None  # whether tf.data chooses the parallelism
    buffered: int = 0  # elements that were ready when it was looked at
    buffer: float | None = None  # most elements that may be ready
    bytes: int = 0  # of all elements


class Pipeline(Struct, frozen=True):
    """A pipeline: what is last in it comes first."""

    consumer: str = ""  # what takes its batches
    stages: tuple[Stage, ...] = ()
    nodes: tuple[Node, ...] = ()
    options: Mapping[str, int] = field(default_factory=dict)  # that the job has set
    batches: int | None = None  # of an epoch
    iterators: int = 0  # epochs begun


class PyDataset(Struct, frozen=True):
    """A dataset of Keras that makes whole batches by their numbers, or a generator given to it."""

    making: str | None = None  # where it makes a batch, ``file(line): function``
    workers: int = 1  # threads or processes that make batches; 0: a generator
    batches: int | None = None  # of an epoch
