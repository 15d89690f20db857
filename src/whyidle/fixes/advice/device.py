"""Advice on the model's work on the device, and its memory."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Consent, Edit, Predicted
from whyidle.model.fix import TRAINING, Fix, Proposal, advice
from whyidle.model.proof_facts import DeviceFacts, HostFacts, MemoryFacts

LEAST_BEYOND = 0.1
"""least share of the padding that must lie beyond the longest sample of each batch"""
EMPTY_EVERY = 500
"""steps"""


def _enlarge_microbatches(proof: Proof) -> Proposal | None:
    facts = proof.get_facts(DeviceFacts)
    if facts.passes is None or facts.microbatch is None:
        return None
    times, predicted = facts.microbatch
    return Proposal(
        f"micro-batches {times} times as large, {facts.passes // times} accumulation steps instead "
        f"of {facts.passes}; the global batch stays the same",
        edits=(Edit(knob="loop.microbatch_times", value=times, was=1),),
        predicted=predicted,
    )


def _predict_shorter_padding(proof: Proof) -> Predicted:
    facts = proof.get_facts(DeviceFacts)
    beyond = facts.beyond_longest
    return Predicted(
        speedup=1 / (1 - beyond * facts.expected),
        low=1 / (1 - beyond * proof.low),
        high=1 / max(1 - beyond * proof.high, 0.01),
        method=f"{proof.predicted.method}, of which {beyond:.0%} is beyond the longest sample",
    )


def _pad_to_longest(proof: Proof) -> str | None:
    text = (
        "in the collate function, pad to the longest sample of each batch instead of to a fixed "
        "maximum"
    )
    return text if proof.get_facts(DeviceFacts).beyond_longest >= LEAST_BEYOND else None


def _pad_to_buckets(proof: Proof) -> Proposal | None:
    facts = proof.get_facts(HostFacts)
    if facts.renewed or facts.python_values or facts.generators:
        return None
    return Proposal(
        "pad batches of varying length to the next of a few lengths (for example powers of two); "
        "do not pad everything to the maximum",
        edits=(Edit(knob="collate.length_buckets", value="powers of two"),),
    )


def _use_sparse_gradients(proof: Proof) -> str | None:
    return _SPARSE if proof.get_facts(DeviceFacts).table else None


def _index_once(proof: Proof) -> str | None:
    return _ONCE if proof.get_facts(DeviceFacts).parts else None


_SPARSE = (
    "nn.Embedding(..., sparse=True) with SGD or Adagrad as they are; for Adam, give the table an "
    "optimizer of its own, SparseAdam, and step both: it changes what is learned slightly, since "
    "moments of rows that are not read stay (if they must not, fused=True gains less)"
)
_ONCE = (
    "index the whole tensor once, outside of the loop: cross_entropy(logits.flatten(0, 1), "
    "target.flatten()) instead of logits[b, t] with target[b, t]; for steps that need each other, "
    "loop over x.unbind(1) instead of taking x[:, t]"
)


def _measured_form(fix: str, consent: Consent, risk: str) -> Fix:
    """Advice to use the fastest form of the model that ``--look model`` measured."""

    def propose(proof: Proof) -> Proposal | None:
        form = proof.get_facts(DeviceFacts).forms.get(consent)
        return Proposal(form[0], predicted=form[1]) if form else None

    return advice(
        *(fix, "slower-model-form"),
        title="Use a form of the model that was measured",
        doc="The form that took least time on the job's own batch in whyidle run --look model.",
        summary=propose,
        consent=consent,
        risk=risk,
    )


_IN_FLOAT32 = (
    "compute in float32 on this processor: leave out autocast, or pass enabled=False where "
    "the model is on the CPU"
)


def _empty_rarely(proof: Proof) -> Proposal:
    seen = proof.get_facts(MemoryFacts).emptied
    return Proposal(
        f"empty the memory cache at most every {EMPTY_EVERY} steps"
        + ("" if seen else ", if the loop empties it"),
        (Edit(knob="memory.empty_cache_every", value=EMPTY_EVERY, was=1),) if seen else (),
    )


_WITH_MIOPEN = "{edits}, with PYTORCH_MIOPEN_SUGGEST_NHWC=1 set"


def _recompute_modules(proof: Proof) -> Proposal | None:
    names, share = proof.get_facts(MemoryFacts).recompute, proof.get_facts(MemoryFacts).again
    if not names:
        return None
    count = names.count(",") + 1
    what = f"{count} modules" if count > 1 else f"the module {names}"
    return Proposal(
        f"compute the activations of {what} again, for {share:.0%} of a pass, and use the memory "
        "for a larger batch",
        (Edit(knob="model.recompute", value=names),),
        faster=False,
    )


ADVICE = (
    advice(
        *("float32-on-cpu", "debug-mode-left-on"),
        title="Compute in float32 where the processor has no narrower type",
        doc="Autocast saves time only on a processor that multiplies the narrower type. Declines "
        "for debugging modes. Only the author knows where else the script runs.",
        summary=lambda p: _IN_FLOAT32 if p.get_facts(HostFacts).mode == "narrow_cpu" else None,
        consent="rounding",
        risk="numbers are more exact than before; activations take twice the memory",
    ),
    _measured_form("measured-form", "rounding", "results differ by rounding"),
    _measured_form("measured-precision", "numerics", "small gradients and sums lose bits"),
    advice(
        *("move-to-device", "training-on-cpu"),
        title="Run the model on the GPU",
        doc="Move model and batches to the device, and check that this process can see it.",
        summary="move model and batches to the GPU; check CUDA_VISIBLE_DEVICES and the framework's "
        "list of devices",
        consent="rounding",
        risk="device memory must hold the model",
    ),
    advice(
        *("pad-dimensions", "misaligned-tensor-shapes"),
        title="Pad matrix dimensions to multiples that tensor cores support",
        doc="Use multiples of 8 (64 on A100 and later) for vocabulary, hidden sizes and batch. "
        "Mask the added rows; the shapes of stored weights change.",
        summary="pad dimensions to multiples of 8, or better of 64",
        consent="convergence",
        risk="added rows must not contribute to the loss; convert old checkpoints",
    ),
    advice(
        *("single-precision", "double-precision"),
        title="Train in 32 bits",
        doc="Make the data float32 where it is read, and leave out what makes the model double. "
        "Only the author knows whether the numbers need 64 bits.",
        summary="convert the data to float32 once, before training, and leave the model in float32",
        consent="numerics",
        risk="compare the loss; keep sums of many steps, such as metrics, in 64 bits",
    ),
    advice(
        *("sparse-gradients", "dense-indexing-gradients"),
        kinds=TRAINING,
        title="Let the table have sparse gradients",
        doc="Sparse gradients hold only the rows that were read, and the optimizer updates only "
        "these. Adam's moments of other rows stay as they are, so that its numbers change; "
        "momentum, weight decay and clipping do not take sparse gradients. Only the author can "
        "decide that.",
        summary=_use_sparse_gradients,
        consent="convergence",
        risk="rows that are not read are no longer updated by moments; momentum, weight decay and "
        "clip_grad_norm_ do not take sparse gradients",
    ),
    advice(
        *("index-once", "dense-indexing-gradients"),
        kinds=TRAINING,
        title="Index once, outside of the loop",
        doc="Each part that is taken of a tensor has a gradient as large as the whole tensor. "
        "Taken at once, by flatten, unbind or split, all parts have one. Only people can rewrite "
        "the loop.",
        summary=_index_once,
        consent="rounding",
        risk="sums are computed in another order",
    ),
    advice(
        *("release-references", "memory-leak-growth"),
        title="Release tensors of past steps",
        doc="Detach values that are accumulated over steps. A memory snapshot names the line; the "
        "recording does not.",
        summary="detach accumulated values from the graph, clear lists of outputs, remove hooks; a "
        "memory snapshot names the line",
        risk="none, unless the program backpropagates through the stored graph",
    ),
    advice(
        *("save-memory", "memory-capacity-bound"),
        title="Free memory for a larger batch",
        doc="Save device memory, then increase the batch. The cheapest way depends on the model.",
        summary="bf16 autocast, fused cross-entropy, flash attention, selective activation "
        "checkpointing or sharded optimizer states; then a larger batch",
        consent="numerics",
        risk="recomputing activations takes about a fifth longer; reduced precision changes the "
        "loss",
    ),
    advice(
        *("batch-by-length", "padding-waste"),
        title="Batch samples of similar length",
        doc="Sort a shuffled pool of samples by length and cut it into batches, so that hardly any "
        "padding remains. Only the author knows the lengths, and whether the job may see samples "
        "in another order.",
        summary="build batches of similar lengths: sort each shuffled pool of a few hundred "
        "batches by length, or pack sequences without padding",
        consent="convergence",
        risk="which samples share a batch depends on their length; this may affect learning",
    ),
    advice(
        *("bucket-lengths", "recompilation-storm", "allocator-thrash"),
        title="Pad batches to a few lengths",
        doc="Round lengths up to a few sizes, so that compiled code and cached memory blocks can "
        "be reused. Do not pad to the maximum: computing on padding can cost more than it saves.",
        summary=_pad_to_buckets,
        consent="rounding",
        risk="the device also computes on padding; masks must be correct",
    ),
    advice(
        *("larger-microbatch", "batch-too-small"),
        kinds=TRAINING,
        title="Use larger micro-batches and fewer accumulation steps",
        doc="Where gradients are accumulated: fewer, larger micro-batches with the same global "
        "batch. The sum of gradients differs by rounding only; batch normalisation sees more "
        "samples, and micro-batches of unequal size, as at the end of an epoch, are weighted by "
        "their samples where the loss is a mean. Only the author knows whether the loss stays the "
        "same. Declines where several backward passes per step are not recorded.",
        summary=_enlarge_microbatches,
        consent="rounding",
        risk="memory grows with the micro-batch; batch normalisation statistics change",
    ),
    advice(
        *("pad-to-longest", "padding-waste"),
        title="Pad to the longest sample of each batch",
        doc="Pad to the longest sample of the batch instead of to a fixed maximum. Declines where "
        "the job already does. Only the author knows whether the model ignores padding.",
        summary=_pad_to_longest,
        predicted=_predict_shorter_padding,
        edits=(Edit(knob="collate.pad_to", value="longest", was="maximum"),),
        consent="rounding",
        risk="lengths change from batch to batch: compiled models and cuDNN's search need few of "
        "them",
    ),
    advice(
        *("channels-last", "wrong-memory-format"),
        title="Store image tensors channels-last",
        doc="Store activations and weights in the layout that the convolutions use, starting with "
        "the input.",
        summary=lambda proof: _WITH_MIOPEN if proof.get_facts(DeviceFacts).rocm else "",
        edits=(Edit(knob="model.memory_format", value="channels_last", was="contiguous"),),
        consent="rounding",
        risk="operators without such a kernel convert back, which can be slower; 4-D tensors only",
    ),
    advice(
        *("disable-recompute", "needless-compute"),
        kinds=TRAINING,
        title="Store activations instead of computing them twice",
        doc="The numbers stay the same; memory grows by the stored activations. Declines where "
        "evaluation computes too much. Buffers of recomputed layers (batch norm) are then updated "
        "once per step.",
        summary=lambda proof: None if proof.get_facts(DeviceFacts).gradients else "",
        edits=(Edit(knob="model.checkpointing", value=False, was=True),),
        risk="memory runs out if sequences or batches grow later; batch norm in these layers "
        "counts each batch once, no longer twice",
    ),
    advice(
        *("recompute-modules", "memory-capacity-bound"),
        kinds=TRAINING,
        title="Compute the activations of some modules again",
        doc="The modules that free most of the peak for least time compute their forward pass once "
        "more when the backward pass needs it. The numbers stay the same, dropout included, except "
        "that batch norm counts each batch twice; the step takes longer, and the memory allows a "
        "larger batch. Proposed where `--look memory` has measured the modules.",
        summary=_recompute_modules,
        risk="alone it makes each step longer",
    ),
    advice(
        *("x64-off", "double-precision"),
        title="Leave JAX's 64-bit types off",
        doc="Only the author knows whether the numbers need 64 bits. Declines for frameworks "
        "without such a switch.",
        summary=lambda proof: "" if proof.get_facts(DeviceFacts).switched else None,
        edits=(Edit(knob="jax.x64", value=False, was=True),),
        consent="numerics",
        risk="compare the loss; keep sums of many steps, such as metrics, in 64 bits",
    ),
    advice(
        *("throttle-empty-cache", "allocator-thrash"),
        title="Empty the memory cache rarely",
        doc="Empty the device's memory cache every few hundred steps at most.",
        summary=_empty_rarely,
        risk="peak memory rises; memory runs out where the call was needed",
    ),
)
