"""Cores of a command: those granted that something in it later restricted, and waits for one."""

from __future__ import annotations

from whyidle.analysis.steps.step_scope import StepScope


def granted_cores(facts: StepScope, own: float | None) -> float | None:
    """Return the cores granted to a command now restricted to fewer (``own``); else None. Ranks
    that divide a machine's cores are restricted on purpose."""
    granted = facts.timeline.process.cores_given
    ranks = max(facts.timeline.world_size or 1, 1)
    return granted if granted and own and own * ranks < granted else None


def cores_for_loading(facts: StepScope) -> float | None:
    """Return the cores that loading may use without restrictions; None where unknown."""
    own = facts.timeline.loading.cores
    return granted_cores(facts, own) or own


def kept_waiting(facts: StepScope) -> float:
    """Return the share of its time that a computing training thread waits for a core."""
    sampler = facts.timeline.process.sampler
    waited, observed = sampler.core_wait_s, sampler.core_seen_s
    if not facts.on_cpu or not waited or not observed:
        return 0.0
    return float(min(waited / observed, facts.bucket_share("compute")))


def training_cores(facts: StepScope) -> float | None:
    """Return the training process's own CPU time per second, in cores, if recorded."""
    subject, outside = f"pid{facts.timeline.process.pid}", facts.telemetry
    kinds = ("cpu_user_s", "cpu_system_s")
    rates = [outside.counter_rate(kind, subject) for kind in kinds] if outside else [None]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if len(known) == len(rates) else None
