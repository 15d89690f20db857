"""How users of PyTorch write knobs and fixes by hand."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "autocast.dtype": (
        "`with torch.autocast(device_type, dtype=torch.{text}):` around forward pass and loss"
    ),
    "autocast.grad_scaler": "torch.amp.GradScaler(enabled={value}) around the backward pass",
    "autograd.anomaly_mode": "torch.autograd.set_detect_anomaly({value})",
    "checkpoint.asynchronous": (
        "torch.distributed.checkpoint.async_save(...) instead of torch.save(...)"
    ),
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
    "ddp.bucket_cap_mb": "DistributedDataParallel(..., bucket_cap_mb={value})",
    "ddp.comm_hook": (
        "model.register_comm_hook(None, "
        "torch.distributed.algorithms.ddp_comm_hooks.default_hooks.{text}_hook)"
    ),
    "ddp.find_unused_parameters": "DistributedDataParallel(..., find_unused_parameters={value})",
    "ddp.gradient_as_bucket_view": "DistributedDataParallel(..., gradient_as_bucket_view={value})",
    "ddp.no_sync": (
        "`with model.no_sync():` around forward and backward pass of each micro-batch except "
        "the one before optimizer.step() ({value} per step)"
    ),
    "ddp.static_graph": "DistributedDataParallel(..., static_graph={value})",
    "evaluation.gradients": "`with torch.set_grad_enabled({value}):` around evaluation",
    "fsdp.reshard_after_forward": "fully_shard(..., reshard_after_forward={value})",
    "loader.pin_memory": "DataLoader(..., pin_memory={value})",
    "log.deferred": (
        "`total += loss.detach()` instead of `total += loss.item()`, and read the total where it "
        "is displayed"
    ),
    "loop.microbatch_times": (
        "micro-batches {value} times as large, and correspondingly fewer of them: with Hugging "
        "Face per_device_train_batch_size and gradient_accumulation_steps, with Lightning the "
        "loader's batch_size and accumulate_grad_batches"
    ),
    "matmul.precision": "torch.set_float32_matmul_precision({value})",
    "memory.empty_cache_every": "torch.cuda.empty_cache() every {value} steps at most",
    "model.attention": 'attn_implementation="{text}" for models of transformers',
    "model.checkpointing": (
        "direct calls of the layers instead of torch.utils.checkpoint (transformers: "
        "activation_checkpointing={value}, in older versions gradient_checkpointing={value})"
    ),
    "model.compile": "model = torch.compile(model) once the model is on its device",
    "model.compile_dynamic": "torch.compile(model, dynamic={value})",
    "model.compile_mode": "torch.compile(model, mode={value})",
    "model.memory_format": "model.to(memory_format=torch.{text}), and the same for the input batch",
    "model.recompute": (
        "torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False) where the model calls "
        "{text}"
    ),
    "optimizer.foreach": "foreach={value} among the optimizer's arguments",
    "optimizer.fused": "fused={value} among the optimizer's arguments",
    "optimizer.scale_learning_rate": (
        "a learning rate scaled with the batch, for Adam by its square root: {value}"
    ),
    "profiler.active": "torch.profiler.schedule(...), so that only a few steps are profiled",
    "torch.cudnn_benchmark": "torch.backends.cudnn.benchmark = {value}",
    "torch.deterministic": "torch.use_deterministic_algorithms({value})",
    "torch.num_threads": "torch.set_num_threads({value}) at the beginning",
}
"""knob -> the object of "write", without full stop; ``{value}`` stands for the setting as Python
writes it, ``{text}`` for the setting as it is"""

FIXES: Final[dict[str, str]] = {
    "async-checkpoint": (
        "torch.distributed.checkpoint.async_save; with Lightning plugins=[AsyncCheckpointIO()]"
    ),
    "autocast": "torch.autocast, with float16 also torch.amp.GradScaler",
    "batch-by-length": (
        'transformers: train_sampling_strategy="group_by_length", before 5.2 group_by_length=True'
    ),
    "batched-environments": (
        "gymnasium.make_vec; `with torch.no_grad():` while playing, then model(torch.stack(states))"
    ),
    "capture-whole-model": (
        "TORCH_LOGS=graph_breaks names the lines; scalar reads may also stay with "
        "torch._dynamo.config.capture_scalar_outputs = True"
    ),
    "compile-cache": "TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR",
    "cuda-graphs": "torch.cuda.graph",
    "ddp-instead-of-dataparallel": (
        "torchrun --nproc-per-node, DistributedDataParallel, DistributedSampler"
    ),
    "defer-scalar-reads": "`total += loss.detach()`; torch.where for masks",
    "detached-history": "hidden = hidden.detach(); total += loss.detach()",
    "device-prefetch": "DataLoader(..., pin_memory=True), one batch ahead",
    "fewer-exchanges": "`with model.no_sync():` around all but the last",
    "joined-norms": "torch.stack(torch._foreach_norm(tensors)).tolist()",
    "larger-microbatch": (
        "Hugging Face: per_device_train_batch_size and gradient_accumulation_steps"
    ),
    "less-host-memory": "num_workers, prefetch_factor",
    "mark-dynamic": "torch._dynamo.mark_dynamic",
    "move-to-device": "model.to('cuda'), batch.to('cuda'), torch.cuda.is_available()",
    "no-sync-accumulation": "`with model.no_sync():`",
    "one-process-per-gpu": "torchrun --nproc-per-node with DistributedDataParallel",
    "overlap-exchange": (
        "DistributedDataParallel with a bucket_cap_mb below the model's size; FSDP: "
        "forward_prefetch=True, backward_prefetch=BACKWARD_PRE, limit_all_gathers=False; TorchRec: "
        "TrainPipelineSparseDist"
    ),
    "packed-copies": "device=...",
    "pad-to-longest": (
        'tokenizer: padding="longest"; DataCollatorWithPadding; torch.nn.utils.rnn.pad_sequence'
    ),
    "rarer-trainer-logs": (
        "Lightning: Trainer(log_every_n_steps=100), TQDMProgressBar(refresh_rate=100), "
        "`if self.global_step % 100 == 0:` around self.log; Hugging Face: logging_steps=100"
    ),
    "read-back-less": "non_blocking=True",
    "release-references": (
        "total += loss.detach(); torch.cuda.memory._record_memory_history() for the snapshot"
    ),
    "repair-transport": 'torch.distributed.init_process_group("nccl")',
    "report-rarely": "`if step % 100 == 0:` around it",
    "running-metric": "right += (out.argmax(1) == y).sum()",
    "sdpa-attention": (
        "F.scaled_dot_product_attention(q, k, v), or nn.MultiheadAttention called with "
        "need_weights=False"
    ),
    "steady-recording": "torch.profiler.schedule(wait=5, warmup=2, active=5, repeat=1)",
    "throttle-empty-cache": "torch.cuda.empty_cache()",
    "whole-tensors": "torch.nn.utils.rnn.pad_sequence, torch.vmap",
    "transforms-in-workers": "Dataset.__getitem__, num_workers >= 2",
}
"""fix -> what its summary means in PyTorch, without full stop"""

PATCHED: Final[dict[str, str]] = {
    "loader.persistent_workers": (
        "from the second epoch on the patched files draw other random numbers, also for shuffling, "
        "because PyTorch does not reseed persistent workers; the plan draws the same numbers as "
        "before"
    )
}
"""knob -> how a patched file differs from a run under the plan, as a sentence without full stop"""
