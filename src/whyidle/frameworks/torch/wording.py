"""What users of PyTorch write to set a knob by hand."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "autocast.dtype": (
        "`with torch.autocast(device_type, dtype=torch.{text}):` around forward pass and loss"
    ),
    "autocast.grad_scaler": "torch.amp.GradScaler(enabled={value}) around the backward pass",
    "autograd.anomaly_mode": "torch.autograd.set_detect_anomaly({value})",
    "callbacks.every": (
        "a condition that calls it in every {value}th step only, if it but logs or measures"
    ),
    "checkpoint.asynchronous": (
        "torch.distributed.checkpoint.async_save(...) instead of torch.save(...)"
    ),
    "checkpoint.interval_factor": "an interval {value} times as long where it saves",
    "collate.length_buckets": "a collate_fn that pads to the next of the {text}",
    "collate.pad_to": "a collate_fn that pads each batch to its {text} sample",
    "compile.cache": (
        "TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR as a folder that outlives the job"
    ),
    "copy.non_blocking": (
        "batch.to(device, non_blocking={value}) where batches go to the device; with "
        "Accelerate dataloader_config=DataLoaderConfiguration(non_blocking={value}), with "
        "Hugging Face's Trainer accelerator_config=dict(non_blocking={value})"
    ),
    "dataset.cache": ("a cache of what the dataset returns, by index"),
    "dataset.staging": (
        "a copy of the data files in /dev/shm or on a local disk, which the dataset reads"
    ),
    "ddp.bucket_cap_mb": "DistributedDataParallel(..., bucket_cap_mb={value})",
    "ddp.comm_hook": (
        "model.register_comm_hook(None, "
        "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.{text}_hook)"
    ),
    "ddp.find_unused_parameters": "DistributedDataParallel(..., find_unused_parameters={value})",
    "ddp.gradient_as_bucket_view": "DistributedDataParallel(..., gradient_as_bucket_view={value})",
    "ddp.no_sync": (
        "`with model.no_sync():` around forward and backward pass of each micro-batch but "
        "the one that optimizer.step() follows ({value} to a step)"
    ),
    "ddp.static_graph": "DistributedDataParallel(..., static_graph={value})",
    "evaluation.batch_factor": "evaluation batches {value} times as large",
    "evaluation.gradients": "`with torch.set_grad_enabled({value}):` around evaluation",
    "evaluation.interval_factor": "an interval {value} times as long where it evaluates",
    "gc.collect_interval_steps": (
        "gc.collect() in every {value}th step only (with gc.freeze(), gc.disable() as well)"
    ),
    "gc.freeze": "gc.collect() and gc.freeze() after the first steps",
    "loader.batch_size_times": "a batch size {value} times as large",
    "loader.device_prefetch": (
        "copies of the next {value} batch(es) on a second stream while this one is computed"
    ),
    "loader.full_affinity": (
        "os.sched_setaffinity(0, CORES) in worker_init_fn, with all cores of the command"
    ),
    "loader.persistent_workers": "DataLoader(..., persistent_workers={value})",
    "loader.pin_memory": "DataLoader(..., pin_memory={value})",
    "loader.prefetch_factor": "DataLoader(..., prefetch_factor={value})",
    "loader.worker_threads": "torch.set_num_threads({value}) in the DataLoader's worker_init_fn",
    "loader.workers": "DataLoader(..., num_workers={value})",
    "log.deferred": (
        "`total += loss.detach()` instead of `total += loss.item()`, and read where it is shown"
    ),
    "logging.asynchronous": "calls of the tracker in a thread of their own, in order",
    "logging.interval_factor": "an interval {value} times as long where it logs",
    "loop.microbatch_times": (
        "micro-batches {value} times as large, and as many times fewer of them: with "
        "Hugging Face per_device_train_batch_size and gradient_accumulation_steps, with "
        "Lightning a loader's batch_size and accumulate_grad_batches"
    ),
    "matmul.precision": "torch.set_float32_matmul_precision({value})",
    "memory.empty_cache_every": (
        "torch.cuda.empty_cache() in every {value}th step only, or not at all"
    ),
    "model.attention": (
        "nn.MultiheadAttention(...)(..., need_weights=False) where its weights are thrown "
        'away; for models of transformers attn_implementation="{text}"'
    ),
    "model.checkpointing": (
        "calls of the layers themselves instead of through torch.utils.checkpoint "
        "(transformers: activation_checkpointing={value}, in older ones "
        "gradient_checkpointing={value})"
    ),
    "model.compile": "model = torch.compile(model) once the model is on its device",
    "model.compile_dynamic": "torch.compile(model, dynamic={value})",
    "model.compile_mode": "torch.compile(model, mode={value})",
    "model.memory_format": "model.to(memory_format=torch.{text}), the input batch as well",
    "optimizer.foreach": "torch.optim.NAME(..., foreach={value})",
    "optimizer.fused": "torch.optim.NAME(..., fused={value})",
    "optimizer.scale_learning_rate": (
        "a learning rate scaled with the batch, for Adam by its square root: {value}"
    ),
    "profiler.active": "torch.profiler.schedule(...), so that only a few steps are profiled",
    "python.profiler": "the command without cProfile or another profiler of Python",
    "python.tracer": "the command without debugger and coverage",
    "torch.cudnn_benchmark": "torch.backends.cudnn.benchmark = {value}",
    "torch.deterministic": "torch.use_deterministic_algorithms({value})",
    "torch.num_threads": "torch.set_num_threads({value}) at the beginning",
}
"""knob -> the object of "write", without full stop; ``{value}`` stands for the setting as Python
writes it, ``{text}`` for it as it is"""

PATCHED: Final[dict[str, str]] = {
    "loader.persistent_workers": (
        "from the second epoch on the patched files draw other random numbers, those that "
        "shuffle among them, as PyTorch seeds no workers anew that stay; the plan draws "
        "the same ones as before"
    )
}
"""knob -> what is otherwise in a file that says so than in a process that it is applied to, as a
sentence without full stop"""
