"""The tf.data pipeline that a job waits for: its slowest stage, and whether that works or waits."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_waits import HANDOFF_CAREFUL_BYTES_PER_S
from whyidle.analysis.lines.source_lines import frame_place
from whyidle.analysis.steps.undisturbed_steps import cores_of_others
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Evidence, Place
from whyidle.model.pipeline_facts import Node, Pipeline, Stage

MAPS = re.compile(r"^(Parallel)?(Map|Interleave|FlatMap)")
"""nodes and stages that call a function of the job"""
PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
READS = frozenset({"ReadFile", "WholeFileReaderV2"})
RANDOM = re.compile(r"Random|Multinomial|StatefulUniform|RngReadAndSkip|SampleDistorted")
DECODES = re.compile(r"Decode|Parse|Resize|RandomCrop|AdjustContrast")
ARITHMETIC = re.compile(
    r"^(Placeholder|Const|Identity|NoOp|Cast|OneHot|Clip\w*|Add\w*|Sub|Mul|(Real)?Div|FloorDiv|Neg|Abs"
    r"|Square|Sqrt|Rsqrt|Pow|Exp|Log|Log1p|Tanh|Sigmoid|Maximum|Minimum|Floor|Round|Select\w*"
    r"|Greater\w*|Less\w*|Equal|NotEqual|Logical\w+)$"
)
"""operators that give the same for a batch as for each of its elements"""
SERIAL_INTERLEAVE = "Interleave"
GENERATOR = "flat_map_fn"
"""the function by which ``Dataset.from_generator`` runs a generator"""
AT_WORK = 0.5
"""cores that a pipeline keeps busy while a step waits for it, below which it mostly waits itself:
one thread that works is one core"""


@dataclass(frozen=True, slots=True)
class SlowStage:
    """The stage of a pipeline with most of the work on a batch."""

    pipeline: Pipeline
    node: Node
    stage: Stage | None  # None: tf.data made it, or its origin is unknown
    batch_s: float  # time of its work on a batch, on however many threads
    waits: bool | None
    """whether it waits (for storage, for a server) rather than works; None: not known"""

    @property
    def is_map(self) -> bool:
        """Whether it calls a function for each element."""
        return bool(MAPS.match(self.node.name))

    @property
    def is_serial(self) -> bool:
        """Whether it handles one element at a time, for good."""
        return is_serial(self.node)

    @property
    def is_python(self) -> bool:
        """Whether its function runs Python for each element."""
        return self.stage is not None and bool(PYTHON.intersection(self.stage.operators))

    @property
    def decodes(self) -> bool:
        """Whether its function decodes, parses or resizes, in operators of TensorFlow."""
        kinds = self.stage.operators if self.stage else ()
        return not self.is_python and any(map(DECODES.search, kinds))

    @property
    def is_batchable(self) -> bool:
        """Whether it computes for single elements what it could for a batch, and mostly pays for
        the calls: each operator would move the bytes of a batch in less than half of its time."""
        kinds = self.stage.operators if self.stage else ()
        moved_s = len(kinds) * self.node.bytes / HANDOFF_CAREFUL_BYTES_PER_S
        plain = bool(kinds) and all(map(ARITHMETIC.match, kinds)) and self.batch_size > 1
        plain = plain and not self.is_cached
        return plain and self.is_map and moved_s < MOSTLY * self.node.ns / 1e9

    @property
    def is_cached(self) -> bool:
        """Whether a cache behind it keeps its results, so that it works in the first epoch only."""
        nodes = self.pipeline.nodes
        return any("Cache" in one.name for one in nodes[: nodes.index(self.node)])

    @property
    def batch_size(self) -> int:
        """Elements of a batch that its function is called for."""
        nodes = self.pipeline.nodes
        index = nodes.index(self.node)
        if "Batch" in self.node.name and index + 1 < len(nodes):
            index += 1
        return max(1, round(nodes[index].elements / max(count_batches(nodes)[index], 1e-9)))

    @property
    def is_interleave(self) -> bool:
        """Whether it reads several sources in turn."""
        return "Interleave" in self.node.name

    def sets_pace(self, facts: Facts) -> bool:
        """Whether the time of its work explains that a step waits: as many calls at a time as it
        has, and has threads for, make a batch in about the time of a step. Calls that work need a
        core each, those in Python the interpreter's lock."""
        if self.is_cached:
            return False
        return self.batch_s / self.count_calls(facts) >= MOSTLY * facts.step_s

    def count_calls(self, facts: Facts) -> float:
        """Return how many calls of its function make progress at a time."""
        cores = facts.timeline.process.cores
        calls = 1.0 if self.is_serial else max(1.0, self.node.parallelism or 1.0)
        threads = self.pipeline.options.get("threads") or cores or calls
        if self.waits is False:
            threads = 1.0 if self.is_python else cores or calls
        return min(calls, max(1.0, threads))

    @property
    def epoch_bytes(self) -> int | None:
        """Bytes of all its results in an epoch; None where the length of an epoch is not known."""
        nodes, batches = self.pipeline.nodes, self.pipeline.batches
        made = count_batches(nodes)[nodes.index(self.node)]
        return round(self.node.bytes / made * batches) if batches and made else None

    def describe_work(self) -> str:
        """What its function does, by its operators, in words; empty if not known."""
        if self.stage is None or not self.stage.operators:
            return ""
        kinds = self.stage.operators
        if self.is_python:
            return "Python (numpy_function, py_function)"
        names = [kind for kind in kinds if kind in READS or DECODES.search(kind)]
        return ", ".join(names[:3])

    def place(self, rank: int | None) -> Place | None:
        """The line that makes the stage."""
        line = self.stage.line if self.stage else None
        return None if line is None else frame_place(line, rank)

    def code_place(self, rank: int | None) -> Place | None:
        """The function of the job that the stage calls."""
        code = self.stage.code if self.stage else None
        return None if code is None else frame_place(code, rank)

    def describe_call(self) -> str:
        """The call of the job in words."""
        return describe_stage(self.stage) or self.node.name


def is_serial(node: Node) -> bool:
    """Whether a node that calls a function handles one element at a time, for good. A plain
    interleave reads one source at a time, of as many as it cycles through."""
    calls = None if node.name == SERIAL_INTERLEAVE else node.parallelism
    fixed = node.name == SERIAL_INTERLEAVE or not node.tunable
    return bool(MAPS.match(node.name)) and fixed and (calls is None or calls <= 1)


def describe_stage(stage: Stage | None) -> str:
    """The call of a stage that calls a function of the job, in words; empty for others."""
    if stage is None or not MAPS.match(stage.name):
        return ""
    method = "interleave" if "Interleave" in stage.name else "map"
    return f"{method}({(stage.function or '').strip('<>')})"


def training_pipeline(facts: Facts) -> Pipeline | None:
    """The pipeline with most batches."""
    known = [one for one in facts.timeline.process.pipelines if one.nodes]
    return max(known, key=_taken_from, default=None)


def find_slow_stage(facts: Facts) -> SlowStage | None:
    """Return the stage with most of the work on a batch; None where no stage has most of it."""
    pipeline = training_pipeline(facts)
    batches = count_batches(pipeline.nodes) if pipeline else []
    if pipeline is None or not any(batches) or find_generator([pipeline]) is not None:
        return None  # tf.data does not count the time of a generator
    work = [
        node.ns / made / 1e9 if made else 0.0
        for node, made in zip(pipeline.nodes, batches, strict=True)
    ]
    index = max(range(len(work)), key=work.__getitem__)
    if work[index] < MOSTLY * sum(work):
        return None
    node, waits = pipeline.nodes[index], pipeline_waits(facts)
    slow = SlowStage(pipeline, node, stage_of(pipeline, node), work[index], waits)
    decodes = waits is None and is_crowded(facts) and slow.decodes  # it waits for a core, if at all
    return replace(slow, waits=False) if slow.is_batchable or decodes else slow


def count_batches(nodes: Sequence[Node]) -> list[float]:
    """Return for how many batches each node of a pipeline has worked, the last one first. Before
    ``repeat`` tf.data counts the epoch that runs now; what waits in a buffer is for batches that
    were not given yet."""
    batches = float(nodes[0].elements) if nodes else 0.0
    counted = []
    for node, before in zip(nodes, [*nodes[1:], None], strict=True):
        counted.append(batches)
        if before is not None and "Repeat" in node.name:
            batches *= before.elements / max(node.elements, 1)
        elif node.elements:
            batches *= 1.0 + node.buffered / node.elements
    return counted


def count_epochs(pipeline: Pipeline) -> int:
    """Return how often a pipeline has begun, by new iterators or by ``repeat``; 0 where the length
    of what is repeated is unknown."""
    nodes = [node for node in pipeline.nodes if "Repeat" in node.name]
    sizes = [stage.size for stage in pipeline.stages if stage.name == "Repeat"]
    if not sizes:
        return 0 if pipeline.batches is None else pipeline.iterators
    counts = [math.ceil(n.elements / size) for n, size in zip(nodes, sizes, strict=False) if size]
    for node, before in [] if counts else pairwise(pipeline.nodes):
        if "Repeat" in node.name and 0 < before.elements < node.elements:
            counts.append(2)  # at least: it gave more than the stage before it made in this epoch
    return max(pipeline.iterators, *counts) if counts else 0


def find_generator(pipelines: Sequence[Pipeline]) -> Stage | None:
    """Return the stage that runs a Python generator in the pipeline that most epochs took batches
    from, if there is one."""
    most = max(pipelines, key=_taken_from, default=Pipeline())
    return next((one for one in most.stages if one.function == GENERATOR), None)


def batched_elements(pipeline: Pipeline, stage: Stage | None) -> int:
    """Return how many elements of a stage ``batch`` behind it joins; 0 where that is not known."""
    stages = pipeline.stages
    behind = stages[: stages.index(stage)] if stage in stages else ()
    sizes = [max(one.size or 0, 0) for one in behind if one.name == "Batch"]
    return math.prod(sizes) if sizes else 0


def given_rows(pipelines: Sequence[Pipeline]) -> tuple[int, float] | None:
    """Return how many elements of that generator a batch has, and how long its own code takes for
    them (s); None where it gives whole batches, or its time is not known."""
    source = find_generator(pipelines)
    if source is None or (given := source.given) is None:
        return None
    size = batched_elements(max(pipelines, key=_taken_from), source)
    if not 1 < size <= given.elements:
        return None
    return size, size * given.ns / given.elements / 1e9


def _taken_from(pipeline: Pipeline) -> int:
    """Batches that were taken from a pipeline; without a model, epochs."""
    return (pipeline.nodes[0].elements if pipeline.nodes else 1) * max(pipeline.iterators, 1)


def stage_of(pipeline: Pipeline, node: Node) -> Stage | None:
    """The call that a node comes from: stages of the same kind, in the same order. Sources such as
    ``TFRecordDataset`` have a ``FlatMap`` of their own, which is no call of the job."""
    kind = _kind_of_map(node.name)
    nodes = [one for one in pipeline.nodes if _kind_of_map(one.name) == kind]
    stages = [one for one in pipeline.stages if _kind_of_map(one.name) == kind]
    return stages[nodes.index(node)] if kind and len(nodes) == len(stages) else None


def _kind_of_map(name: str) -> str | None:
    found = MAPS.match(name)
    return found[2] if found else None


def pipeline_waits(facts: Facts) -> bool | None:
    """Whether the pipeline mostly waits while a step waits for it. None: not known, as where other
    programs leave no core idle, and what works waits for a core."""
    worked, waited = pipeline_work(facts), facts.bucket_share("input")
    waits = worked is not None and worked / waited < AT_WORK
    return None if worked is None or (waits and is_crowded(facts)) else waits


def is_crowded(facts: Facts) -> bool:
    """Whether other programs are known to have left the job no idle core: by the machine's use, or
    as operators on the CPU, which need one core at least, had less."""
    lacking = facts.on_cpu and (pipeline_work(facts) or 0.0) < 0.0
    return lacking or (facts.telemetry is not None and cores_of_others(facts.telemetry) is not None)


def pipeline_work(facts: Facts) -> float | None:
    """Return the CPU time of the process beyond the work of the steps, as share of the step; None
    if not known, or where no step waits."""
    reads = facts.timeline.process.cpu
    waited = facts.bucket_share("input")
    if len(reads) < 2 or reads[-1][0] <= reads[0][0] or waited <= 0:
        return None
    return (reads[-1][1] - reads[0][1]) / (reads[-1][0] - reads[0][0]) - (1.0 - waited)


def stage_evidence(slow: SlowStage) -> tuple[Evidence, ...]:
    """What tf.data measured of the slow stage and of the last buffer."""
    node, source = slow.node, "tf.data's model"
    calls = 1 if node.parallelism is None or slow.is_serial else node.parallelism
    evidence = [
        make_evidence("slowest stage of the pipeline", node.name, None, source=source),
        make_evidence(
            "its work on a batch", slow.batch_s, "s", samples=node.elements, source=source
        ),
        make_evidence("elements that it handles at a time", calls, None, source=source),
    ]
    if work := slow.describe_work():
        evidence.append(make_evidence("its function calls", work, None, source="graph"))
    if slow.waits is not None:
        words = "waits (for storage, a server, a sleep)" if slow.waits else "works"
        evidence.append(make_evidence("meanwhile its code mostly", words, None, source="CPU time"))
    last = next((one for one in slow.pipeline.nodes if one.buffer), None)
    if last is not None:
        evidence.append(make_evidence("batches ready at the last look", last.buffered, None))
    return tuple(evidence)
