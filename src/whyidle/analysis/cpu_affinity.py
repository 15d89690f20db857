"""Cores that a command was given, where something in it bound it to fewer of them since."""

from __future__ import annotations

from whyidle.analysis.step_scope import StepScope


def granted_cores(facts: StepScope, own: float | None) -> float | None:
    """How many cores the command was given, where a process of it may use fewer now (``own``);
    None where it may use them all, or nobody told. Ranks that share a machine's cores out among
    them are bound on purpose: they leave none to spare."""
    given = facts.timeline.process.cores_given
    ranks = max(facts.timeline.world_size or 1, 1)
    return given if given and own and own * ranks < given else None


def cores_for_loading(facts: StepScope) -> float | None:
    """Cores that loading may use, once nothing binds it; None where not told."""
    own = facts.timeline.loading.cores
    return granted_cores(facts, own) or own
