"""Names in recordings of PyTorch: profiler traces, watched runs and stack samples."""

from __future__ import annotations

from typing import Final

from whyidle.frameworks._platform import FRAME
from whyidle.frameworks._platform import RULES as PLATFORM
from whyidle.frameworks.torch.operators import describe_operator
from whyidle.model.frames import INSTALLED, TORCH
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
    Rule(Role.COMPILED_FRAME, r"torch/_functorch/_aot_autograd/|torch/_inductor/output_code\.py"),
    Rule(Role.COMPILED_FRAME, r"<eval_with_key>|/[a-z0-9]{2}/c[a-z2-7]{50,52}\.py\(\d+\): call"),
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
    Rule(Role.LAYOUT_CHANGE, r"^aten::(contiguous|reshape|_reshape_copy)$", _OP),
    Rule(Role.SCALAR_OPERATOR, r"^aten::(item|_local_scalar_dense|is_nonzero)$"),
    Rule(Role.BATCHED_PRODUCT, r"^aten::(bmm|baddbmm)$"),
    Rule(Role.BATCHED_PRODUCT_CALL, r"^aten::(bmm|baddbmm|matmul|einsum)$"),
    Rule(Role.PRODUCT_WRAPPER, r"^aten::(matmul|linear|einsum|scaled_dot_product_attention)$"),
    Rule(Role.LOOKUP, r"^aten::index$"),
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
    Rule(Role.RECOMPUTE_FRAME, rf"{_CHECKPOINT}(recompute_fn|unpack_hook|backward)$"),
    Rule(Role.RECOMPUTE_CALL, rf"{_CHECKPOINT}checkpoint$"),
    Rule(Role.STACK_RECORDING, r"torch/fx/traceback\.py\(\d+\): format_stack"),
    Rule(Role.PROFILER_CODE, r"torch/(autograd/profiler\w*|profiler/\w+)\.py\("),
    Rule(Role.STACK_RECORDING, r": (format_stack|_?extract_stack)(;|$)"),
    Rule(
        Role.OWN_ATTENTION,
        r"torch[/\\]nn[/\\]functional\.py\(\d+\): multi_head_attention_forward\b",
    ),
    Rule(Role.SOFTMAX_CALL, r"^[^;]*torch[/\\]nn[/\\]functional\.py\(\d+\): softmax;"),
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
VOCABULARY: Final = Vocabulary((*PLATFORM, *RULES), describe_operator)
"""the names in all recordings of PyTorch"""
