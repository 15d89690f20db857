"""Advice on the model's work on the device, and its memory."""

from __future__ import annotations

from whyidle.model.fix import advice

ADVICE = (
    advice(
        *("move-to-device", "training-on-cpu"),
        title="Run the model on the GPU",
        doc="Move model and batches to the device, and make sure that this process can see it.",
        summary="model.to('cuda') and batch.to('cuda'); check CUDA_VISIBLE_DEVICES and "
        "torch.cuda.is_available()",
        consent="rounding",
        risk="device memory must hold the model",
    ),
    advice(
        *("pad-dimensions", "misaligned-tensor-shapes"),
        title="Pad matrix dimensions to what tensor cores load at once",
        doc="Vocabulary, hidden sizes and batch as multiples of 8 (64 on A100 and later). The "
        "added rows must be masked, and checkpoints change their shape.",
        summary="pad the odd dimensions to multiples of 8, better 64 "
        "(model.resize_token_embeddings(..., pad_to_multiple_of=64) for a vocabulary)",
        consent="numerics",
        risk="extra rows must not take part in the loss; old checkpoints need converting",
    ),
    advice(
        *("release-references", "memory-leak-growth"),
        title="Let go of past steps' tensors",
        doc="Detach what is accumulated over steps. The memory snapshot names the line, the "
        "recording does not.",
        summary="total += loss.detach(); clear lists of outputs; remove hooks; "
        "torch.cuda.memory._record_memory_history() names the line",
        risk="none, if nobody backpropagates through the kept graph",
    ),
    advice(
        *("save-memory", "memory-capacity-bound"),
        title="Make room for a larger batch",
        doc="Save device memory, then raise the batch. Which way is cheapest depends on the model.",
        summary="bf16 autocast, fused cross-entropy, flash attention, selective activation "
        "checkpointing or sharded optimizer states; then a larger batch",
        consent="numerics",
        risk="recomputing activations takes about a fifth longer; reduced precision moves the loss",
    ),
)
