"""What evidence a rank has: that of its recording, and what follows from it."""

from __future__ import annotations

from whyidle.analysis.step_scope import StepScope
from whyidle.model.roles import Role

PAUSES = (Role.CHECKPOINT, Role.EVALUATION, Role.LOGGING, Role.GC)
"""roles of host events that interrupt training"""


def signals_of(facts: StepScope) -> frozenset[str]:
    """Ids of ``whyidle.model.signals``."""
    found = set(facts.timeline.available_signals())
    if "device_events" in found or (facts.on_cpu and "host_ops" in found):
        found.add("device_time")
    if not facts.on_cpu and facts.host.progress.is_sufficient:
        found.add("device_marks")
    if facts.has_no_steps:
        found.add("stepless")
    if facts.steps.found_by:
        found.add("steps")
    if facts.steps.found_by and facts.steps.steady.sum() >= 2:
        found.add("steady_steps")
    if len(facts.host.rows_of(Role.LOADER)):
        found.add("loader_marks")
    if "python_stacks" in found or any(len(facts.host.rows_of(role)) for role in PAUSES):
        found.add("pause_marks")
    return frozenset(found | _from_outside(facts, found))


def _from_outside(facts: StepScope, known: set[str]) -> set[str]:
    """What only a look from outside the process tells."""
    outside = facts.telemetry
    found = {"device_use"} if known >= {"device_events", "gpu_model", "world_size"} else set()
    listed = facts.timeline.process.gpus or (outside and outside.gpus)
    found |= {"gpus_beside"} if facts.on_cpu and listed else set()
    if outside is None:
        return found
    found |= {"host_telemetry"} if outside.job_processes else set()
    found |= {"gpu_telemetry"} if outside.own_gpus and not facts.on_cpu else set()
    found |= {"device_use"} if len(outside.gpus) > (0 if facts.has_no_steps else 1) else set()
    return found
