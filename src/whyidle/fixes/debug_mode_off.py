"""Turn debugging modes off."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts

SWITCHES: dict[str, tuple[str, str, str | bool, str | bool]] = {
    "CUDA_LAUNCH_BLOCKING": ("env.CUDA_LAUNCH_BLOCKING", "unset CUDA_LAUNCH_BLOCKING", "1", "0"),
    "PYTHONMALLOC": ("env.PYTHONMALLOC", "unset PYTHONMALLOC", "debug", "default"),
    # empty: any other text, 0 as well, is on
    "PYTHONDEVMODE": ("env.PYTHONDEVMODE", "unset PYTHONDEVMODE", "1", ""),
    "TORCH_DISTRIBUTED_DEBUG": (
        "env.TORCH_DISTRIBUTED_DEBUG",
        "unset TORCH_DISTRIBUTED_DEBUG, or set it to INFO",
        "DETAIL",
        "OFF",
    ),
    "anomaly_mode": (
        "autograd.anomaly_mode",
        "torch.autograd.set_detect_anomaly(False); with Lightning Trainer(detect_anomaly=False)",
        True,
        False,
    ),
    "torch_profiler": (
        "profiler.active",
        "profile a few steps (torch.profiler.schedule), not all of them",
        True,
        False,
    ),
    "tracing": ("python.tracer", "run without debugger and coverage", True, False),
    "profiling": ("python.profiler", "run without cProfile and the like", True, False),
    "deterministic": (
        "torch.deterministic",
        "torch.use_deterministic_algorithms(False) once nothing is compared bit by bit",
        True,
        False,
    ),
}


ADVICE = {"sync_debug": 'torch.cuda.set_sync_debug_mode("default") once the waits are found'}
"""modes that nothing but a person turns off"""
UNPROMISED = ("PYTHONMALLOC", "PYTHONDEVMODE", "TORCH_DISTRIBUTED_DEBUG")
"""what turning these off brings is not known before it is tried"""


@fix("debug-mode-left-on", consent="none")
def debug_mode_off(proof: Proof) -> Proposal | None:
    """Turn the mode off. The numbers stay the same, but for deterministic algorithms: somebody
    asked for these, so they are left to people, as are reports of waits. Declines for a mode it
    does not know."""
    facts = proof.get_facts(HostFacts)
    mode = facts.mode
    if mode in ADVICE:
        return Proposal(summary=ADVICE[mode], automatic=False, faster=False)
    found = SWITCHES.get(mode)
    if found is None:
        return None
    knob, summary, was, value = found
    return Proposal(
        summary=summary,
        edits=(Edit(knob=knob, value=value, was=facts.was or was),),
        risk="somebody may be looking for an error with it: then leave it on",
        automatic=mode != "deterministic",
        faster=mode not in UNPROMISED,
    )
