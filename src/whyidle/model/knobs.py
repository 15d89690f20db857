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
    """One thing that can be set. ``by_hand`` is what a person writes, as the object of "write";
    ``{value}`` stands for the setting as Python writes it, ``{text}`` as it is. Where only some
    texts mean anything they are ``among`` these; a number is at ``least`` and at ``most`` these.
    ``written``: what is otherwise in a file that says so than in a process that it is applied to,
    as a sentence without full stop."""

    kind: type[Setting]
    by_hand: str
    among: tuple[str, ...] = ()
    least: float = 1
    most: float = float("inf")
    written: str = ""


MANY: Final = 1024
"""more worker processes, threads, or batches ahead than this no machine has room for"""
FACTOR: Final = 0.01
"""a batch is made no smaller than this share of what it is"""
ENVIRONMENT: Final = "env."
"""knobs that begin so are variables of the command's environment; their settings are text"""

KNOBS: Final[dict[str, Knob]] = {
    "autocast.dtype": Knob(
        str,
        "`with torch.autocast(device_type, dtype=torch.{text}):` around forward pass and loss",
        ("bfloat16", "float16"),
    ),
    "autocast.grad_scaler": Knob(
        bool, "torch.amp.GradScaler(enabled={value}) around the backward pass"
    ),
    "autograd.anomaly_mode": Knob(bool, "torch.autograd.set_detect_anomaly({value})"),
    "callbacks.every": Knob(
        int,
        "a condition that calls it in every {value}th step only, if it but logs or measures",
    ),
    "checkpoint.asynchronous": Knob(
        bool, "torch.distributed.checkpoint.async_save(...) instead of torch.save(...)"
    ),
    "checkpoint.interval_factor": Knob(int, "an interval {value} times as long where it saves"),
    "collate.length_buckets": Knob(str, "a collate_fn that pads to the next of the {text}"),
    "collate.pad_to": Knob(
        str, "a collate_fn that pads each batch to its {text} sample", ("longest",)
    ),
    "compile.cache": Knob(
        str, "TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR as a folder that outlives the job"
    ),
    "copy.non_blocking": Knob(
        bool,
        "batch.to(device, non_blocking={value}) where batches go to the device; with Accelerate "
        "dataloader_config=DataLoaderConfiguration(non_blocking={value}), with Hugging Face's "
        "Trainer accelerator_config=dict(non_blocking={value})",
    ),
    "dataset.cache": Knob(bool, "a cache of what the dataset returns, by index"),
    "dataset.staging": Knob(
        bool, "a copy of the data files in /dev/shm or on a local disk, which the dataset reads"
    ),
    "ddp.bucket_cap_mb": Knob(int, "DistributedDataParallel(..., bucket_cap_mb={value})"),
    "ddp.comm_hook": Knob(
        str,
        "model.register_comm_hook(None, torch.distributed.algorithms.ddp_comm_hooks."
        "default_hooks.{text}_hook)",
        ("bf16_compress",),
    ),
    "ddp.find_unused_parameters": Knob(
        bool, "DistributedDataParallel(..., find_unused_parameters={value})"
    ),
    "ddp.gradient_as_bucket_view": Knob(
        bool, "DistributedDataParallel(..., gradient_as_bucket_view={value})"
    ),
    "ddp.no_sync": Knob(
        int,
        "`with model.no_sync():` around forward and backward pass of each micro-batch but the one "
        "that optimizer.step() follows ({value} to a step)",
    ),
    "ddp.static_graph": Knob(bool, "DistributedDataParallel(..., static_graph={value})"),
    "evaluation.batch_factor": Knob(int, "evaluation batches {value} times as large"),
    "evaluation.gradients": Knob(bool, "`with torch.set_grad_enabled({value}):` around evaluation"),
    "evaluation.interval_factor": Knob(int, "an interval {value} times as long where it evaluates"),
    "gc.collect_interval_steps": Knob(
        int, "gc.collect() in every {value}th step only (with gc.freeze(), gc.disable() as well)"
    ),
    "gc.freeze": Knob(bool, "gc.collect() and gc.freeze() after the first steps"),
    "loader.batch_size_times": Knob(
        float, "a batch size {value} times as large", least=FACTOR, most=MANY
    ),
    "loader.device_prefetch": Knob(
        int,
        "copies of the next {value} batch(es) on a second stream while this one is computed",
        least=0,
        most=MANY,
    ),
    "loader.full_affinity": Knob(
        bool, "os.sched_setaffinity(0, CORES) in worker_init_fn, with all cores of the command"
    ),
    "loader.persistent_workers": Knob(
        bool,
        "DataLoader(..., persistent_workers={value})",
        written="from the second epoch on the patched files draw other random numbers, those that "
        "shuffle among them, as PyTorch seeds no workers anew that stay; the plan draws the same "
        "ones as before",
    ),
    "loader.pin_memory": Knob(bool, "DataLoader(..., pin_memory={value})"),
    "loader.prefetch_factor": Knob(int, "DataLoader(..., prefetch_factor={value})", most=MANY),
    "loader.worker_threads": Knob(
        int,
        "torch.set_num_threads({value}) in the DataLoader's worker_init_fn",
        most=MANY,
    ),
    "loader.workers": Knob(int, "DataLoader(..., num_workers={value})", least=0, most=MANY),
    "log.deferred": Knob(
        bool,
        "`total += loss.detach()` instead of `total += loss.item()`, and read where it is shown",
    ),
    "logging.asynchronous": Knob(bool, "calls of the tracker in a thread of their own, in order"),
    "logging.interval_factor": Knob(int, "an interval {value} times as long where it logs"),
    "loop.microbatch_times": Knob(
        float,
        "micro-batches {value} times as large, and as many times fewer of them: with Hugging Face "
        "per_device_train_batch_size and gradient_accumulation_steps, with Lightning a loader's "
        "batch_size and accumulate_grad_batches",
        least=FACTOR,
        most=MANY,
    ),
    "matmul.precision": Knob(
        str, "torch.set_float32_matmul_precision({value})", ("highest", "high", "medium")
    ),
    "memory.empty_cache_every": Knob(
        int,
        "torch.cuda.empty_cache() in every {value}th step only, or not at all",
    ),
    "model.attention": Knob(
        str,
        "nn.MultiheadAttention(...)(..., need_weights=False) where its weights are thrown away; "
        'for models of transformers attn_implementation="{text}"',
    ),
    "model.checkpointing": Knob(
        bool,
        "calls of the layers themselves instead of through torch.utils.checkpoint "
        "(transformers: activation_checkpointing={value}, in older ones "
        "gradient_checkpointing={value})",
    ),
    "model.compile": Knob(bool, "model = torch.compile(model) once the model is on its device"),
    "model.compile_dynamic": Knob(bool, "torch.compile(model, dynamic={value})"),
    "model.compile_mode": Knob(
        str,
        "torch.compile(model, mode={value})",
        ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    ),
    "model.memory_format": Knob(
        str,
        "model.to(memory_format=torch.{text}), the input batch as well",
        ("channels_last",),
    ),
    "optimizer.foreach": Knob(bool, "torch.optim.NAME(..., foreach={value})"),
    "optimizer.fused": Knob(bool, "torch.optim.NAME(..., fused={value})"),
    "optimizer.scale_learning_rate": Knob(
        bool,
        "a learning rate scaled with the batch, for Adam by its square root: {value}",
    ),
    "profiler.active": Knob(
        bool, "torch.profiler.schedule(...), so that only a few steps are profiled"
    ),
    "python.profiler": Knob(bool, "the command without cProfile or another profiler of Python"),
    "python.tracer": Knob(bool, "the command without debugger and coverage"),
    "torch.cudnn_benchmark": Knob(bool, "torch.backends.cudnn.benchmark = {value}"),
    "torch.deterministic": Knob(bool, "torch.use_deterministic_algorithms({value})"),
    "torch.num_threads": Knob(int, "torch.set_num_threads({value}) at the beginning", most=MANY),
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


def by_hand(name: str, value: Setting) -> str:
    """What a person writes to set a knob, without full stop."""
    if name.startswith(ENVIRONMENT):
        variable = name.removeprefix(ENVIRONMENT)
        behind = ", behind a comma where it is set already," if variable in LISTS else ""
        return f"export {variable}={value}{behind} before the command"
    return "write " + KNOBS[name].by_hand.format(value=as_python(value), text=value)


def as_python(value: Setting) -> str:
    """A setting as an expression of Python; text in double quotes."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
