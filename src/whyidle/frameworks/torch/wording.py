"""How users of PyTorch write knobs, if not as declared, and fixes."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "collate.length_buckets": "a collate_fn that pads to the next of the {text}",
    "collate.pad_to": "a collate_fn that pads each batch to its {text} sample",
    "compile.cache": (
        "TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR as a folder that outlives the job"
    ),
    "log.deferred": (
        "`total += loss.detach()` instead of `total += loss.item()`, and read the total where it "
        "is displayed"
    ),
    "loop.microbatch_times": (
        "micro-batches {value} times as large, and correspondingly fewer of them: with Hugging "
        "Face per_device_train_batch_size and gradient_accumulation_steps, with Lightning the "
        "loader's batch_size and accumulate_grad_batches"
    ),
}
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
    "pad-dimensions": "vocabulary: model.resize_token_embeddings(..., pad_to_multiple_of=64)",
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
