"""Advice on the training process, its host and its start."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.fix import advice
from whyidle.model.proof_facts import HostFacts, InterruptionFacts

LEAST = 1.2
"""expected speed-up from which on a run is better off uncompiled: how much faster compiled steps
are is not known, and a run that goes on makes up for its start"""


def _on_device(proof: Proof) -> str:
    name = next(iter(proof.get_facts(HostFacts).operators), "the operator")
    return (
        f"keep {name} on the GPU: move its module, buffer or inputs there once, or replace it; "
        "else do its work before the step"
    )


def _eager(proof: Proof) -> Predicted | None:
    return proof.get_facts(InterruptionFacts).eager


def _uncompiled(proof: Proof) -> str | None:
    eager = _eager(proof)
    if eager is None or eager.speedup < LEAST:
        return None
    return "without torch.compile in runs as short as this one, such as tests and trials"


ADVICE = (
    advice(
        *("capture-whole-model", "graph-breaks"),
        title="Remove what breaks the compiled graph",
        doc="Move prints, ``.item()`` and branches on data out of the compiled model. The compiler "
        "names the lines, the recording does not.",
        summary="TORCH_LOGS=graph_breaks names the lines; move prints and .item() out of the "
        "model, set torch._dynamo.config.capture_scalar_outputs = True, or compile the repeated "
        "block alone",
        consent="rounding",
        risk="a larger graph takes longer to compile",
    ),
    advice(
        *("compile-long-runs", "compile-autotune-warmup"),
        title="Compile only what runs for long",
        doc="Leave the model as it is where a run is over before compiling it pays. Declines where "
        "the rest of the run would take as long as compiling does. Only people know how long the "
        "next run will be.",
        summary=_uncompiled,
        predicted=_eager,
        consent="rounding",
        risk="every step takes longer: a run of many more steps loses by it",
    ),
    advice(
        *("less-host-memory", "host-memory-pressure"),
        title="Need less memory of the host",
        doc="Each worker holds its own batches and copies of what it touches, so fewer workers "
        "need less.",
        summary="lower num_workers or prefetch_factor, keep metadata in arrays instead of Python "
        "lists, gc.freeze() before workers start, or ask for more memory",
        risk="fewer workers may load more slowly",
    ),
    advice(
        *("move-op-to-device", "cpu-fallback-op"),
        title="Keep the operator on the GPU",
        doc="Move the module, buffer or constant to the device, or replace an operator that has no "
        "GPU form. It needs a change of the source.",
        summary=_on_device,
        consent="rounding",
        risk="device memory for what moves; an operator's GPU form may round differently",
    ),
    advice(
        *("shorter-startup", "slow-startup"),
        title="Do once what every start does again",
        doc="Keep on disk what a start computes. What is scanned or read is the script's own.",
        summary="keep the result of scans, indices and tokens on disk; map large files; import "
        "what is needed where it is needed; begin to load data before the model is built",
        risk="a result kept on disk must be made anew when its data change",
    ),
    advice(
        *("steady-recording", "compile-autotune-warmup"),
        title="Judge steady steps",
        doc="Record after warm-up: a cold start says nothing about the steps that the job consists "
        "of.",
        summary="to judge the training itself, record steady steps: "
        "torch.profiler.schedule(wait=5, warmup=2, active=5, repeat=1)",
        faster=False,
    ),
)
