"""Turn debugging modes off."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.knobs import ENVIRONMENT
from whyidle.model.proof_facts import HostFacts

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
ADVICE = {
    "tracemalloc": STOPPED,
    "tracemalloc_stacks": f"{STOPPED}; tracemalloc.start(1) keeps one line of each stack",
}
"""modes without a knob"""


@fix("debug-mode-left-on", consent="none")
def debug_mode_off(proof: Proof) -> Proposal | None:
    """Turn the mode off. The numbers stay the same, except with deterministic algorithms: somebody
    requested these, so turning them off is advice. Declines for an unknown mode."""
    mode = proof.get_facts(HostFacts).mode
    if mode in ADVICE:
        return Proposal(summary=ADVICE[mode], automatic=False)
    if mode not in SWITCHES:
        return None
    knob, was, value = SWITCHES[mode]
    return Proposal(
        summary=f"unset {mode}" if knob.startswith(ENVIRONMENT) else "",
        edits=(Edit(knob=knob, value=value, was=was),),
        risk="leave it on while somebody debugs with it",
        automatic=mode != "deterministic",
    )
