"""Loader workers are bound to fewer cores than the command was given."""

from __future__ import annotations

from whyidle.analysis.core_capacity import on_cores
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.causes.input._worker_evidence import wait_evidence, workers_of
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import InputFacts

BINDING = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""variables of the environment with which OpenMP binds threads to cores (OpenMP 5.2, 21.1.7; the
manuals of GNU's and Intel's)"""
UNBOUND = ("false", "none", "disabled")
"""what they are set to where they bind nothing"""


@cause(
    "Loader workers are bound to too few cores",
    bucket="input",
    needs=("device_time", "loader_marks", "steps", "worker_batches"),
)
def narrowed_cpu_affinity(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    When the command started it might use more cores than its loader workers may use now: something
    in the process, most often a library that was imported, bound it to some of them. Workers
    inherit what the thread may use that starts them.

    Why it costs
    ------------
    All workers share a few cores, often a single one, while the others of the machine stay idle.
    More workers only wait for each other.

    How it is detected
    ------------------
    Each process tells the cores of its affinity when it starts, before anything is imported, and
    each worker those that it has when it makes its first batch. Workers that may use fewer, and
    wait for a core for a fifth of the time in which they make a batch, while the step waits for
    them, prove it. Where several ranks train, all of them together must leave cores that none
    has. What is expected is the step that the cores given have room for, carefully as the
    arithmetic units shared by two of them allow.

    What looks alike
    ----------------
    A command that is *started* with few cores (``taskset``, a container, a batch system): it has
    none to give back (``cpu-starved-allocation``). Workers of several threads each
    (``cpu-oversubscription``).

    What to do
    ----------
    Give workers the cores back in a ``worker_init_fn``, with ``os.sched_setaffinity``; or take what
    binds the process out of its environment.

    References
    ----------
    pytorch/pytorch issues 101850 and 8126 (workers bound by what the process imports); OpenMP API
    5.2, ``OMP_PROC_BIND``.
    """
    workers = workers_of(facts, "bound")
    if workers is None or workers.own_cores is None:
        return None
    own, given = workers.own_cores, facts.timeline.process.cores_given or 0.0
    gains = on_cores(facts, given, workers.waiting_share)
    if gains is None:
        return None
    told = facts.timeline.process.environment
    by = [f"{name}={told[name]}" for name in BINDING if _binds_cores(told.get(name))]
    return Proof(
        headline=f"Loader workers may use {own:g} of the {given:g} cores that the command was given"
        + (f": {' and '.join(by)} binds them" if by else ""),
        low=0.0,
        high=workers.waiting_share,
        predicted=from_gains(gains, f"P1: loading hidden behind computing, on {given:g} cores"),
        evidence=(
            *wait_evidence(workers, "cpu", "delay"),
            make_evidence("cores that a worker may use", own, None, source="affinity and quota"),
            make_evidence(
                "cores when the command started", given, None, source="affinity and quota"
            ),
        ),
        confidence=0.95,
        where=workers.places_of("asked"),
        facts=InputFacts(variables=tuple(one.partition("=")[0] for one in by)),
    )


def _binds_cores(value: str | None) -> bool:
    return bool(value) and str(value).lower() not in UNBOUND
