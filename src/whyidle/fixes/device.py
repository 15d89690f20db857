"""Fixes of what the device computes, and of its memory."""

from __future__ import annotations

from whyidle.fixes._values import nearby_values
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts, HostFacts, MemoryFacts


@fix("no-mixed-precision", consent="numerics", title="Use mixed precision")
def autocast(proof: Proof) -> Proposal | None:
    """Run forward pass and loss in mixed precision. Matrix products get fewer mantissa bits;
    float16 also needs a gradient scaler against underflow."""
    dtype = proof.get_facts(DeviceFacts).dtype
    edits = [Edit(knob="autocast.dtype", value=dtype)]
    scaler = ""
    if dtype == "float16":
        edits.append(Edit(knob="autocast.grad_scaler", value=True, was=False))
        scaler = ", and scale the loss for the backward pass"
    return Proposal(
        summary=f"compute forward pass and loss in {dtype} mixed precision{scaler}",
        edits=tuple(edits),
        risk="losses, normalisations and custom kernels may need FP32; compare the loss curves",
    )


FEW = 5
"""launches per step below which there is nothing to join: a compiled step has one or a few"""


@fix(
    "launch-bound-small-kernels",
    "unfused-memory-bound-ops",
    consent="rounding",
    title="Compile the model",
)
def compile_model(proof: Proof) -> Proposal | None:
    """Compile the model, so that one kernel launch does the work of many operators. Fused operators
    round differently. Declines where a step has few launches already."""
    if 0.0 < proof.get_facts(HostFacts).launches < FEW:
        return None
    return Proposal(
        edits=(Edit(knob="model.compile", value=True, was=False),),
        risk="the first steps compile for seconds to minutes; new shapes compile again; code that "
        "depends on data stays in Python",
    )


@fix("cudnn-autotune-mismatch", consent="rounding", title="Turn cuDNN's algorithm search on or off")
def cudnn_benchmark(proof: Proof) -> Proposal | None:
    """Turn the search off where shapes keep changing, on where they never do. Another algorithm
    adds in another order, and the search may choose differently from run to run."""
    on = proof.get_facts(DeviceFacts).benchmark
    return Proposal(
        edits=(Edit(knob="torch.cudnn_benchmark", value=not on, was=on),),
        risk="the library's own choice may be slower for shapes that recur"
        if on
        else "needs workspace memory, and searches once per new shape, as in evaluation",
    )


@fix("allocator-thrash", consent="none", title="Use expandable memory segments")
def expandable_segments(proof: Proof) -> Proposal | None:
    """Let segments of device memory grow in place, against fragmentation. Declines where the
    program itself empties the cache: then there is nothing to defragment."""
    if proof.get_facts(MemoryFacts).emptied:
        return None
    return Proposal(
        edits=(Edit(knob="env.PYTORCH_CUDA_ALLOC_CONF", value="expandable_segments:True"),),
        risk="not supported on every platform, nor for tensors shared between processes",
    )


LARGE = 8192
"""samples per step over all ranks from which scaling the learning rate may no longer be enough:
ImageNet in an hour held its accuracy up to there (Goyal et al. 2017); larger batches were trained
with layer-wise rates, LARS with SGD (You et al., Large Batch Training of Convolutional Networks,
2017) and LAMB with Adam (You et al., Training BERT in 76 minutes, ICLR 2020)"""


@fix(
    "batch-too-small",
    "launch-bound-small-kernels",
    consent="convergence",
    title="Use a larger batch",
)
def larger_batch(proof: Proof) -> Proposal | None:
    """More samples per step, with a scaled learning rate: linearly for SGD, by the square root for
    Adam. Larger batches also need warm-up; from 8,192 samples over all ranks, layer-wise rates:
    LARS (You et al. 2017) or LAMB (You et al. 2020). A larger global batch may learn differently:
    beyond the gradient noise scale, the variance of single gradients over their squared mean, more
    samples teach little more."""
    larger = proof.get_facts(HostFacts).larger
    if larger is None and isinstance(proof.facts, HostFacts):
        return None
    device = proof.get_facts(DeviceFacts)
    times = device.times or (4 if larger else 2)
    target = f"{device.batch * times} samples" if device.batch else f"{times} times the samples"
    room = f" (at most {device.memory:.0%} of the memory)" if device.memory else ""
    among = nearby_values(times, 2, device.most_times)
    return Proposal(
        summary=f"batch x{times}: {target}{room}; scale the learning rate: linearly for SGD with "
        "warm-up, by the square root for Adam",
        edits=(
            Edit(knob="loader.batch_size_times", value=times, was=1, among=among),
            Edit(knob="optimizer.scale_learning_rate", value=True, was=False),
        ),
        predicted=larger,
        risk="memory grows with the batch; generalisation and learning rate may need tuning (not "
        "if accumulation steps are divided by the same factor: the global batch stays); the "
        f"input pipeline must deliver more samples per second{_layerwise_note(device, times)}",
    )


def _layerwise_note(device: DeviceFacts, times: int) -> str:
    samples = (device.batch or 0) * times * device.ranks
    if samples < LARGE:
        return ""
    return (
        f"; with {samples:,} samples per step over all ranks a scaled learning rate may not be "
        "enough: consider LARS (You et al. 2017) for SGD, LAMB (You et al. 2020) for Adam"
    )


WRITTEN_OUT = "replace the written-out product, softmax and product by fused attention"
UNREAD_WEIGHTS = "do not request attention weights that nothing reads"
RISK = "some masks and types, and dropout on a CPU, fall back to the written-out form"


@fix("naive-attention", consent="rounding", title="Use fused attention")
def sdpa_attention(proof: Proof) -> Proposal | None:
    """Use one fused kernel for product, softmax and product. Sums are formed in another order, and
    dropout draws other random numbers. Model libraries have a switch for their
    attention; elsewhere the script writes attention out, or requests attention weights that it may
    need."""
    libraries = proof.get_facts(DeviceFacts).libraries
    if libraries is not None and "models" not in libraries:
        summary = UNREAD_WEIGHTS if libraries else WRITTEN_OUT
        return Proposal(summary=summary, risk=RISK, automatic=False)
    framework_too = libraries is None or "framework" in libraries
    return Proposal(
        summary=f"{UNREAD_WEIGHTS}; {{edits}}" if framework_too else "",
        edits=(Edit(knob="model.attention", value="sdpa", was="eager"),),
        risk=RISK,
    )


@fix("tf32-disabled", consent="numerics", title="Use TF32 for FP32 matrix products")
def tf32(_: Proof) -> Proposal | None:
    """Inputs of matrix products are rounded to 10 bits of mantissa; sums stay in FP32."""
    return Proposal(
        edits=(Edit(knob="matmul.precision", value="high", was="highest"),),
        risk="iterative solvers, physics losses and metric learning may need full FP32",
    )
