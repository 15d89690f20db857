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

    A framework that writes it otherwise has a row in ``frameworks/*/wording.py``; the
    implementation in a running process is in ``probe/knobs``, the one for source text in
    ``patches``. A knob of another package brings its own ``implementation``.
    """

    id: str  # ``family.name``
    kind: type[Setting]
    meaning: str  # framework-neutral, without full stop
    subjects: tuple[Subject, ...] = ()
    """of which a job must have one; empty: any job has it"""
    wording: str = ""
    """object of "write" in a sentence; ``{value}`` is the setting as Python text, ``{text}`` as
    plain text"""
    _: KW_ONLY
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
    implementation: str = ""
    """module (``package.module``) with ``apply(session, settings)`` that sets it in a running
    process; it imports only the standard library and the framework"""


MANY: Final = 1024
"""upper limit of worker processes, threads and batches ahead"""
FACTOR: Final = 0.01
"""lower limit of the factor on a batch size"""
ENVIRONMENT: Final = "env."
"""prefix of knobs that are environment variables of the command; their settings are text"""
IN_SCRIPT: Final = "it must be set where the script wraps the model"
_DECLARED: Final = (
    Knob("autograd.anomaly_mode", bool,
         "whether the framework searches gradients for NaN and notes where operators are called",
         (TORCH,), "torch.autograd.set_detect_anomaly({value})"),
    Knob("checkpoint.asynchronous", bool, "whether checkpoints are written beside the training",
         (TORCH,), "torch.distributed.checkpoint.async_save(...) instead of torch.save(...)",
         by_people="a killed job would leave an older checkpoint"),
    Knob("copy.non_blocking", bool,
         "whether the host goes on while a batch is copied to the device", (TORCH,),
         "batch.to(device, non_blocking={value}) where batches go to the device; with Accelerate "
         "dataloader_config=DataLoaderConfiguration(non_blocking={value}), with Hugging Face's "
         "Trainer accelerator_config=dict(non_blocking={value})",
         by_people="the script may change a batch before the device has read it"),
    Knob("ddp.bucket_cap_mb", int, "megabytes of gradients that are exchanged at once", (TORCH,),
         "DistributedDataParallel(..., bucket_cap_mb={value})", by_people=IN_SCRIPT),
    Knob("ddp.comm_hook", str, "the form in which gradients are exchanged", (TORCH,),
         "model.register_comm_hook(None, "
         "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.{text}_hook)",
         among=("bf16_compress", "fp16_compress"), by_people=IN_SCRIPT),
    Knob("ddp.find_unused_parameters", bool,
         "whether every step searches for parameters that get no gradient", (TORCH,),
         "DistributedDataParallel(..., find_unused_parameters={value})", by_people=IN_SCRIPT),
    Knob("ddp.gradient_as_bucket_view", bool,
         "whether gradients lie where they are exchanged, and are not copied", (TORCH,),
         "DistributedDataParallel(..., gradient_as_bucket_view={value})", by_people=IN_SCRIPT),
    Knob("ddp.no_sync", int, "micro-batches of a step, of which only the last exchanges gradients",
         (TORCH,),
         "`with model.no_sync():` around forward and backward pass of each micro-batch except "
         "the one before optimizer.step() ({value} per step)"),
    Knob("ddp.static_graph", bool, "whether every step is taken to use the same parameters",
         (TORCH,), "DistributedDataParallel(..., static_graph={value})", by_people=IN_SCRIPT),
    Knob("evaluation.gradients", bool, "whether evaluations record what gradients need", (TORCH,),
         "`with torch.set_grad_enabled({value}):` around evaluation",
         by_people="only the script shows what an evaluation is"),
    Knob("fsdp.reshard_after_forward", bool,
         "whether gathered parameters are freed after the forward pass and gathered again",
         (TORCH,), "fully_shard(..., reshard_after_forward={value})", by_people=IN_SCRIPT),
    Knob("loader.pin_memory", bool, "whether batches lie in pinned memory", (TORCH,),
         "DataLoader(..., pin_memory={value})"),
    Knob("matmul.precision", str, "the precision in which 32-bit matrices are multiplied", (TORCH,),
         "torch.set_float32_matmul_precision({value})", among=("highest", "high", "medium")),
    Knob("memory.empty_cache_every", int,
         "steps from one release of cached device memory to the next", (TORCH,),
         "torch.cuda.empty_cache() every {value} steps at most",
         by_people="only the script shows where the memory is needed"),
    Knob("model.attention", str, "the implementation of attention", (TORCH,),
         'attn_implementation="{text}" for models of transformers',
         by_people="it must be set where the script creates the model"),
    Knob("model.checkpointing", bool, "whether activations are computed again in the backward pass",
         (TORCH,),
         "direct calls of the layers instead of torch.utils.checkpoint (transformers: "
         "activation_checkpointing={value}, in older versions gradient_checkpointing={value})",
         by_people="longer sequences or larger batches may then not fit into memory"),
    Knob("model.compile_dynamic", bool, "whether the compiled model serves every shape", (TORCH,),
         "torch.compile(model, dynamic={value})", draws="others in steps", compiles=True),
    Knob("model.compile_mode", str, "what the compiler optimizes for", (TORCH,),
         "torch.compile(model, mode={value})",
         among=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
         by_people="it must be set where the script compiles the model"),
    Knob("model.memory_format", str, "the order in which images and their channels lie in memory",
         (TORCH,), "model.to(memory_format=torch.{text}), and the same for the input batch",
         among=("channels_last",), by_people="it must be set where the script creates the model"),
    Knob("model.recompute", str,
         "modules, with commas between, whose activations are computed again when they are needed",
         (TORCH,),
         "torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False) where the model calls "
         "{text}", by_people="it must be set in the code of the model"),
    Knob("optimizer.foreach", bool, "whether parameters are updated list by list", (TORCH,),
         "foreach={value} among the optimizer's arguments"),
    Knob("optimizer.fused", bool, "whether all parameters are updated by one kernel", (TORCH,),
         "fused={value} among the optimizer's arguments"),
    Knob("optimizer.scale_learning_rate", bool,
         "whether the learning rate goes with the size of the batch", (TORCH,),
         "a learning rate scaled with the batch, for Adam by its square root: {value}",
         by_people="a larger batch may learn differently"),
    Knob("profiler.active", bool, "whether the script's own profiler is on in every step", (TORCH,),
         "torch.profiler.schedule(...), so that only a few steps are profiled",
         by_people="the script was asked to write this profile"),
    Knob("torch.cudnn_benchmark", bool,
         "whether the fastest algorithms of convolutions are searched for", (TORCH,),
         "torch.backends.cudnn.benchmark = {value}"),
    Knob("torch.deterministic", bool, "whether only deterministic algorithms are used", (TORCH,),
         "torch.use_deterministic_algorithms({value})",
         by_people="somebody asked for runs that can be repeated"),
    Knob("torch.num_threads", int, "threads of the training process's operators", (TORCH,),
         "torch.set_num_threads({value}) at the beginning", most=MANY),
    Knob("autocast.dtype", str,
         "the narrow type in which the forward pass and the loss are computed",
         (TORCH, TENSORFLOW, JAX),
         "`with torch.autocast(device_type, dtype=torch.{text}):` around forward pass and loss",
         by_hand_in=(TENSORFLOW, JAX), among=("bfloat16", "float16")),
    Knob("autocast.grad_scaler", bool,
         "whether losses are scaled, so that narrow gradients do not underflow",
         (TORCH, TENSORFLOW, JAX), "torch.amp.GradScaler(enabled={value}) around the backward pass",
         by_hand_in=(TENSORFLOW, JAX)),
    Knob("model.compile", bool, "whether the model is compiled", (TORCH, TENSORFLOW, JAX),
         "model = torch.compile(model) once the model is on its device",
         by_hand_in=(TENSORFLOW, JAX),
         draws="others in steps", compiles=True),
    Knob("step.compile", bool, "whether the function that takes a step's gradients is compiled",
         (TENSORFLOW, JAX), "@tf.function above the function that takes the gradients",
         by_people="its Python code runs once per trace only"),
    Knob("tf.functions_eager", bool, "whether traced functions run as plain Python", (TENSORFLOW,),
         "tf.config.run_functions_eagerly({value})",
         by_people="somebody may be debugging with it"),
    Knob("tf.reduce_retracing", bool, "whether a traced function serves several shapes",
         (TENSORFLOW,), "@tf.function(reduce_retracing={value})",
         by_people="it must be set where the script makes the function"),
    Knob("tfdata.interleave_calls", int, "sources that a stage reads at a time", (TENSORFLOW,),
         "dataset.interleave(..., num_parallel_calls={value})", most=MANY,
         by_people="only the script shows how many sources may be open together"),
    Knob("tfdata.map_calls", int, "elements for which a stage calls its function at a time",
         (TENSORFLOW,), "dataset.map(..., num_parallel_calls={value})", most=MANY),
    Knob("tfdata.pool", int, "threads of a pipeline", (TENSORFLOW,),
         "options = tf.data.Options(); options.threading.private_threadpool_size = {value}; "
         "dataset = dataset.with_options(options)", most=MANY,
         by_people="it must be set where the script makes the pipeline"),
    Knob("keras.run_eagerly", bool, "whether a model calls its operators one by one", (KERAS,),
         "model.compile(..., run_eagerly={value})",
         by_people="somebody may be debugging with it"),
    Knob("keras.steps_per_execution", int, "steps that one call of a model's function takes",
         (KERAS,), "model.compile(..., steps_per_execution={value})", most=MANY),
    Knob("keras.train_on_batch", bool, "whether a step on one batch is traced once", (KERAS,),
         "Keras 3.9 or later, which traces train_on_batch once",
         by_people="it needs Keras 3.9 or later"),
    Knob("keras.workers", int, "threads that make the batches of a PyDataset", (KERAS,),
         "the PyDataset with super().__init__(workers={value})", most=MANY),
    Knob("jax.check_tracer_leaks", bool,
         "whether traced values that outlive their trace are searched for", (JAX,),
         'jax.config.update("jax_check_tracer_leaks", {value})',
         by_people="somebody may be debugging with it"),
    Knob("jax.compilation_cache", str, "the folder in which compiled functions are kept", (JAX,),
         'jax.config.update("jax_compilation_cache_dir", FOLDER) and '
         'jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)',
         by_people="only people know a folder that may grow"),
    Knob("jax.debug_nans", bool, "whether every result is searched for NaN", (JAX,),
         'jax.config.update("jax_debug_nans", {value})',
         by_people="somebody may be debugging with it"),
    Knob("jax.disable_jit", bool, "whether functions run operator by operator", (JAX,),
         'jax.config.update("jax_disable_jit", {value})',
         by_people="somebody may be debugging with it"),
    Knob("jax.x64", bool, "whether numbers have 64 bits by default", (JAX,),
         'jax.config.update("jax_enable_x64", {value}) before the first array',
         by_people="only the author knows whether the numbers need 64 bits"),
    Knob("callbacks.every", int, "steps from one call of a user's callback to the next", (PYTHON,),
         "a condition that calls it every {value} steps, if it only logs or measures",
         by_people="what it computes or shows would be updated less often"),
    Knob("checkpoint.interval_factor", int, "times as many steps from one checkpoint to the next",
         (PYTHON,), "an interval {value} times as long between checkpoints",
         by_people="a killed job would repeat more work"),
    Knob("collate.length_buckets", str, "the lengths to which batches are padded", (PYTHON,),
         by_people="the script pads its batches itself"),
    Knob("collate.pad_to", str, "the sample to whose length a batch is padded", (PYTHON,),
         among=("longest",), by_people="the script pads its batches itself"),
    Knob("compile.cache", str,
         "the folder in which compiled code is kept from one start to the next", (PYTHON,),
         by_people="it speeds up later starts, not this one"),
    Knob("evaluation.batch_factor", int, "times as many samples in a batch of an evaluation",
         (PYTHON,), "evaluation batches {value} times as large",
         by_people="the script builds the loader itself"),
    Knob("evaluation.interval_factor", int, "times as many steps from one evaluation to the next",
         (PYTHON,), "an interval {value} times as long between evaluations",
         by_people="early stopping, schedulers or checkpoints may use the results"),
    Knob("gc.collect_interval_steps", int,
         "steps from one collection of garbage that the script asks for to the next", (PYTHON,),
         "gc.collect() every {value} steps only (with gc.freeze(), gc.disable() as well)"),
    Knob("gc.freeze", bool,
         "whether the garbage collector leaves out what was there when training began", (PYTHON,),
         "gc.collect() and gc.freeze() after the first steps"),
    Knob("iterator.ahead", int, "batches that a thread makes ahead of the loop", (PYTHON,),
         "a thread that keeps a queue.Queue({value}) of batches full", most=MANY,
         by_people="the library's own prefetching keeps its position"),
    Knob("loader.batch_size_times", float, "times as many samples in a training batch", (PYTHON,),
         "a batch size {value} times as large", least=FACTOR, most=MANY, per_sample=True,
         by_people="a larger batch may learn differently"),
    Knob("log.deferred", bool, "whether numbers that are only shown stay on the device until then",
         (PYTHON,), "the values into a list, and read them where they are displayed",
         by_people="only the script shows where the number is needed"),
    Knob("logging.interval_factor", int, "times as many steps from one report to the next",
         (PYTHON,), "an interval {value} times as long between reports",
         by_people="curves would have fewer points"),
    Knob("loop.microbatch_times", float,
         "times as many samples in a micro-batch, and as many times fewer of them", (PYTHON,),
         least=FACTOR, most=MANY,
         by_people="only someone who knows the job can tell whether the loss stays the same"),
    Knob("python.profiler", bool, "whether a profiler of Python runs", (PYTHON,),
         "the command without cProfile or another Python profiler",
         by_people="the command itself starts it"),
    Knob("python.tracer", bool, "whether a debugger or a tool for coverage runs", (PYTHON,),
         "the command without debugger and coverage", by_people="the command itself starts it"),
    Knob("dataset.cache", bool, "whether samples are kept once they are made", (LOADERS,),
         "a cache of the dataset's items, by index"),
    Knob("loader.full_affinity", bool, "whether loader workers may use all cores of the command",
         (LOADERS,),
         "os.sched_setaffinity(0, CORES) in worker_init_fn, with all cores of the command"),
    Knob("loader.persistent_workers", bool,
         "whether loader workers live on from one epoch to the next", (LOADERS,),
         "DataLoader(..., persistent_workers={value})", draws="others"),
    Knob("loader.prefetch_factor", int, "batches that each loader worker makes ahead", (LOADERS,),
         "DataLoader(..., prefetch_factor={value})", most=MANY),
    Knob("loader.worker_threads", int, "threads of each loader worker", (LOADERS,),
         "torch.set_num_threads({value}) in the DataLoader's worker_init_fn", most=MANY),
    Knob("loader.workers", int, "processes that make batches", (LOADERS,),
         "DataLoader(..., num_workers={value})", least=0, most=MANY, draws="others",
         counts_processes=True, written_first=True),
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
