"""Names in recordings of PyTorch: profiler traces, watched runs and stack samples."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from whyidle.frameworks._platform import FRAME
from whyidle.frameworks._platform import RULES as PLATFORM
from whyidle.model.frames import INSTALLED, TORCH
from whyidle.model.operators import Operator, Work, Written
from whyidle.model.roles import Role, Rule, Vocabulary
from whyidle.model.timeline import HostKind

_OP: Final = (HostKind.OP,)
_COLLECTIVE: Final = (HostKind.ANNOTATION, HostKind.OP, HostKind.PYTHON)
_RELEASING: Final = (HostKind.RUNTIME, HostKind.PYTHON)
_CHECKPOINT: Final = r"torch/utils/checkpoint\.py\(\d+\): "

_LOADER: Final = (
    Rule(Role.LOADER, r"^enumerate\(DataLoader\)#|^\[pl\].*dataloader_next", FRAME),
    Rule(Role.LOADER, r"dataloader\.py\(\d+\): __(next|iter)__", FRAME),
    Rule(Role.BATCH_REQUEST, r"^enumerate\(DataLoader\)#"),
    Rule(Role.BATCH_INLINE, r"_SingleProcessDataLoaderIter\.__next__"),
    Rule(Role.BATCH_FROM_WORKERS, r"_MultiProcessingDataLoaderIter\.__next__"),
    Rule(Role.LOADER_START, r"dataloader\.py\(\d+\): __iter__$"),
    Rule(Role.LOADER_FRAME, r"torch/utils/data/dataloader\.py"),
)
_STEP: Final = (
    Rule(Role.PROFILER_STEP, r"^ProfilerStep#(?P<label>\d+)"),
    Rule(Role.TRAINING_STEP, r"(?i:^\[pl\].*batch|Trainer\.training_step)"),
    Rule(Role.OPTIMIZER, r"^Optimizer\.step#(?:(?P<label>\w+)\.step)?"),
    Rule(Role.OPTIMIZER_CALL, r"^Optimizer\."),
    Rule(Role.BACKWARD_NODE, r"^autograd::engine::evaluate_function", _OP),
    Rule(
        Role.OPERATOR_GRADIENT,
        r"^autograd::engine::evaluate_function: (?!CheckpointFunctionBackward)",
    ),
    Rule(Role.FRAMEWORK_MARK, r"^autograd::engine::evaluate_function"),
    Rule(Role.RECOMPUTATION, r"^CheckpointFunctionBackward$"),
    Rule(Role.RECOMPUTATION, rf"{_CHECKPOINT}(recompute_fn|unpack_hook)$"),
    Rule(Role.EVALUATION, r"^\[pl\].*(validation|val_step)", FRAME),
    Rule(Role.CHECKPOINT, r"torch/serialization\.py\(\d+\): (save|_save|_legacy_save)", FRAME),
    Rule(Role.CHECKPOINT, r"distributed/checkpoint/.*: (save|_save|dcp_save|async_save)", FRAME),
    Rule(Role.LOGGING, rf"{INSTALLED}torch/utils/tensorboard/", FRAME),
    Rule(Role.TRACKER, rf"{INSTALLED}torch/utils/tensorboard/"),
)
_COMPILER: Final = (
    Rule(Role.COMPILE, r"\(dynamo_timed\)"),
    Rule(Role.COMPILE, r"torch/_dynamo/(convert_frame|bytecode|symbolic|output_graph)"),
    Rule(Role.COMPILE, r"torch/_inductor/(compile_fx|graph|scheduler|codecache|async_compile)"),
    Rule(Role.COMPILER, r"torch/_dynamo/|torch/_inductor/"),
    Rule(Role.CODE_WRITER, r"torch/_inductor/compile_fx\.py\(\d+\): (?!<)"),
    Rule(Role.COMPILER_CALL, r"\(dynamo_timed\)|^compile_fx|^_compile\.compile_inner"),
    Rule(Role.COMPILER_CALL, r"torch/_dynamo/convert_frame\.py|torch/_inductor/compile_fx\.py"),
    Rule(Role.COMPILED_CALL, r"^## Call CompiledFxGraph", (HostKind.ANNOTATION,)),
    Rule(Role.COMPILED_REGION, r"^Torch-Compiled Region: (?P<label>\d+)/\d+"),
    Rule(
        Role.RESUMED_FRAME, r"(?:^|\): )torch_dynamo_resume_in_(?P<function>[^;]+)_at_(?P<line>\d+)"
    ),
)
_EXCHANGE: Final = (
    Rule(Role.COLLECTIVE_WAIT, r"^c10d::(barrier|monitored_barrier)", _COLLECTIVE),
    Rule(
        Role.COLLECTIVE_WAIT,
        r"distributed_c10d\.py\(\d+\): (barrier|monitored_barrier)|<built-in method wait of "
        r".*(Work|_distributed_c10d)",
        _COLLECTIVE,
    ),
    Rule(Role.COLLECTIVE_CALL, r"^c10d::"),
    Rule(Role.COLLECTIVE_RECORD, r"^(c10d::|record_param)"),
    Rule(Role.GRADIENT_EXCHANGE, r"^c10d::allreduce_"),
    Rule(Role.REPLICA_FORWARD, r"^DistributedDataParallel\.forward$"),
    Rule(Role.GRADIENT_SEARCH, r"reducer::search_unused_parameters"),
    Rule(Role.GRADIENT_COPY, r"reducer::copy_bucket_to_grad"),
    Rule(Role.GRADIENT_SCALE, r"distributed::reducer::(mul_out|copy_)"),
    Rule(Role.REPLICATION, r"^DataParallel\.forward$"),
    Rule(Role.REPLICATION, r"^(Broadcast|Scatter|Gather|ReduceAddCoalesced)(Backward)?$"),
    Rule(Role.REPLICATION, r"scatter_gather\.py\(\d+\): (scatter|gather)$"),
    Rule(Role.REPLICATION, r"replicate\.py\(\d+\): replicate$"),
    Rule(Role.ALLOCATOR, r": empty_cache$|<built-in function _cuda_emptyCache>", _RELEASING),
    Rule(Role.CACHE_RELEASE, r": empty_cache$|_cuda_emptyCache"),
)
_OPERATORS: Final = (
    Rule(
        Role.CONVOLUTION,
        r"^aten::(_?convolution|convolution_backward|(cudnn|miopen)_convolution\w*)$",
        _OP,
    ),
    Rule(Role.CONVOLUTION_GRADIENTS, r"convolution_backward"),
    Rule(Role.CPU_KERNEL, r"mkldnn|onednn|_for_cpu\b|_nnpack|fbgemm", _OP),
    Rule(Role.CPU_KERNEL, r"aten::_?slow_conv|aten::thnn_conv|aten::quantized_.*_cpu", _OP),
    Rule(Role.DATA_MOVEMENT, r"^aten::(to|_to_copy|copy_|empty|empty_strided|lift_fresh)$"),
    Rule(Role.DATA_MOVEMENT, r"^aten::(item|_local_scalar_dense|as_strided|view)$"),
    Rule(Role.DATA_MOVEMENT, r"^aten::(pin_memory|is_pinned|_pin_memory)$"),
    Rule(Role.DATA_MOVEMENT, r"^aten::(resolve_conj|resolve_neg)$|^(aten::)?detach$"),
    Rule(Role.SCALAR_OPERATOR, r"^aten::(item|_local_scalar_dense|is_nonzero)$"),
    Rule(Role.BATCHED_PRODUCT_CALL, r"^aten::(bmm|baddbmm|matmul|einsum)$"),
    Rule(Role.LOOKUP_GRADIENT, r"^Embedding(Bag)?Backward\d*$", _OP),
    Rule(Role.INDEXING_GRADIENT, r"^(Embedding(Bag)?|(Index)?Select|Slice|Index)Backward\d*$", _OP),
    Rule(Role.ZERO_FILL, r"^aten::(zero_|fill_)$", _OP),
    Rule(Role.SOFTMAX, r"^aten::_softmax$"),
    Rule(Role.SOFTMAX_GRADIENT, r"^aten::_softmax_backward_data$"),
    Rule(Role.ATTENTION, r"^aten::_?scaled_dot_product_"),
    Rule(Role.WEIGHTED, r"^aten::(linear|conv[123]d)$"),
    Rule(Role.NAN_CHECK, r"^aten::isnan$", _OP),
    Rule(Role.FUSED_UPDATE, r"^aten::_(fused_|foreach_.*_fused_)", _OP),
    Rule(Role.FOREACH_UPDATE, r"^aten::_foreach_", _OP),
)
_FRAMES: Final = (
    Rule(Role.INLINE_FRAME, r"torch/utils/data/_utils/fetch\.py\(\d+\): fetch$"),
    Rule(
        Role.WORKER_WAIT_FRAME,
        r"torch/utils/data/dataloader\.py\(\d+\): (_get_data|_try_get_data|_process_data|"
        r"_try_put_index)$",
    ),
    Rule(Role.WORKER_ENTRY, r"torch/utils/data/_utils/worker\.py\(\d+\): _worker_loop$"),
    Rule(Role.FRAMEWORK_CODE, TORCH),
    Rule(Role.OPERATOR_FRAME, rf"{TORCH}(?!_dynamo|_inductor|_functorch|_guards|fx/|utils/data/)"),
    Rule(Role.COMPUTE_FRAME, r"/torch/(nn/|optim/|autograd/|functional\.py|_tensor\.py)"),
    Rule(Role.GENERATED_FRAME, r"/[a-z0-9]{2}/c[a-z2-7]{50,52}\.py\(\d+\): call$"),
    Rule(Role.FRAMEWORK_FRAME, rf"{TORCH}(?!utils/data/)"),
    Rule(Role.TRAINING_FRAME, r"/torch/(nn|optim|autograd|_dynamo|_inductor|_functorch)/"),
    Rule(Role.OPTIMIZER_FRAME, r"torch/optim/"),
    Rule(Role.BACKWARD_FRAME, r"torch/autograd/__init__\.py\(\d+\): (backward|_engine|grad)"),
    Rule(Role.ENGINE_FRAME, r"torch/autograd/__init__\.py\(\d+\): backward"),
    Rule(Role.ENGINE_FRAME, r"torch/autograd/graph\.py\(\d+\): _engine"),
    Rule(Role.STACK_RECORDING, r"torch/fx/traceback\.py\(\d+\): format_stack"),
    Rule(Role.PROFILER_CODE, r"torch/(autograd/profiler\w*|profiler/\w+)\.py\("),
    Rule(Role.STACK_RECORDING, r": (format_stack|_?extract_stack)(;|$)"),
    Rule(
        Role.OWN_ATTENTION,
        r"torch[/\\]nn[/\\]functional\.py\(\d+\): multi_head_attention_forward\b",
    ),
)
_LINES: Final = (
    Rule(Role.MODEL_CODE, r"torch/nn/modules/"),
    Rule(
        Role.LOSS_CODE,
        r"torch/nn/(modules/loss\.py|functional\.py\(\d+\): "
        r"(cross_entropy|kl_div|binary_cross_entropy(_with_logits)?|\w+_loss)$)",
    ),
    Rule(Role.UPDATE_CODE, r"torch/(optim/|amp/grad_scaler\.py)|/(apex|bitsandbytes)/optim"),
    Rule(
        Role.BACKWARD_CODE, r"torch/(autograd/(graph|__init__)\.py|_tensor\.py\(\d+\): backward$)"
    ),
    Rule(Role.CLIPPING_CODE, r"torch/nn/utils/clip_grad\.py"),
    Rule(Role.DATA_CODE, r"torch/utils/data/"),
    Rule(Role.TABLE_CODE, r"utils/data/dataset\.py\(.*;.*utils/data/_utils/collate\.py"),
    Rule(Role.EXCHANGE_CODE, r"torch/distributed/"),
    Rule(Role.LOG_CODE, r"torch/utils/tensorboard/"),
    Rule(
        Role.LOG_CODE,
        r"(pytorch_lightning|lightning/pytorch)/(loggers/|callbacks/(progress/|lr_monitor|"
        r"device_stats_monitor|throughput_monitor)|"
        r"trainer/connectors/logger_connector/|core/module\.py\(\d+\): (log|log_dict|print)$)|"
        r"(lightning_fabric|lightning/fabric)/loggers/",
    ),
    Rule(
        Role.LOG_CODE,
        rf"{INSTALLED}(accelerate/tracking\.py|transformers/(trainer_callback\.py\(\d+\): on_log|"
        r"trainer\.py\(\d+\): (log|_maybe_log_save_evaluate)|utils/notebook\.py))",
    ),
)
RULES: Final = (*_LOADER, *_LINES, *_STEP, *_COMPILER, *_EXCHANGE, *_OPERATORS, *_FRAMES)
_ATEN: Final = "aten::"

_PRODUCTS: Final[dict[str, int]] = {
    "mm": 0,
    "bmm": 0,
    "_scaled_mm": 0,
    "addmm": 1,
    "_addmm_activation": 1,
    "baddbmm": 1,
    "addmm_": 1,
    "baddbmm_": 1,
}
"""matrix products -> which input is the left one"""
_OUTPUT_KNOWN: Final = frozenset({"mm", "bmm", "addmm", "baddbmm"})
"""products whose output is a new tensor"""
_ATTENTION: Final[dict[str, bool]] = {
    "_flash_attention_forward": False,
    "_efficient_attention_forward": False,
    "_scaled_dot_product_flash_attention": True,
    "_scaled_dot_product_efficient_attention": True,
    "_scaled_dot_product_cudnn_attention": True,
}
"""fused attention -> whether heads come before positions"""
_CONVOLUTIONS: Final = frozenset(
    {"cudnn_convolution", "miopen_convolution", "_convolution", "convolution", "conv2d", "conv1d",
     "conv3d", "cudnn_convolution_relu", "_slow_conv2d_forward", "mkldnn_convolution"}
)  # fmt: skip
_SCALARS: Final = frozenset({"sum", "mean", "norm", "linalg_vector_norm", "any", "all", "argmax",
                             "nll_loss_forward", "_local_scalar_dense", "max", "min"})  # fmt: skip
_BATCHES: Final[dict[str, tuple[int, int]]] = {
    "conv1d": (0, 3),
    "conv2d": (0, 4),
    "conv3d": (0, 5),
    "batch_norm": (0, 0),
    "max_pool2d": (0, 4),
    "scaled_dot_product_attention": (0, 4),
    "embedding": (1, 2),
    "nll_loss": (0, 2),
    "nll_loss_nd": (0, 2),
    "cross_entropy_loss": (0, 2),
    "binary_cross_entropy_with_logits": (0, 0),
}
"""operators -> which input has the batch as its first dimension, and its rank (0: any above 1)"""
_GROUPS: Final = (
    ("matrix_product", re.compile(r"mm$|mm_|matmul|linear|baddbmm|einsum|::dot$|::mv$")),
    ("convolution", re.compile(r"conv")),
    ("attention", re.compile(r"attention")),
    ("optimizer", re.compile(r"_fused_(adam|sgd|adagrad)|_foreach_")),
    ("random", re.compile(r"::(normal|uniform|bernoulli|rand\w*|multinomial|exponential)_?$")),
    ("normalisation", re.compile(r"norm")),
    ("reduction", re.compile(r"::_?(sum|mean|max|min|argmax|var|std|\w*softmax|nll)|loss")),
    ("indexing", re.compile(r"embedding|index_|::index$|gather|scatter")),
    ("copy", re.compile(r"copy_?$|clone|::cat$|::_to_copy|::to$|contiguous|empty|resize_")),
    (
        "elementwise",
        re.compile(
            r"::_?(add|sub|mul|div|sqrt|exp|pow|relu|gelu|silu|sigmoid|tanh|lerp|zero|fill|"
            r"dropout|threshold|where|clamp|neg|abs|square)"
        ),
    ),
)


@lru_cache(maxsize=16384)
def describe_operator(name: str) -> Operator:
    """What the operator of a recorded name does."""
    own, short = name.startswith(_ATEN), name.removeprefix(_ATEN)
    work, first, heads_first = _matrix_work(short)
    return Operator(
        group=next((group for group, pattern in _GROUPS if pattern.search(name)), "other"),
        sized=own,
        work=work,
        first=first,
        heads_first=heads_first,
        writes=_written_inputs(short),
        batch=_BATCHES.get(short) if own else None,
    )


def _matrix_work(short: str) -> tuple[Work | None, int, bool]:
    """Kind of matrix work, its first input, and whether heads come before positions."""
    plain = short.removesuffix("_out")
    if plain in _PRODUCTS:
        return "product", _PRODUCTS[plain], False
    if plain == "linear":
        return "linear", 0, False
    if plain == "convolution_backward":
        return "convolution_gradients", 0, False
    if short in _CONVOLUTIONS:
        return "convolution", 0, False
    if short in ("cudnn_convolution_backward_input", "miopen_convolution_backward_input"):
        return "convolution_input_gradient", 0, False  # as PyTorch before 1.11 called them
    if short in ("cudnn_convolution_backward_weight", "miopen_convolution_backward_weight"):
        return "convolution_weight_gradient", 0, False
    return _attention_work(plain)


def _attention_work(plain: str) -> tuple[Work | None, int, bool]:
    if plain in _ATTENTION:
        return "attention", 0, _ATTENTION[plain]
    stem = plain.removesuffix("_backward")
    for forward in (stem, f"{stem}_forward"):
        if stem != plain and forward in _ATTENTION:
            return "attention_gradients", 1, _ATTENTION[forward]
    return None, 0, False


def _written_inputs(short: str) -> Written:
    if short in _OUTPUT_KNOWN:
        return "product"
    if short in _SCALARS:
        return "nothing"
    if short in ("fill_", "zero_"):
        return "in_place"
    return "copy" if short == "copy_" else "largest"


VOCABULARY: Final = Vocabulary((*PLATFORM, *RULES), describe_operator)
"""the names in all recordings of PyTorch"""
