"""The signals of a rank: those of its recording, and those that follow from it."""

from __future__ import annotations

from whyidle.analysis.steps.step_scope import StepScope
from whyidle.model.roles import Role

PAUSES = (Role.CHECKPOINT, Role.EVALUATION, Role.LOGGING, Role.GC)
"""roles of host events that interrupt training"""


def signals_of(facts: StepScope) -> frozenset[str]:
    """Return ids of ``whyidle.model.signals``."""
    recorded, host, outside = set(facts.timeline.available_signals()), facts.host, facts.telemetry
    has_steps, gpus = bool(facts.steps.found_by), outside.gpus if outside else ()
    derived = {
        "device_time": "device_events" in recorded or (facts.on_cpu and "host_ops" in recorded),
        "device_marks": not facts.on_cpu and host.progress.is_sufficient,
        "model_look": has_steps and facts.timeline.process.model_look is not None,
        "stepless": facts.has_no_steps,
        "steps": has_steps,
        "steady_steps": has_steps and facts.steps.steady.sum() >= 2,
        "loader_marks": len(host.rows_of(Role.LOADER)),
        "pause_marks": "python_stacks" in recorded or any(len(host.rows_of(r)) for r in PAUSES),
        "gpus_beside": facts.on_cpu and (facts.timeline.process.gpus or gpus),
        "host_telemetry": outside and outside.job_processes,
        "gpu_telemetry": outside and outside.own_gpus and not facts.on_cpu,
        "device_use": recorded >= {"device_events", "gpu_model", "world_size"}
        or len(gpus) > (0 if facts.has_no_steps else 1),
    }
    return frozenset(recorded | {signal for signal, known in derived.items() if known})
