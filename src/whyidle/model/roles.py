"""Roles: the meaning of host events, stack frames and operators, for every framework.

A recording contains names in the spelling of a framework. Analysis, causes and fixes use roles
only. A name has a role if the recording process gave it one (``Timeline.roles``), or if a rule of
the framework's ``Vocabulary`` matches it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from whyidle.model.operators import Operator


class Role(str, Enum):
    """The meaning of a host event, a stack frame or an operator."""

    # batches
    LOADER = "loader"  # the thread makes the next batch, or waits for it
    BATCH_REQUEST = "batch_request"  # a recorded call for the next batch
    BATCH_INLINE = "batch_inline"  # such a call that makes the batch in the training process
    BATCH_FROM_WORKERS = "batch_from_workers"
    """such a call that takes the batch from a worker process"""
    LOADER_START = "loader_start"  # an iterator over batches is made, which may start workers
    WORKER_START = "worker_start"  # a process is started
    PRODUCER = "producer"
    """the thread waits for what another process or thread of the job makes; found by analysis"""
    PREPROCESS = "preprocess"  # samples are read, decoded, transformed or joined

    # the step
    STEP_MARKED = "step_marked"  # the script marks the end of a step
    PROFILER_STEP = "profiler_step"  # the framework's profiler marks a step
    TRAINING_STEP = "training_step"  # a trainer, or the script, annotates a step
    SERVING_STEP = "serving_step"
    """a serving engine annotates a step; the named part of the pattern is the engine"""
    SERVING_DECODE = "serving_decode"
    SERVING_PREFILL = "serving_prefill"
    BENCHMARK = "benchmark"  # measures operators, one by one
    OPTIMIZER = "optimizer"  # a whole optimizer step; its label is the optimizer's class
    OPTIMIZER_CALL = "optimizer_call"  # any call of the optimizer: a step, or gradients set to zero
    OPTIMIZER_OPERATORS = "optimizer_operators"  # the operators of an optimizer step
    BACKWARD = "backward"  # a whole backward pass
    BACKWARD_NODE = "backward_node"  # the gradient of one operator
    OPERATOR_GRADIENT = "operator_gradient"  # the same, of what is no recomputation
    FRAMEWORK_MARK = "framework_mark"  # a mark around operators, none itself
    RECOMPUTATION = "recomputation"
    """activations are computed again; gradients may be computed within"""

    EXECUTION = "execution"  # the device runs a compiled step, beside the thread that called it
    DEVICE_IDLE = "device_idle"  # ends when the device was found idle; begins when it last was not

    # interruptions
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    EVALUATION_WHOLE = "evaluation_whole"
    """a whole evaluation without gradients, as a watched process marks it"""
    EVALUATION_BATCH = "evaluation_batch"  # the evaluation of one batch
    EVALUATION_WITH_GRADIENTS = "evaluation_with_gradients"
    LOGGING = "logging"
    CALLBACK = "callback"  # a trainer calls the job's callbacks, once for each batch
    TRACKER = "tracker"  # a tracker whose calls can be made beside the training
    TRACKER_SERVER = "tracker_server"  # a tracker that sends every call to a server
    HISTOGRAM = "histogram"
    PLOT = "plot"
    GC = "gc"
    GC_CALL = "garbage_collection_call"  # the script calls the garbage collector
    COMPILE = "compile"  # code is compiled, or loaded onto the device
    COMPILER = "compiler"  # the compiler of models is at work
    RECOMPILE = "recompile"  # a watched process compiles a function once more
    COMPILED_CALL = "compiled_call"  # a compiled graph of the model runs
    CODE_WRITER = "code_writer"  # the compiler of models writes code, which a cache can keep
    COMPILER_CALL = "compiler_call"  # a call of that compiler from outside
    ALLOCATOR = "allocator"  # device memory is asked from the driver, or given back to it
    DEVICE_ALLOCATION = "device_allocation"
    DEVICE_FREE = "device_free"
    CACHE_RELEASE = "cache_release"  # the framework gives cached device memory back
    STARTUP = "startup"
    AFTER = "after"  # after the last step
    BLOCKED = "blocked"
    LOCKED = "locked"
    SAMPLED = "sampled"  # an event that stack samples made, and no recorded call
    PROBE = "probe"  # what whyidle recorded of a thread itself: no function of anybody's

    # the device and other ranks
    SYNC = "sync"  # the host waits for the device
    DEVICE_READ = "device_read"
    """a watched process waits for its device, or for a value that lies there"""
    COPY_CALL = "copy_call"
    LAUNCH_CALL = "launch_call"
    KERNEL_LAUNCH = "kernel_launch"
    GRAPH_LAUNCH = "graph_launch"
    CAPTURE_BEGIN = "capture_begin"  # calls between it and the end make a graph, no kernels
    CAPTURE_END = "capture_end"
    COLLECTIVE_WAIT = "collective_wait"
    COLLECTIVE_FLIGHT = "collective_flight"  # from the call of a collective to its end, on the host
    COLLECTIVE_SPAN = "collective_span"  # the same, whatever carries it
    COLLECTIVE_CALL = "collective_call"
    COLLECTIVE_RECORD = "collective_record"  # a note of a collective or its arguments: no work
    HOST_EXCHANGE = "host_exchange"  # a collective over the host's network, barriers aside
    HOST_ALL_REDUCE = "host_all_reduce"
    GRADIENT_EXCHANGE = "gradient_exchange"  # one all-reduce of gradients
    REPLICA_FORWARD = "replica_forward"
    """the forward pass of a replica whose gradients are exchanged"""
    GRADIENT_SEARCH = "gradient_search"  # a search for the parameters that get no gradient
    GRADIENT_COPY = "gradient_copy"
    """gradients are copied out of the buckets in which they were exchanged"""
    GRADIENT_SCALE = "gradient_scale"
    """gradients are copied into such buckets, and divided by the ranks"""
    REPLICATION = "replication"  # one process spreads batch and model over several devices

    # operators
    CONVOLUTION = "convolution"
    CONVOLUTION_GRADIENTS = "convolution_gradients"
    CPU_KERNEL = "cpu_kernel"  # an operator that only exists on the CPU
    DATA_MOVEMENT = "data_movement"
    """an operator that computes nothing: copies, views, reads of a value"""
    SCALAR_OPERATOR = "scalar_operator"  # an operator that reads one number
    BATCHED_PRODUCT_CALL = "batched_product_call"
    """a batched matrix product, or an operator that may call one"""
    LOOKUP_GRADIENT = "lookup_gradient"  # of a lookup in a table
    INDEXING_GRADIENT = "indexing_gradient"  # of such a lookup, or of a part of a tensor
    ZERO_FILL = "zero_fill"  # an operator that fills a tensor with one value
    SOFTMAX = "softmax"
    SOFTMAX_GRADIENT = "softmax_gradient"
    ATTENTION = "attention"  # the framework's own attention
    WEIGHTED = "weighted"  # an operator whose second input is a weight, and whose third is a bias
    NAN_CHECK = "nan_check"
    FUSED_UPDATE = "fused_update"  # one operator that updates many parameters
    FOREACH_UPDATE = "foreach_update"  # an operator over a list of parameters

    # frames of stacks
    LOADER_FRAME = "loader_frame"  # the file of the loader itself
    INLINE_FRAME = "inline_frame"  # the loader makes a batch itself
    WORKER_WAIT_FRAME = "worker_wait_frame"  # the loader takes a batch from its workers
    WORKER_ENTRY = "worker_entry"  # where a loader worker begins
    FRAMEWORK_CODE = "framework_code"  # any code of the framework
    OPERATOR_FRAME = "operator_frame"  # code of the framework that calls operators
    COMPUTE_FRAME = "compute_frame"  # code of models, losses and optimizers
    GENERATED_FRAME = "generated_frame"  # operators in code that a compiler generated
    FRAMEWORK_FRAME = "framework_frame"
    """code of the framework; its loaders, which call the user's code, left out"""
    TRAINING_FRAME = "training_frame"
    """code of the framework under which the model, its backward pass and its update run"""
    OPTIMIZER_FRAME = "optimizer_frame"
    BACKWARD_FRAME = "backward_frame"  # a backward pass is asked for
    ENGINE_FRAME = "engine_frame"  # a backward pass is run
    RESUMED_FRAME = "resumed_frame"  # the rest of a function behind a graph break
    COMPILED_REGION = "compiled_region"  # a call of compiled code; its label numbers the function
    STACK_RECORDING = "stack_recording"  # the framework notes where an operator was called
    MOVING_FRAME = "moving_frame"  # a call that only moves a batch or a result
    FIT_FRAME = "fit_frame"  # a trainer fits a model
    PREDICT_FRAME = "predict_frame"  # a trainer predicts a data set, however small it is
    TRACER_FRAME = "tracer_frame"  # a debugger, or a tool for coverage, at work
    PROFILER_CODE = "profiler_code"  # the framework's own profiler starts, stops or sums up
    PYTHON_PROFILER_FRAME = "python_profiler_frame"  # a profiler of Python at work
    OWN_ATTENTION = "own_attention"  # the framework's module for attention, written out
    MODEL_LIBRARY_ATTENTION = "model_library_attention"
    """attention of a library of models, written out"""
    # frames whose library tells what a line of the user's program is for (``model.purposes``)
    MODEL_CODE = "model_code"  # modules of models
    LOSS_CODE = "loss_code"
    UPDATE_CODE = "update_code"  # optimizers, schedulers and gradient scalers
    BACKWARD_CODE = "backward_code"
    CLIPPING_CODE = "clipping_code"
    DATA_CODE = "data_code"  # loaders and datasets
    TABLE_CODE = "table_code"  # making;collating of rows of tensors, as they are
    METRIC_CODE = "metric_code"
    LOG_CODE = "log_code"  # trackers, progress bars, and a trainer's own logging
    DRAWING_CODE = "drawing_code"
    SIMULATION_CODE = "simulation_code"
    SUBPROCESS_CODE = "subprocess_code"
    FILE_CODE = "file_code"  # writes files
    EXCHANGE_CODE = "exchange_code"  # talks to other ranks


_BATCH: Final = (Role.BATCH_REQUEST, Role.LOADER)
_MARK: Final = (Role.FRAMEWORK_MARK, Role.PROBE)
IMPLIED: Final[Mapping[str, frozenset[Role]]] = {
    "loader_start": frozenset({Role.LOADER_START, Role.LOADER}),
    "batch_inline": frozenset({Role.BATCH_INLINE, *_BATCH}),
    "batch_from_workers": frozenset({Role.BATCH_FROM_WORKERS, *_BATCH}),
    "batch_from_iterator": frozenset(_BATCH),
    "backward": frozenset({Role.BACKWARD, *_MARK}),
    "optimizer": frozenset({Role.OPTIMIZER, Role.OPTIMIZER_CALL}),
    "optimizer_operators": frozenset({Role.OPTIMIZER_OPERATORS, *_MARK}),
    "step_marked": frozenset({Role.STEP_MARKED}),
    "gradient_search": frozenset({Role.GRADIENT_SEARCH}),
    "evaluation": frozenset({Role.EVALUATION, Role.EVALUATION_WHOLE}),
    "evaluation_with_gradients": frozenset({Role.EVALUATION, Role.EVALUATION_WITH_GRADIENTS}),
    "checkpoint": frozenset({Role.CHECKPOINT}),
    "callback": frozenset({Role.CALLBACK}),
    "compile": frozenset({Role.COMPILE, Role.COMPILER, *_MARK}),
    "recompile": frozenset({Role.COMPILE, Role.COMPILER, Role.RECOMPILE, *_MARK}),
    "garbage_collection": frozenset({Role.GC}),
    "garbage_collection_call": frozenset({Role.GC, Role.GC_CALL}),
    "cache_release": frozenset({Role.CACHE_RELEASE, Role.ALLOCATOR}),
    "producer_work": frozenset({Role.PREPROCESS}),
    "collective_wait": frozenset({Role.COLLECTIVE_WAIT}),
    "synchronize": frozenset({Role.SYNC, Role.DEVICE_READ}),
    "scalar_read": frozenset({Role.SYNC, Role.DEVICE_READ}),
    "execution": frozenset({Role.EXECUTION}),
    "device_idle": frozenset({Role.DEVICE_IDLE, Role.PROBE}),
    "startup": frozenset({Role.STARTUP}),
    "shutdown": frozenset({Role.AFTER}),
}
"""role that a recording process gave a name -> all roles of the name. For other roles the name
decides, such as the transport of a collective"""


class Rule(NamedTuple):
    """Names in which ``pattern`` is found have a role, for events of some ``kinds`` (``HostKind``;
    empty: all)."""

    role: Role
    pattern: str
    kinds: tuple[int, ...] = ()


def describe_nothing(_: str) -> Operator:
    """The properties of an unknown operator."""
    return Operator()


Matchers = tuple[tuple[tuple[int, ...], re.Pattern[str]], ...]


class Vocabulary:
    """The spelling of roles and operators in one framework."""

    def __init__(
        self, rules: tuple[Rule, ...] = (), operator: Callable[[str], Operator] = describe_nothing
    ) -> None:
        self.rules = rules
        self.operator = operator
        self._matchers: dict[Role, Matchers] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.rules, self.operator)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return (self.rules, self.operator) == (other.rules, other.operator)

    def __hash__(self) -> int:
        return hash((self.rules, self.operator))

    def matchers(self, role: Role) -> Matchers:
        """The patterns of a role, by kinds of events (empty: all)."""
        if role not in self._matchers:
            patterns: dict[tuple[int, ...], list[str]] = {}
            for rule in self.rules:
                if rule.role == role:
                    patterns.setdefault(rule.kinds, []).append(rule.pattern)
            self._matchers[role] = tuple(
                (kinds, re.compile("|".join(parts))) for kinds, parts in patterns.items()
            )
        return self._matchers[role]

    def plays(self, role: Role, text: str, recorded: str = "") -> bool:
        """Whether a name or a stack has a role, for events of any kind. ``recorded`` is the role
        that the recording process gave it."""
        roles = IMPLIED.get(recorded)
        if roles is not None:
            return role in roles
        return any(pattern.search(text) for _, pattern in self.matchers(role))

    def parts(self, role: Role, text: str) -> dict[str, str]:
        """The named parts of a name with a role, such as its ``label`` (the class of an optimizer,
        the number of a compiled function); empty if it has not the role."""
        for _, pattern in self.matchers(role):
            if match := pattern.search(text):
                return {key: value or "" for key, value in match.groupdict().items()}
        return {}
