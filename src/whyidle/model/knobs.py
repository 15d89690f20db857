"""The shared vocabulary of knobs: what an edit can set.

A knob is neutral of frameworks. Fixes propose values for them. Whatever a part of whyidle must know
of a knob stands in its declaration; ``catalog.find_knob`` also finds those of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Final, Literal

Setting = str | int | float | bool
"""what a knob is set to"""


Draws = Literal["same", "others", "others in steps", "others for good"]
"""The random numbers of a job with a knob set: the ``same``; ``others``, as loader workers have
generators of their own; ``others in steps``, where training steps draw some, as compiled code has a
generator of its own, which a trial can do without; ``others for good``, the same without a way to
draw the same ones."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that can be set: all that is known of it but how it is set.

    How users of a framework write it lies with that framework (``frameworks/*/wording.py``), how it
    is set in a running process in ``probe/knobs``, how in source text in ``patches``. A knob of
    another package brings its own ``wording`` and ``implementation``.
    """

    id: str
    """``family.name``"""
    kind: type[Setting]
    meaning: str
    """what its setting is, in words that hold for every framework, without full stop"""
    _: KW_ONLY
    among: tuple[str, ...] = ()
    """the texts that mean anything; empty: any"""
    least: float = 1
    most: float = float("inf")
    by_people: str = ""
    """why nothing but a person sets it: half a sentence, without full stop; empty: whyidle does"""
    draws: Draws = "same"
    per_sample: bool = False
    """whether a step has more samples with it: its gain is in samples, and no share of the step.
    Documents know this of the knobs of this package only"""
    compiles: bool = False
    """whether setting it has code compiled, which takes as long as it takes"""
    counts_processes: bool = False
    """whether its number is one of processes, of which a machine carries so many"""
    written_first: bool = False
    """whether a source form writes it before other knobs, which are refused without it"""
    belongs_with: str = ""
    """the knob that is written with it or not at all: alone it is another fix, which may learn
    otherwise"""
    wording: str = ""
    """what a person writes, as the object of "write"; ``{value}`` stands for the setting as Python
    writes it, ``{text}`` for it as it is"""
    implementation: str = ""
    """the module that sets it in a running process (``package.module``), which has
    ``apply(session, settings)``; it imports the standard library and the framework only"""


MANY: Final = 1024
"""more worker processes, threads, or batches ahead than this no machine has room for"""
FACTOR: Final = 0.01
"""a batch is made no smaller than this share of what it is"""
ENVIRONMENT: Final = "env."
"""knobs that begin so are variables of the command's environment; their settings are text"""

_DECLARED: Final = (
    Knob("autocast.dtype", str,
         "the narrow type in which the forward pass and the loss are computed",
         among=("bfloat16", "float16")),
    Knob("autocast.grad_scaler", bool,
         "whether losses are scaled, so that narrow gradients do not underflow"),
    Knob("autograd.anomaly_mode", bool,
         "whether the framework searches gradients for NaN and notes where operators are called"),
    Knob("callbacks.every", int, "steps from one call of a user's callback to the next",
         by_people="what it computes or shows would come less often"),
    Knob("checkpoint.asynchronous", bool, "whether checkpoints are written beside the training"),
    Knob("checkpoint.interval_factor", int, "times as many steps from one checkpoint to the next",
         by_people="a job that is killed would repeat more"),
    Knob("collate.length_buckets", str, "the lengths to which batches are padded",
         by_people="the script pads its batches itself"),
    Knob("collate.pad_to", str, "the sample to whose length a batch is padded", among=("longest",),
         by_people="the script pads its batches itself"),
    Knob("compile.cache", str,
         "the folder in which compiled code is kept from one start to the next",
         by_people="this start gains nothing from it, only the next ones do"),
    Knob("copy.non_blocking", bool,
         "whether the host goes on while a batch is copied to the device"),
    Knob("dataset.cache", bool, "whether samples are kept once they are made"),
    Knob("dataset.staging", bool, "whether data files are read from a copy that is near"),
    Knob("ddp.bucket_cap_mb", int, "megabytes of gradients that are exchanged at once"),
    Knob("ddp.comm_hook", str, "the type in which gradients are exchanged",
         among=("bf16_compress",)),
    Knob("ddp.find_unused_parameters", bool,
         "whether every step searches for parameters that get no gradient"),
    Knob("ddp.gradient_as_bucket_view", bool,
         "whether gradients lie where they are exchanged, and are not copied"),
    Knob("ddp.no_sync", int, "micro-batches of a step, of which only the last exchanges gradients"),
    Knob("ddp.static_graph", bool, "whether every step is taken to use the same parameters"),
    Knob("evaluation.batch_factor", int, "times as many samples in a batch of an evaluation",
         by_people="how its loader is made stands in the script"),
    Knob("evaluation.gradients", bool, "whether evaluations record what gradients need"),
    Knob("evaluation.interval_factor", int, "times as many steps from one evaluation to the next",
         by_people="the best checkpoint may be missed"),
    Knob("gc.collect_interval_steps", int,
         "steps from one collection of garbage that the script asks for to the next"),
    Knob("gc.freeze", bool,
         "whether the garbage collector leaves out what was there when training began"),
    Knob("loader.batch_size_times", float, "times as many samples in a training batch",
         least=FACTOR, most=MANY, per_sample=True),
    Knob("loader.device_prefetch", int,
         "batches that are copied to the device ahead of the step that needs them", least=0,
         most=MANY),
    Knob("loader.full_affinity", bool, "whether loader workers may use all cores of the command"),
    Knob("loader.persistent_workers", bool,
         "whether loader workers live on from one epoch to the next", draws="others"),
    Knob("loader.pin_memory", bool, "whether batches lie in pinned memory"),
    Knob("loader.prefetch_factor", int, "batches that each loader worker makes ahead", most=MANY),
    Knob("loader.worker_threads", int, "threads of each loader worker", most=MANY),
    Knob("loader.workers", int, "processes that make batches", least=0, most=MANY, draws="others",
         counts_processes=True, written_first=True),
    Knob("log.deferred", bool, "whether numbers that are only shown stay on the device until then",
         by_people="only the script shows where the number is needed"),
    Knob("logging.asynchronous", bool, "whether calls of a tracker are made beside the training"),
    Knob("logging.interval_factor", int, "times as many steps from one report to the next",
         by_people="curves would have fewer points"),
    Knob("loop.microbatch_times", float,
         "times as many samples in a micro-batch, and as many times fewer of them", least=FACTOR,
         most=MANY, by_people="whether the loss stays the same only who knows the job can tell"),
    Knob("matmul.precision", str, "the precision in which 32-bit matrices are multiplied",
         among=("highest", "high", "medium")),
    Knob("memory.empty_cache_every", int,
         "steps from one release of cached device memory to the next"),
    Knob("model.attention", str, "the implementation of attention", draws="others for good"),
    Knob("model.checkpointing", bool,
         "whether activations are computed again in the backward pass"),
    Knob("model.compile", bool, "whether the model is compiled", draws="others in steps",
         compiles=True),
    Knob("model.compile_dynamic", bool, "whether the compiled model serves every shape",
         draws="others in steps", compiles=True),
    Knob("model.compile_mode", str, "what the compiler optimizes for",
         among=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
         draws="others in steps", compiles=True),
    Knob("model.memory_format", str, "the order in which images and their channels lie in memory",
         among=("channels_last",)),
    Knob("optimizer.foreach", bool, "whether parameters are updated list by list"),
    Knob("optimizer.fused", bool, "whether all parameters are updated by one kernel"),
    Knob("optimizer.scale_learning_rate", bool,
         "whether the learning rate goes with the size of the batch",
         belongs_with="loader.batch_size_times"),
    Knob("profiler.active", bool, "whether the script's own profiler is on in every step",
         by_people="the profile is what the script was told to write"),
    Knob("python.profiler", bool, "whether a profiler of Python runs",
         by_people="it is in the command itself"),
    Knob("python.tracer", bool, "whether a debugger or a tool for coverage runs",
         by_people="it is in the command itself"),
    Knob("torch.cudnn_benchmark", bool,
         "whether the fastest algorithms of convolutions are searched for"),
    Knob("torch.deterministic", bool, "whether only deterministic algorithms are used"),
    Knob("torch.num_threads", int, "threads of the training process's operators", most=MANY),
)  # fmt: skip
KNOBS: Final[dict[str, Knob]] = {knob.id: knob for knob in _DECLARED}
"""the knobs of this package by id"""


LISTS: Final[dict[str, tuple[str, ...]]] = {
    "PYTORCH_CUDA_ALLOC_CONF": ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
}
"""variables that hold several settings, and where the user's own are: PyTorch reads the first that
is set, of one that is named twice the last"""


def setting_problem(name: str, value: object, knobs: Mapping[str, Knob] = KNOBS) -> str:
    """What is wrong with a setting, as a sentence; empty where nothing is. ``knobs`` are the known
    ones."""
    if name == ENVIRONMENT:
        return f"{name!r} names no variable."
    knob = Knob(name, str, "a variable") if name.startswith(ENVIRONMENT) else knobs.get(name)
    if knob is None:
        return f"There is no knob {name!r}.{_suggest_name(name, knobs)}"
    fits = type(value) is knob.kind or (knob.kind is float and type(value) is int)
    if not fits:
        return f"{name!r} takes {_WORDS[knob.kind]}, not {value!r}."
    if knob.among and value not in knob.among:
        return f"{name!r} takes {' or '.join(map(repr, knob.among))}, not {value!r}."
    return (
        _range_problem(knob, value)
        if isinstance(value, int | float) and knob.kind is not bool
        else ""
    )


def _suggest_name(name: str, knobs: Mapping[str, Knob]) -> str:
    """What may have been meant, of the same family where there is one."""
    family, dot, own = name.partition(".")
    siblings = {each.partition(".")[2]: each for each in knobs if each.startswith(family + dot)}
    if not (dot and siblings):
        close = get_close_matches(name, knobs, n=1)
        return f" Is {close[0]!r} meant?" if close else ""
    if close := get_close_matches(own, siblings, n=1):
        return f" Is {siblings[close[0]]!r} meant?"
    return f" There are {', '.join(siblings.values())}."


def _range_problem(knob: Knob, value: float) -> str:
    """Whether a number is more or less than makes sense."""
    if knob.least <= value <= knob.most:
        return ""
    most = f" and at most {knob.most:g}" if value > knob.most else ""
    return f"{knob.id!r} cannot be {value!r}: it is at least {knob.least:g}{most}."


_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def as_python(value: Setting) -> str:
    """A setting as an expression of Python; text in double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
