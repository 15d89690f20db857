"""Loader workers are bound to fewer cores than the command had."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import gain_on_cores
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.input._worker_evidence import wait_evidence, workers_of
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import InputFacts

BINDING = ("OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""environment variables with which OpenMP binds threads to cores (OpenMP 5.2, 21.1.7; the manuals
of GNU's and Intel's)"""
UNBOUND = ("false", "none", "disabled")
"""values that bind nothing"""


@cause(
    "Loader workers are bound to too few cores",
    bucket="input",
    needs=("device_time", "loader_marks", "steps", "worker_batches"),
)
def narrowed_cpu_affinity(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Loader workers may use fewer cores than the command could when it started: something in the
    process, most often an imported library, bound it to some of them. Workers inherit the affinity
    of the thread that starts them.

    Why it costs
    ------------
    All workers share a few cores, often a single one, while the others of the machine stay idle.
    More workers only wait for each other.

    How it is detected
    ------------------
    Each process records the cores of its affinity when it starts, before anything is imported, and
    each worker when it makes its first batch. Workers that may use fewer, and wait for a core for a
    fifth of the time in which they make a batch, while the step waits for them, prove it. Where
    several ranks train, all of them together must leave cores unused. The expected step is the one
    that all cores of the command allow; the lower bound assumes that pairs of these cores share
    arithmetic units.

    What looks alike
    ----------------
    A command that *starts* with few cores (``taskset``, a container, a batch system) has none to
    give back (``cpu-starved-allocation``). Workers with several threads each are
    ``cpu-oversubscription``.

    What to do
    ----------
    Restore the affinity of workers in a ``worker_init_fn``, with ``os.sched_setaffinity``; or
    remove from the environment what binds the process.

    References
    ----------
    pytorch/pytorch issues 101850 and 8126 (workers bound by what the process imports); OpenMP API
    5.2, ``OMP_PROC_BIND``.
    """
    workers = workers_of(facts, "bound")
    if workers is None or workers.own_cores is None:
        return None
    own, given = workers.own_cores, facts.timeline.process.cores_given or 0.0
    gains = gain_on_cores(facts, given, workers.waiting_share)
    if gains is None:
        return None
    environment = facts.timeline.process.environment
    set_to = {name: environment.get(name) or "" for name in BINDING}
    by = [f"{name}={text}" for name, text in set_to.items() if text.lower() not in ("", *UNBOUND)]
    return Proof(
        headline=f"Loader workers may use {own:g} of the command's {given:g} cores"
        + (f": {' and '.join(by)} binds them" if by else ""),
        low=0.0,
        high=workers.waiting_share,
        predicted=from_gains(gains, f"P1: loading hidden behind compute, on {given:g} cores"),
        evidence=(
            *wait_evidence(workers, "cpu", "delay"),
            make_evidence("cores of a worker", own, None, source="affinity and quota"),
            make_evidence("cores of the command", given, None, source="affinity and quota"),
        ),
        confidence=0.95,
        where=workers.places_of("asked"),
        facts=InputFacts(variables=tuple(one.partition("=")[0] for one in by)),
    )
