"""Cores granted to a command that something in it later restricted."""

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
