"""Advice on the training process, its host and its start."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Place, Predicted
from whyidle.model.fix import TRAINING, Proposal, advice
from whyidle.model.proof_facts import HostFacts, InterruptionFacts

RARER_EVALUATION = 10
LARGER_EVALUATION = 4
"""times the batch: the cost of calling the model is paid once per batch"""
FRAMEWORK = "torch"
"""calls into the framework train the model: they can be neither skipped nor moved"""
LEAST_LAUNCHES = 30
"""launches per step below which launching them one by one is cheap enough"""


def _keep_on_device(proof: Proof) -> str:
    name = next(iter(proof.get_facts(HostFacts).operators), "the operator")
    return (
        f"keep {name} on the GPU: move its module, buffer or inputs there once, or replace it; "
        "otherwise do its work before the step"
    )


def _compute_on_device(proof: Proof) -> str:
    names = proof.get_facts(HostFacts).operators
    what = names[0] if names else "the operator"
    return (
        f"run {what} on the GPU (create the tensor with device=, or move the input first); compute "
        "constants once before the loop, and per-sample work in the DataLoader's workers"
    )


def _background_reports(proof: Proof) -> str | None:
    facts = proof.get_facts(InterruptionFacts)
    if not facts.tracker:
        return None
    how = "a queue and a thread"
    if facts.mlflow:
        how = f"mlflow.config.enable_async_logging(), or {how}"
    if facts.histograms:
        how += "; queue copies of the parameters, because training changes them in place"
    return f"call the tracker in a background thread, in order ({how})"


def _thread_gain(proof: Proof) -> Predicted | None:
    facts = proof.get_facts(InterruptionFacts)
    return facts.beside if facts.histograms else None


def _capture_step(proof: Proof) -> str | None:
    if proof.get_facts(HostFacts).launches < LEAST_LAUNCHES:
        return None
    return "where every batch has the same shape: {edits}, or capture the step in a CUDA graph"


THINNED = (
    f"evaluate only every {RARER_EVALUATION}th time, unless early stopping, a scheduler or the "
    "choice of checkpoint needs every result; or evaluate a checkpoint in another process"
)


def _thin_evaluation(proof: Proof) -> str | None:
    recurs = proof.get_facts(InterruptionFacts).rarer is not None
    return THINNED if recurs else None


def _amortise_python(proof: Proof) -> Proposal:
    facts = proof.get_facts(HostFacts)
    place, library = proof.where[0] if proof.where else None, facts.library
    if place is not None and library == FRAMEWORK:
        return Proposal(
            f"make fewer, larger calls to {library} at {place.file}:{place.line}: each call runs "
            "Python code of the library"
        )
    every = facts.every
    if place is None or not library:
        code = _describe_code(place, facts.before)
        offload = f"vectorise {code}, move it to another process or precompute it"
    else:
        at = f"{place.file}:{place.line}"
        offload = (
            f"call {library} less often at {at}: once for all items, in another process or ahead"
        )
    return Proposal(
        f"{offload}; or, if it only logs or measures, run it every {every}th step",
        edits=(Edit(knob="callbacks.every", value=every, was=1),),
    )


def _describe_code(place: Place | None, before: bool) -> str:
    if place is None:
        return "this Python code"
    if place.line and before:
        return f"the Python code that runs before {place.file}:{place.line}"
    named = not (place.function or "<").startswith("<")
    of = f" of {place.function}" if named else ""
    return f"this Python code{of} ({place.file}:{place.line})"


def _defer_reads(proof: Proof) -> Proposal:
    facts = proof.get_facts(HostFacts)
    return Proposal(
        "accumulate losses and metrics on the device, and read them where they are displayed, or "
        f"every {facts.every}th step (progress bars as well); do not index with boolean masks or "
        "synchronise in the loop",
        edits=(Edit(knob="log.deferred", value=True, was=False),) if facts.scalar else (),
    )


def _enlarge_evaluation(proof: Proof) -> Proposal:
    if not proof.get_facts(InterruptionFacts).batches:
        return Proposal("evaluate more samples at once, if the code evaluates a few at a time")
    return Proposal(
        f"evaluate with {LARGER_EVALUATION} times the batch",
        edits=(Edit(knob="evaluation.batch_factor", value=LARGER_EVALUATION, was=1),),
    )


def _thin_checkpoints(proof: Proof) -> Proposal | None:
    facts = proof.get_facts(InterruptionFacts)
    if facts.interval_s is None:
        return None
    now_s, seconds = facts.interval_s
    interval = _format_time(seconds)
    every = f"every {interval}"
    if facts.seen_s is not None and facts.seen_s < seconds:
        every = (
            f"at the end only, if the job lasts less than {interval} (whyidle watched "
            f"{_format_time(facts.seen_s)}), else {every},"
        )
    return Proposal(
        f"save {every} instead of every {_format_time(now_s)}: this loses the least time with one "
        "failure a day",
        edits=(
            Edit(knob="checkpoint.interval_factor", value=max(2, round(seconds / now_s)), was=1),
        ),
        predicted=facts.rarer,
        risk=f"a job that is killed repeats up to {interval} of work",
    )


def _format_time(seconds: float) -> str:
    if seconds >= 120.0:
        return f"{seconds / 60.0:.0f} minutes"
    return f"{seconds:.0f} seconds" if seconds >= 2.0 else f"{seconds:.2g} seconds"


_MADE_ONCE = {
    "function": "define the function and call jax.jit outside the loop, and pass as arguments what "
    "changes from step to step",
    "object": "make the object that is a static argument once, outside the loop (a new optimizer "
    "is unequal to the last one), and pass what changes, such as its learning rate, as an array",
    "number": "pass the number that changes as an array (jnp.asarray), not as a static argument; "
    "round one that sets a shape up to a few values",
}
"""what is made anew -> how it is made once"""


ADVICE = (
    advice(
        *("background-reports", "blocking-logging-upload"),
        title="Report from a background thread",
        doc="Let a thread make the tracker's calls, in their order. Only the script shows whether "
        "it needs their answers. Copy what is reported later first, as training changes "
        "parameters in place. Histograms are computed, not waited for, and a thread shares the "
        "interpreter and the cores with training: expect less than from fewer reports.",
        summary=_background_reports,
        predicted=_thread_gain,
        risk="a job that is killed loses the reports that waited; encoding still shares the "
        "interpreter with training",
    ),
    advice(
        *("capture-whole-model", "graph-breaks"),
        title="Remove what breaks the compiled graph",
        doc="Move prints, scalar reads and branches on data out of the compiled model. The "
        "compiler's log names the lines; the recording does not.",
        summary="move prints and scalar reads out of the model, or compile only the repeated block",
        consent="rounding",
        risk="a larger graph takes longer to compile",
    ),
    advice(
        *("less-host-memory", "host-memory-pressure"),
        title="Use less host memory",
        doc="Each worker holds its own batches and copies of the memory that it touches, so fewer "
        "workers need less.",
        summary="use fewer workers or prefetch fewer batches, store metadata in arrays instead of "
        "Python lists, call gc.freeze() before workers start, or request more memory",
        risk="fewer workers may load more slowly",
    ),
    advice(
        *("move-op-to-device", "cpu-fallback-op"),
        title="Keep the operator on the GPU",
        doc="Move the module, buffer or constant to the device, or replace an operator that has no "
        "GPU kernel. This needs a change of the source.",
        summary=_keep_on_device,
        consent="rounding",
        risk="takes device memory; the GPU kernel of an operator may round differently",
    ),
    advice(
        *("compute-on-device", "cpu-tensor-work"),
        title="Compute tensors on the device",
        doc="Create tensors on the device, or move inputs first and transform them there. This "
        "needs a change of the source.",
        summary=_compute_on_device,
        consent="rounding",
        risk="random numbers come from the device's generator, so the sequence changes",
    ),
    advice(
        *("shorter-startup", "slow-startup"),
        title="Cache what every start computes",
        doc="Store on disk what a start computes. The script decides what it scans or reads.",
        summary="store the results of scans, indices and tokens on disk; map large files; import "
        "modules where they are needed; start loading data before the model is built",
        risk="cached results must be rebuilt when their data change",
    ),
    advice(
        *("steady-recording", "compile-autotune-warmup"),
        title="Record steady steps",
        doc="Record after warm-up: a cold start does not represent the steps of the job.",
        summary="to diagnose steady steps, record them after warm-up",
        faster=False,
    ),
    advice(
        *("cuda-graphs", "launch-bound-small-kernels"),
        title="Replay the step as one CUDA graph",
        doc="Capture the step in a CUDA graph and replay it with one launch. Works only for shapes "
        "that never change. Declines where there are few launches.",
        summary=_capture_step,
        edits=(Edit(knob="model.compile_mode", value="reduce-overhead", was="default"),),
        consent="rounding",
        risk="with changing shapes it captures again and again and becomes slower; captured "
        "buffers hold memory; random state and side effects need care",
    ),
    advice(
        *("rarer-evaluation", "heavy-evaluation"),
        kinds=TRAINING,
        title="Evaluate less often",
        doc="Run every tenth evaluation only. Training does not depend on it, but early stopping, "
        "schedulers and the choice of checkpoint may. Declines where the recording does not show "
        "repeated evaluation.",
        summary=_thin_evaluation,
        predicted=lambda proof: proof.get_facts(InterruptionFacts).rarer,
        edits=(Edit(knob="evaluation.interval_factor", value=RARER_EVALUATION, was=1),),
        consent="convergence",
        risk="early stopping, a scheduler or the choice of the best checkpoint may need every "
        "result",
    ),
    advice(
        *("amortise-python", "python-overhead-in-step", "python-between-operators"),
        title="Call costly Python code less often, or move it off the training thread",
        doc="Call what only logs, measures or displays (metrics, progress bars, hooks) every k-th "
        "step, or after the next step has been launched. Vectorise what training needs, move it to "
        "other processes, or compute it ahead while the model runs; this may change rounding and "
        "the order of random numbers. Replace a sequence of short operators by one call. Only the "
        "author knows which applies.",
        summary=_amortise_python,
        consent="rounding",
        risk="do not skip what training needs in every step, such as an environment's step; "
        "vectorised or moved code may round differently or draw random numbers in another order",
    ),
    advice(
        *("compile-once", "recompilation-storm"),
        title="Make the compiled function once",
        doc="Compiled code is kept by function object and static arguments: what is made in "
        "the loop is new each time. Declines where the same function is compiled for other shapes.",
        summary=lambda proof: _MADE_ONCE.get(proof.get_facts(HostFacts).renewed),
        predicted=lambda proof: proof.get_facts(HostFacts).dynamic,
        risk="what the function closes over is read when it is traced, not in every call",
    ),
    advice(
        *("donate-buffers", "undonated-buffers"),
        title="Donate the memory of old parameters",
        doc="Tell the compiler that the arguments are not needed after the call. Only the author "
        "knows whether something reads the old parameters.",
        summary="jax.jit(step, donate_argnums=(0, 1)) with the positions of parameters and "
        "optimizer state; under flax.nnx, nnx.jit(step, donate_argnums=...)",
        risk="the arguments are deleted by the call: whoever reads the old parameters gets an "
        "error",
    ),
    advice(
        *("defer-scalar-reads", "per-step-host-sync"),
        title="Read numbers where they are displayed, not in every step",
        doc="Sum up losses and metrics on the device and read them where they are displayed, or "
        "every k-th step; update a progress bar every k-th step. Only the author knows where the "
        "program needs a number at once.",
        summary=_defer_reads,
        risk="errors of the device surface later, where a number is read",
    ),
    advice(
        *("larger-evaluation", "heavy-evaluation"),
        title="Evaluate with larger batches",
        doc="Larger batches in evaluation change rounding, not learning. The batch size belongs to "
        "a loader of the script; an evaluation without a loader may compute all of its data at "
        "once.",
        summary=_enlarge_evaluation,
        consent="rounding",
        risk="takes more device memory during evaluation",
    ),
    advice(
        *("rarer-checkpoint", "sync-checkpoint"),
        kinds=TRAINING,
        title="Save checkpoints less often",
        doc="Choose the interval that loses the least time with one failure a day: the square root "
        "of twice the time of a checkpoint times the time between failures. Learning does not "
        "depend on it, but a killed job repeats more work. A shorter job saves at its end only. "
        "Declines where the recording shows a single checkpoint, or checkpoints that are as rare "
        "already.",
        summary=_thin_checkpoints,
    ),
    advice(
        *("jit-on", "debug-mode-left-on"),
        title="Compile functions that JAX is configured to run uncompiled",
        doc="Leave `jax_disable_jit` off. Fused operators round otherwise. Declines for other "
        "modes.",
        summary=lambda proof: "" if proof.get_facts(HostFacts).mode == "jax_disable_jit" else None,
        edits=(Edit(knob="jax.disable_jit", value=False, was=True),),
        consent="rounding",
        risk="leave it on while somebody debugs with it; prints inside the step come only once",
    ),
    advice(
        *("cached-executables", "recompilation-storm"),
        title="Load what is compiled again and again from a folder",
        doc="Keep JAX's persistent compilation cache, from which a function that is defined in the "
        "loop is loaded instead of compiled; it is still traced in every step. Declines where a "
        "function is compiled for other arguments each time: the first start would gain nothing.",
        summary=lambda proof: (
            "" if proof.get_facts(HostFacts).renewed in ("function", "object") else None
        ),
        predicted=lambda proof: proof.get_facts(HostFacts).cached,
        edits=(Edit(knob="jax.compilation_cache", value="~/.cache/jax"),),
        risk="the folder grows; defining the function once also saves tracing it",
    ),
)
