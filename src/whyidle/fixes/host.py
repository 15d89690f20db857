"""Fixes of what the host does in a step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import TRAINING, Proposal, fix
from whyidle.model.knobs import ENVIRONMENT
from whyidle.model.proof_facts import HostFacts, InputFacts, InterruptionFacts


@fix("uncompiled-step", consent="rounding", title="Make the training step one traced function")
def compile_step(proof: Proof) -> Proposal:
    """Trace forward pass, gradients and update together. Only the author knows which function to
    compile, and whether its Python code does more in each step than to compute its result."""
    facts = proof.get_facts(HostFacts)
    if beside := facts.beside:
        how = f"call these operators{beside} inside the compiled function: one jax.jit around the "
        how += "gradient, the optimizer's update and optax.apply_updates"
        if facts.single:
            how = "compile what is called for each element and call it once per batch, "
            how += "jax.jit(jax.vmap(function)); slice and stack arrays in NumPy"
        risk = "Python in the step runs once per trace only"
        return Proposal(how, risk=risk, automatic=False)
    return Proposal(
        "put the whole step into one traced function, and make variables and the optimizer outside "
        "of it",
        edits=(Edit(knob="step.compile", value=True, was=False),),
        risk="Python in the step (prints, lists, random numbers of NumPy) runs once per trace only",
    )


SWITCHES: dict[str, tuple[str, str | bool, str | bool]] = {
    "CUDA_LAUNCH_BLOCKING": ("env.CUDA_LAUNCH_BLOCKING", "1", "0"),
    "anomaly_mode": ("autograd.anomaly_mode", True, False),
    "torch_profiler": ("profiler.active", True, False),
    "tracing": ("python.tracer", True, False),
    "profiling": ("python.profiler", True, False),
    "run_eagerly": ("keras.run_eagerly", True, False),
    "functions_eager": ("tf.functions_eager", True, False),
    "deterministic": ("torch.deterministic", True, False),
    "jax_check_tracer_leaks": ("jax.check_tracer_leaks", True, False),
    "jax_debug_nans": ("jax.debug_nans", True, False),
}
"""debugging mode -> its knob, the value that turns it on, the value that turns it off"""
STOPPED = "call tracemalloc.stop() before training, or trace a few steps only"
BY_HAND = {
    "tracemalloc": STOPPED,
    "tracemalloc_stacks": f"{STOPPED}; tracemalloc.start(1) keeps one line of each stack",
}
"""modes without a knob"""


@fix("debug-mode-left-on", consent="none", title="Turn debugging modes off")
def debug_mode_off(proof: Proof) -> Proposal | None:
    """Turn the mode off. The numbers stay the same, except with deterministic algorithms: somebody
    requested these, so turning them off is advice. Declines for an unknown mode."""
    mode = proof.get_facts(HostFacts).mode
    if mode in BY_HAND:
        return Proposal(summary=BY_HAND[mode], automatic=False)
    if mode not in SWITCHES:
        return None
    knob, was, value = SWITCHES[mode]
    return Proposal(
        summary=f"unset {mode}" if knob.startswith(ENVIRONMENT) else "",
        edits=(Edit(knob=knob, value=value, was=was),),
        risk="leave it on while somebody debugs with it",
        automatic=mode != "deterministic",
    )


@fix("blocking-logging-upload", consent="none", title="Report less often")
def fewer_reports(proof: Proof) -> Proposal | None:
    """Keep every fiftieth report of the training loop, and send it from a background thread. If
    only the waiting line is known, the summary does not assume that the line is logging. Draw plots
    less often, or in another process: matplotlib is not thread-safe."""
    facts = proof.get_facts(InterruptionFacts)
    known = facts.tracker is not None
    advice = "log every fiftieth step, from a background thread"
    advice += "; no histograms of parameters" if known else ""
    if facts.histograms:
        advice = "do not log histograms in every step: log them every fiftieth step, or not at all"
    if facts.plot:
        advice = "draw every fiftieth step, or in another process from stored numbers"
    if not known:
        advice = (
            "see what the call on this line waits for (a network, a file, a lock, a sleep); if it "
            f"only reports, {advice}; otherwise move it to a thread or remove it"
        )
    return Proposal(
        summary=advice,
        edits=(Edit(knob="logging.interval_factor", value=50, was=1),),
        risk="plots are older" if facts.plot else "curves have fewer points",
    )


@fix(
    "narrowed-cpu-affinity", consent="none", title="Let loader workers use all cores of the command"
)
def full_affinity(proof: Proof) -> Proposal:
    """Let workers use all cores that the command had when it started; the training process keeps
    its binding. Bindings that the script's own worker initialisation makes stay."""
    variables = proof.get_facts(InputFacts).variables or ()
    unset = f"unset {' and '.join(variables)}, or " if variables else ""
    return Proposal(
        summary=f"{unset}{{edits}}",
        edits=(Edit(knob="loader.full_affinity", value=True, was=False),),
        risk="none known: workers compute the same on any core",
    )


FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""optimizers with a fused implementation"""


@fix(
    "unfused-optimizer",
    consent="rounding",
    kinds=TRAINING,
    title="Update all parameters in one kernel",
)
def fused_optimizer(proof: Proof) -> Proposal:
    """Use the optimizer's fused implementation, or ``foreach`` where there is none. The same
    mathematics with another order of rounding."""
    facts = proof.get_facts(HostFacts)
    switch = "fused" if facts.optimizer in FUSED else "foreach"
    return Proposal(
        summary=f"update all parameters of {facts.optimizer} in one kernel: {{edits}}",
        edits=(Edit(knob=f"optimizer.{switch}", value=True, was=False),),
        risk="all parameters must be floating-point"
        + ("" if facts.noun == "CPU" else f" and on the {facts.noun}"),
    )


LITTLE = 0.05
"""share of the collections left by thinning them, below which freezing is not worth a second fix:
even of pauses of a third of the step it is less than the 2 % that a trial requires"""


@fix("python-gc-pauses", consent="none", title="Freeze the heap after warm-up")
def gc_freeze(proof: Proof) -> Proposal | None:
    """Exclude all objects that live after warm-up from collections, and collect young objects at
    the same step on all ranks. Where the program calls the collector itself, its calls stay and
    look only at new objects; declines where thinning the calls leaves next to nothing."""
    facts = proof.get_facts(InterruptionFacts)
    if facts.explicit:
        if facts.left_over <= LITTLE:
            return None
        return Proposal(
            summary="after warm-up: gc.collect(); gc.freeze()",
            edits=(Edit(knob="gc.freeze", value=True, was=False),),
            risk="cycles among objects that lived after warm-up stay until the program ends",
        )
    return Proposal(
        summary="after warm-up: gc.collect(); gc.freeze(); then collect every 50 steps only",
        edits=(
            Edit(knob="gc.freeze", value=True, was=False),
            Edit(knob="gc.collect_interval_steps", value=50),
        ),
        risk="memory grows if the program makes cycles that only a full collection frees",
    )


@fix("python-gc-pauses", consent="none", title="Collect garbage less often")
def gc_thinned(proof: Proof) -> Proposal | None:
    """Skip most of the program's own ``gc.collect()`` calls. Declines where they are rare
    already."""
    facts = proof.get_facts(InterruptionFacts)
    if not facts.explicit or facts.thinned is None:
        return None
    return Proposal(
        summary="remove gc.collect() from the training loop, or call it every 100 steps",
        edits=(Edit(knob="gc.collect_interval_steps", value=100, was=1),),
        predicted=facts.thinned,
        risk="peak memory may rise where the call freed large cycles",
    )


@fix("recompilation-storm", consent="rounding", title="Compile once for all lengths")
def mark_dynamic(proof: Proof) -> Proposal | None:
    """Mark the changing dimension as dynamic, so that one compiled model serves every length.
    Applied at run time, everything that the script compiles is compiled for every length.
    Declines for traced functions of TensorFlow, which have a switch of their own."""
    if proof.get_facts(HostFacts).traced:
        return None
    return Proposal(
        summary="{edits}, or mark only the changing dimension as dynamic",
        edits=(Edit(knob="model.compile_dynamic", value=True, was=None),),
        predicted=proof.get_facts(HostFacts).dynamic,
        risk="code for any length can be slower than code for a fixed one",
    )


@fix("recompilation-storm", consent="rounding", title="Trace a function once for several shapes")
def reduce_retracing(proof: Proof) -> Proposal | None:
    """Let ``tf.function`` generalise the shapes that change, so that one trace serves all of them,
    or trace Keras' ``train_on_batch`` once. Declines for shapes of another framework, and
    where a Python value changes: no shape is more general."""
    facts = proof.get_facts(HostFacts)
    if facts.python_values:
        made = "tf.constant, tf.Variable" if facts.traced else "torch.tensor"
        return Proposal(
            summary=f"pass the number that changes as a tensor ({made}), not as a Python number: "
            "each value is traced anew",
            automatic=False,
        )
    if not facts.traced:
        return None
    if facts.generators:
        return Proposal(
            edits=(Edit(knob="keras.train_on_batch", value=True, was=False),),
            predicted=facts.dynamic,
            risk="Keras 3.0 to 3.8 only; later versions trace once by themselves",
        )
    return Proposal(
        edits=(Edit(knob="tf.reduce_retracing", value=True, was=False),),
        predicted=facts.dynamic,
        risk="code for any length can be slower than code for a fixed one",
    )


@fix("short-step-calls", consent="none", title="Take several steps in one call")
def steps_per_call(proof: Proof) -> Proposal | None:
    """Take several steps of ``fit`` in one call of its function. Numbers stay the same. At run time
    it declines where a callback looks at every batch, where ``steps_per_epoch`` is not a multiple,
    and in Keras before 3.9, which cannot end an epoch within a call."""
    steps = proof.get_facts(HostFacts).calls
    if steps is None or steps < 2:
        return None
    return Proposal(
        edits=(Edit(knob="keras.steps_per_execution", value=round(steps), was=1),),
        risk="the progress bar and callbacks for batches see one batch per call; a step that fails "
        "is reported at the end of its call",
    )
