"""The declarations of knobs: framework-neutral settings for which fixes propose values.

A declaration holds everything that whyidle must know of a knob; ``catalog.find_knob`` also finds
the knobs of other packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches
from typing import Final, Literal

Setting = str | int | float | bool
"""value of a knob"""
Draws = Literal["same", "others", "others in steps"]
"""Random numbers of a job with a knob set: the ``same``; ``others``, from the generators of loader
workers; ``others in steps``, from a generator of compiled code, which a trial can avoid."""


Subject = Literal["torch", "tensorflow", "keras", "jax", "python", "loaders"]
"""What a knob changes: a framework, Python itself, or the ``DataLoader`` that also feeds others"""
TORCH: Final = "torch"
TENSORFLOW: Final = "tensorflow"
KERAS: Final = "keras"
JAX: Final = "jax"
PYTHON: Final = "python"
LOADERS: Final = "loaders"


@dataclass(frozen=True, slots=True)
class Knob:
    """The declaration of a knob.

    The wording for users is in ``frameworks/*/wording.py``, the implementation in a running process
    in ``probe/knobs``, the one for source text in ``patches``. A knob of another package brings its
    own ``wording`` and ``implementation``.
    """

    id: str  # ``family.name``
    kind: type[Setting]
    meaning: str  # framework-neutral, without full stop
    _: KW_ONLY
    subjects: tuple[Subject, ...] = ()
    """of which a job must have one; empty: any job has it"""
    by_hand_in: tuple[Subject, ...] = ()  # subjects in which only people can set it
    among: tuple[str, ...] = ()  # allowed texts; empty: any
    least: float = 1
    most: float = float("inf")
    by_people: str = ""  # why only people set it, half a sentence; empty: whyidle sets it
    draws: Draws = "same"
    per_sample: bool = False  # whether steps have more samples with it (own knobs only)
    compiles: bool = False  # whether it triggers compilation
    counts_processes: bool = False  # whether its value is a number of processes
    written_first: bool = False  # whether source forms of other knobs need it first
    wording: str = ""
    """object of "write" in a sentence; ``{value}`` is the setting as Python text, ``{text}`` as
    plain text"""
    implementation: str = ""
    """module (``package.module``) with ``apply(session, settings)`` that sets it in a running
    process; it imports only the standard library and the framework"""


MANY: Final = 1024
"""upper limit of worker processes, threads and batches ahead"""
FACTOR: Final = 0.01
"""lower limit of the factor on a batch size"""
ENVIRONMENT: Final = "env."
"""prefix of knobs that are environment variables of the command; their settings are text"""

_DECLARED: Final = (
    Knob("autograd.anomaly_mode", bool,
         "whether the framework searches gradients for NaN and notes where operators are called",
         subjects=(TORCH,)),
    Knob("checkpoint.asynchronous", bool, "whether checkpoints are written beside the training",
         by_people="a killed job would leave an older checkpoint",
         subjects=(TORCH,)),
    Knob("copy.non_blocking", bool,
         "whether the host goes on while a batch is copied to the device",
         by_people="the script may change a batch before the device has read it",
         subjects=(TORCH,)),
    Knob("ddp.bucket_cap_mb", int, "megabytes of gradients that are exchanged at once",
         by_people="it must be set where the script wraps the model",
         subjects=(TORCH,)),
    Knob("ddp.comm_hook", str, "the form in which gradients are exchanged",
         among=("bf16_compress", "fp16_compress"),
         by_people="it must be set where the script wraps the model",
         subjects=(TORCH,)),
    Knob("ddp.find_unused_parameters", bool,
         "whether every step searches for parameters that get no gradient",
         by_people="it must be set where the script wraps the model",
         subjects=(TORCH,)),
    Knob("ddp.gradient_as_bucket_view", bool,
         "whether gradients lie where they are exchanged, and are not copied",
         by_people="it must be set where the script wraps the model",
         subjects=(TORCH,)),
    Knob("ddp.no_sync", int, "micro-batches of a step, of which only the last exchanges gradients",
         subjects=(TORCH,)),
    Knob("ddp.static_graph", bool, "whether every step is taken to use the same parameters",
         by_people="it must be set where the script wraps the model",
         subjects=(TORCH,)),
    Knob("evaluation.gradients", bool, "whether evaluations record what gradients need",
         by_people="only the script shows what an evaluation is",
         subjects=(TORCH,)),
    Knob("fsdp.reshard_after_forward", bool,
         "whether gathered parameters are freed after the forward pass and gathered again",
         by_people="it must be set where the script wraps the model",
         subjects=(TORCH,)),
    Knob("loader.pin_memory", bool, "whether batches lie in pinned memory", subjects=(TORCH,)),
    Knob("matmul.precision", str, "the precision in which 32-bit matrices are multiplied",
         among=("highest", "high", "medium"), subjects=(TORCH,)),
    Knob("memory.empty_cache_every", int,
         "steps from one release of cached device memory to the next", subjects=(TORCH,)),
    Knob("model.attention", str, "the implementation of attention",
         by_people="it must be set where the script creates the model",
         subjects=(TORCH,)),
    Knob("model.checkpointing", bool,
         "whether activations are computed again in the backward pass",
         by_people="longer sequences or larger batches may then not fit into memory",
         subjects=(TORCH,)),
    Knob("model.compile_dynamic", bool, "whether the compiled model serves every shape",
         draws="others in steps", compiles=True, subjects=(TORCH,)),
    Knob("model.compile_mode", str, "what the compiler optimizes for",
         among=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
         draws="others in steps", compiles=True, subjects=(TORCH,)),
    Knob("model.memory_format", str, "the order in which images and their channels lie in memory",
         among=("channels_last",), by_people="it must be set where the script creates the model",
         subjects=(TORCH,)),
    Knob("model.recompute", str,
         "modules, with commas between, whose activations are computed again when they are needed",
         by_people="it must be set in the code of the model",
         subjects=(TORCH,)),
    Knob("optimizer.foreach", bool, "whether parameters are updated list by list",
         subjects=(TORCH,)),
    Knob("optimizer.fused", bool, "whether all parameters are updated by one kernel",
         subjects=(TORCH,)),
    Knob("optimizer.scale_learning_rate", bool,
         "whether the learning rate goes with the size of the batch",
         by_people="a larger batch may learn differently",
         subjects=(TORCH,)),
    Knob("profiler.active", bool, "whether the script's own profiler is on in every step",
         by_people="the script was asked to write this profile", subjects=(TORCH,)),
    Knob("torch.cudnn_benchmark", bool,
         "whether the fastest algorithms of convolutions are searched for", subjects=(TORCH,)),
    Knob("torch.deterministic", bool, "whether only deterministic algorithms are used",
         subjects=(TORCH,)),
    Knob("torch.num_threads", int, "threads of the training process's operators", most=MANY,
         subjects=(TORCH,)),
    Knob("autocast.dtype", str,
         "the narrow type in which the forward pass and the loss are computed",
         among=("bfloat16", "float16"), subjects=(TORCH, TENSORFLOW, JAX), by_hand_in=(JAX,)),
    Knob("autocast.grad_scaler", bool,
         "whether losses are scaled, so that narrow gradients do not underflow",
         subjects=(TORCH, TENSORFLOW, JAX), by_hand_in=(JAX,)),
    Knob("model.compile", bool, "whether the model is compiled", draws="others in steps",
         compiles=True, subjects=(TORCH, TENSORFLOW, JAX), by_hand_in=(JAX,)),
    Knob("step.compile", bool, "whether the function that takes a step's gradients is compiled",
         compiles=True, subjects=(TENSORFLOW, JAX)),
    Knob("tf.functions_eager", bool, "whether traced functions run as plain Python",
         subjects=(TENSORFLOW,)),
    Knob("tf.reduce_retracing", bool, "whether a traced function serves several shapes",
         subjects=(TENSORFLOW,)),
    Knob("tfdata.interleave_calls", int, "sources that a stage reads at a time", most=MANY,
         by_people="only the script shows how many sources may be open together",
         subjects=(TENSORFLOW,)),
    Knob("tfdata.map_calls", int, "elements for which a stage calls its function at a time",
         most=MANY, subjects=(TENSORFLOW,)),
    Knob("tfdata.pool", int, "threads of a pipeline", most=MANY, subjects=(TENSORFLOW,)),
    Knob("keras.run_eagerly", bool, "whether a model calls its operators one by one",
         subjects=(KERAS,)),
    Knob("keras.steps_per_execution", int, "steps that one call of a model's function takes",
         most=MANY, subjects=(KERAS,)),
    Knob("keras.train_on_batch", bool, "whether a step on one batch is traced once",
         by_people="it needs Keras 3.9 or later", subjects=(KERAS,)),
    Knob("keras.workers", int, "threads that make the batches of a PyDataset", most=MANY,
         subjects=(KERAS,)),
    Knob("jax.check_tracer_leaks", bool,
         "whether traced values that outlive their trace are searched for", subjects=(JAX,)),
    Knob("jax.compilation_cache", str, "the folder in which compiled functions are kept",
         subjects=(JAX,)),
    Knob("jax.debug_nans", bool, "whether every result is searched for NaN", subjects=(JAX,)),
    Knob("jax.disable_jit", bool, "whether functions run operator by operator", subjects=(JAX,)),
    Knob("jax.x64", bool, "whether numbers have 64 bits by default", subjects=(JAX,)),
    Knob("callbacks.every", int, "steps from one call of a user's callback to the next",
         by_people="what it computes or shows would be updated less often", subjects=(PYTHON,)),
    Knob("checkpoint.interval_factor", int, "times as many steps from one checkpoint to the next",
         by_people="a killed job would repeat more work", subjects=(PYTHON,)),
    Knob("collate.length_buckets", str, "the lengths to which batches are padded",
         by_people="the script pads its batches itself", subjects=(PYTHON,)),
    Knob("collate.pad_to", str, "the sample to whose length a batch is padded", among=("longest",),
         by_people="the script pads its batches itself", subjects=(PYTHON,)),
    Knob("compile.cache", str,
         "the folder in which compiled code is kept from one start to the next",
         by_people="it speeds up later starts, not this one", subjects=(PYTHON,)),
    Knob("evaluation.batch_factor", int, "times as many samples in a batch of an evaluation",
         by_people="the script builds the loader itself", subjects=(PYTHON,)),
    Knob("evaluation.interval_factor", int, "times as many steps from one evaluation to the next",
         by_people="early stopping, schedulers or checkpoints may use the results",
         subjects=(PYTHON,)),
    Knob("gc.collect_interval_steps", int,
         "steps from one collection of garbage that the script asks for to the next",
         subjects=(PYTHON,)),
    Knob("gc.freeze", bool,
         "whether the garbage collector leaves out what was there when training began",
         subjects=(PYTHON,)),
    Knob("iterator.ahead", int, "batches that a thread makes ahead of the loop", most=MANY,
         by_people="the library's own prefetching keeps its position", subjects=(PYTHON,)),
    Knob("loader.batch_size_times", float, "times as many samples in a training batch",
         least=FACTOR, most=MANY, per_sample=True, by_people="a larger batch may learn differently",
         subjects=(PYTHON,)),
    Knob("log.deferred", bool, "whether numbers that are only shown stay on the device until then",
         by_people="only the script shows where the number is needed", subjects=(PYTHON,)),
    Knob("logging.interval_factor", int, "times as many steps from one report to the next",
         by_people="curves would have fewer points", subjects=(PYTHON,)),
    Knob("loop.microbatch_times", float,
         "times as many samples in a micro-batch, and as many times fewer of them", least=FACTOR,
         most=MANY, by_people="only someone who knows the job can tell whether the loss stays the "
         "same",
         subjects=(PYTHON,)),
    Knob("python.profiler", bool, "whether a profiler of Python runs",
         by_people="the command itself starts it", subjects=(PYTHON,)),
    Knob("python.tracer", bool, "whether a debugger or a tool for coverage runs",
         by_people="the command itself starts it", subjects=(PYTHON,)),
    Knob("dataset.cache", bool, "whether samples are kept once they are made", subjects=(LOADERS,)),
    Knob("loader.full_affinity", bool, "whether loader workers may use all cores of the command",
         subjects=(LOADERS,)),
    Knob("loader.persistent_workers", bool,
         "whether loader workers live on from one epoch to the next", draws="others",
         subjects=(LOADERS,)),
    Knob("loader.prefetch_factor", int, "batches that each loader worker makes ahead", most=MANY,
         subjects=(LOADERS,)),
    Knob("loader.worker_threads", int, "threads of each loader worker", most=MANY,
         subjects=(LOADERS,)),
    Knob("loader.workers", int, "processes that make batches", least=0, most=MANY, draws="others",
         counts_processes=True, written_first=True, subjects=(LOADERS,)),
)  # fmt: skip
KNOBS: Final[dict[str, Knob]] = {knob.id: knob for knob in _DECLARED}
LISTS: Final[dict[str, tuple[str, ...]]] = {
    "PYTORCH_CUDA_ALLOC_CONF": ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
}
"""variables that hold lists of settings, and the variables that PyTorch reads for them; the first
that is set counts, and in it the last setting of a name"""


def setting_problem(name: str, value: object, knobs: Mapping[str, Knob] = KNOBS) -> str:
    """Describe what is wrong with a setting, as a sentence; empty for a valid one."""
    if name == ENVIRONMENT:
        return f"{name!r} does not name a variable."
    knob = Knob(name, str, "a variable") if name.startswith(ENVIRONMENT) else knobs.get(name)
    if knob is None:
        return f"There is no setting {name!r}.{_suggest_name(name, knobs)}"
    fits = type(value) is knob.kind or (knob.kind is float and type(value) is int)
    if not fits:
        return f"{name!r} takes {_WORDS[knob.kind]}, not {value!r}."
    if knob.among and value not in knob.among:
        return f"{name!r} takes {' or '.join(map(repr, knob.among))}, not {value!r}."
    if isinstance(value, int | float) and knob.kind is not bool:
        return _range_problem(knob, value)
    return ""


def _suggest_name(name: str, knobs: Mapping[str, Knob]) -> str:
    family, dot, rest = name.partition(".")
    siblings = {knob.partition(".")[2]: knob for knob in knobs if knob.startswith(family + dot)}
    if not (dot and siblings):
        close = get_close_matches(name, knobs, n=1)
        return f" Did you mean {close[0]!r}?" if close else ""
    if close := get_close_matches(rest, siblings, n=1):
        return f" Did you mean {siblings[close[0]]!r}?"
    return f" Known: {', '.join(sorted(siblings.values()))}."


def _range_problem(knob: Knob, value: float) -> str:
    if knob.least <= value <= knob.most:
        return ""
    limit = f" and at most {knob.most:g}" if value > knob.most else ""
    return f"{knob.id!r} cannot be {value!r}: it must be at least {knob.least:g}{limit}."


_WORDS: Final = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def as_python(value: Setting) -> str:
    """A setting as a Python expression, text in double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
