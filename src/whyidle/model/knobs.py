"""The shared vocabulary of knobs: what an edit can set, and how a person sets it by hand.

A knob is neutral of frameworks. Fixes propose values for them; what turns them, in a
running process or in source text, looks the name up here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, NamedTuple

Setting = str | int | float | bool
"""what a knob is set to"""


class Knob(NamedTuple):
    """One thing that can be set. How users of a framework write it lies with that framework."""

    kind: type[Setting]
    meaning: str
    """what its setting is, in words that hold for every framework, without full stop"""
    among: tuple[str, ...] = ()
    """the texts that mean anything; empty: any"""
    least: float = 1
    most: float = float("inf")


MANY: Final = 1024
"""more worker processes, threads, or batches ahead than this no machine has room for"""
FACTOR: Final = 0.01
"""a batch is made no smaller than this share of what it is"""
ENVIRONMENT: Final = "env."
"""knobs that begin so are variables of the command's environment; their settings are text"""

KNOBS: Final[dict[str, Knob]] = {
    "autocast.dtype": Knob(
        str,
        "the narrow type in which the forward pass and the loss are computed",
        ("bfloat16", "float16"),
    ),
    "autocast.grad_scaler": Knob(
        bool, "whether losses are scaled, so that narrow gradients do not underflow"
    ),
    "autograd.anomaly_mode": Knob(
        bool,
        "whether the framework searches gradients for NaN and notes where operators are called",
    ),
    "callbacks.every": Knob(int, "steps from one call of a user's callback to the next"),
    "checkpoint.asynchronous": Knob(bool, "whether checkpoints are written beside the training"),
    "checkpoint.interval_factor": Knob(int, "times as many steps from one checkpoint to the next"),
    "collate.length_buckets": Knob(str, "the lengths to which batches are padded"),
    "collate.pad_to": Knob(str, "the sample to whose length a batch is padded", ("longest",)),
    "compile.cache": Knob(
        str, "the folder in which compiled code is kept from one start to the next"
    ),
    "copy.non_blocking": Knob(
        bool, "whether the host goes on while a batch is copied to the device"
    ),
    "dataset.cache": Knob(bool, "whether samples are kept once they are made"),
    "dataset.staging": Knob(bool, "whether data files are read from a copy that is near"),
    "ddp.bucket_cap_mb": Knob(int, "megabytes of gradients that are exchanged at once"),
    "ddp.comm_hook": Knob(str, "the type in which gradients are exchanged", ("bf16_compress",)),
    "ddp.find_unused_parameters": Knob(
        bool, "whether every step searches for parameters that get no gradient"
    ),
    "ddp.gradient_as_bucket_view": Knob(
        bool, "whether gradients lie where they are exchanged, and are not copied"
    ),
    "ddp.no_sync": Knob(int, "micro-batches of a step, of which only the last exchanges gradients"),
    "ddp.static_graph": Knob(bool, "whether every step is taken to use the same parameters"),
    "evaluation.batch_factor": Knob(int, "times as many samples in a batch of an evaluation"),
    "evaluation.gradients": Knob(bool, "whether evaluations record what gradients need"),
    "evaluation.interval_factor": Knob(int, "times as many steps from one evaluation to the next"),
    "gc.collect_interval_steps": Knob(
        int, "steps from one collection of garbage that the script asks for to the next"
    ),
    "gc.freeze": Knob(
        bool, "whether the garbage collector leaves out what was there when training began"
    ),
    "loader.batch_size_times": Knob(
        float, "times as many samples in a training batch", least=FACTOR, most=MANY
    ),
    "loader.device_prefetch": Knob(
        int,
        "batches that are copied to the device ahead of the step that needs them",
        least=0,
        most=MANY,
    ),
    "loader.full_affinity": Knob(bool, "whether loader workers may use all cores of the command"),
    "loader.persistent_workers": Knob(
        bool, "whether loader workers live on from one epoch to the next"
    ),
    "loader.pin_memory": Knob(bool, "whether batches lie in pinned memory"),
    "loader.prefetch_factor": Knob(int, "batches that each loader worker makes ahead", most=MANY),
    "loader.worker_threads": Knob(int, "threads of each loader worker", most=MANY),
    "loader.workers": Knob(int, "processes that make batches", least=0, most=MANY),
    "log.deferred": Knob(bool, "whether numbers that are only shown stay on the device until then"),
    "logging.asynchronous": Knob(bool, "whether calls of a tracker are made beside the training"),
    "logging.interval_factor": Knob(int, "times as many steps from one report to the next"),
    "loop.microbatch_times": Knob(
        float,
        "times as many samples in a micro-batch, and as many times fewer of them",
        least=FACTOR,
        most=MANY,
    ),
    "matmul.precision": Knob(
        str, "the precision in which 32-bit matrices are multiplied", ("highest", "high", "medium")
    ),
    "memory.empty_cache_every": Knob(
        int, "steps from one release of cached device memory to the next"
    ),
    "model.attention": Knob(str, "the implementation of attention"),
    "model.checkpointing": Knob(
        bool, "whether activations are computed again in the backward pass"
    ),
    "model.compile": Knob(bool, "whether the model is compiled"),
    "model.compile_dynamic": Knob(bool, "whether the compiled model serves every shape"),
    "model.compile_mode": Knob(
        str,
        "what the compiler optimizes for",
        ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    ),
    "model.memory_format": Knob(
        str, "the order in which images and their channels lie in memory", ("channels_last",)
    ),
    "optimizer.foreach": Knob(bool, "whether parameters are updated list by list"),
    "optimizer.fused": Knob(bool, "whether all parameters are updated by one kernel"),
    "optimizer.scale_learning_rate": Knob(
        bool, "whether the learning rate goes with the size of the batch"
    ),
    "profiler.active": Knob(bool, "whether the script's own profiler is on in every step"),
    "python.profiler": Knob(bool, "whether a profiler of Python runs"),
    "python.tracer": Knob(bool, "whether a debugger or a tool for coverage runs"),
    "torch.cudnn_benchmark": Knob(
        bool, "whether the fastest algorithms of convolutions are searched for"
    ),
    "torch.deterministic": Knob(bool, "whether only deterministic algorithms are used"),
    "torch.num_threads": Knob(int, "threads of the training process's operators", most=MANY),
}


LISTS: Final[dict[str, tuple[str, ...]]] = {
    "PYTORCH_CUDA_ALLOC_CONF": ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
}
"""variables that hold several settings, and where the user's own are: PyTorch reads the first that
is set, of one that is named twice the last"""
REDRAWING: Final[frozenset[str]] = frozenset({"loader.workers", "loader.persistent_workers"})
"""knobs with which a job may draw other random numbers: workers have generators of their own"""
REDRAWING_IN_STEPS: Final[frozenset[str]] = frozenset(
    {"model.compile", "model.compile_dynamic", "model.compile_mode"}
)
"""the same, of jobs that draw some in a training step: compiled code has a generator of its own"""
REDRAWING_FOR_GOOD: Final[frozenset[str]] = frozenset({"model.attention"})
"""the same, where there is no way to draw the same numbers: dropout within a fused kernel"""
RESIZING: Final = "loader.batch_size_times"
"""the knob with which a step has more samples: what it gains is told by samples, not by steps"""
TOGETHER: Final[frozenset[str]] = frozenset({RESIZING, "optimizer.scale_learning_rate"})
"""knobs of which one without the other is another fix, which may learn otherwise"""


BY_HAND: Final[dict[str, str]] = {
    "callbacks.every": "what it computes or shows would come less often",
    "checkpoint.interval_factor": "a job that is killed would repeat more",
    "collate.length_buckets": "the script pads its batches itself",
    "collate.pad_to": "the script pads its batches itself",
    "compile.cache": "this start gains nothing from it, only the next ones do",
    "evaluation.batch_factor": "how its loader is made stands in the script",
    "evaluation.interval_factor": "the best checkpoint may be missed",
    "log.deferred": "only the script shows where the number is needed",
    "logging.interval_factor": "curves would have fewer points",
    "loop.microbatch_times": "whether the loss stays the same only who knows the job can tell",
    "profiler.active": "the profile is what the script was told to write",
    "python.profiler": "it is in the command itself",
    "python.tracer": "it is in the command itself",
}
"""knobs that nothing but a person turns, and why: half a sentence, without full stop"""


def problem(name: str, value: object) -> str:
    """What is wrong with a setting, as a sentence; empty where nothing is."""
    if name.startswith(ENVIRONMENT):
        kind: type = str
        if not name.removeprefix(ENVIRONMENT):
            return f"{name!r} names no variable."
    elif name in KNOBS:
        kind = KNOBS[name].kind
    else:
        return f"There is no knob {name!r}.{_meant(name)}"
    fits = type(value) is kind or (kind is float and type(value) is int)
    if not fits:
        return f"{name!r} takes {_WORDS[kind]}, not {value!r}."
    among = KNOBS[name].among if name in KNOBS else ()
    if among and value not in among:
        return f"{name!r} takes {' or '.join(map(repr, among))}, not {value!r}."
    return _beyond(name, value) if isinstance(value, int | float) and kind is not bool else ""


def _meant(name: str) -> str:
    """What may have been meant, of the same family where there is one."""
    family, dot, own = name.partition(".")
    siblings = {each.partition(".")[2]: each for each in KNOBS if each.startswith(family + dot)}
    if not (dot and siblings):
        close = get_close_matches(name, KNOBS, n=1)
        return f" Is {close[0]!r} meant?" if close else ""
    if close := get_close_matches(own, siblings, n=1):
        return f" Is {siblings[close[0]]!r} meant?"
    return f" There are {', '.join(siblings.values())}."


def _beyond(name: str, value: float) -> str:
    """Whether a number is more or less than makes sense."""
    knob = KNOBS[name]
    if knob.least <= value <= knob.most:
        return ""
    most = f" and at most {knob.most:g}" if value > knob.most else ""
    return f"{name!r} cannot be {value!r}: it is at least {knob.least:g}{most}."


_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def as_python(value: Setting) -> str:
    """A setting as an expression of Python; text in double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
