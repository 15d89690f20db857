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
"""variables that bind threads to cores (OpenMP 5.2, 21.1.7; manuals of GNU and Intel OpenMP)"""
UNBOUND = ("false", "none", "disabled")
"""values that disable binding"""


@cause(
    "Loader workers are bound to too few cores",
    bucket="input",
    needs=("device_time", "loader_marks", "steps", "worker_batches"),
)
def narrowed_cpu_affinity(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Loader workers may use fewer cores than the command could at its start. Something in the
    process, often an imported library, narrowed the CPU affinity, which workers inherit.

    Why it costs
    ------------
    All workers share a few cores while the others are idle. More workers only wait for each other.

    How it is detected
    ------------------
    Each process records its affinity at its start, before any import. Each worker records its own
    when it makes its first batch. The report names this cause if workers may use fewer cores, wait
    for a core for at least 20 % of the time per batch, and the step waits for them. All ranks
    together must leave cores unused. The prediction uses all cores of the command; the lower bound
    treats them as hardware threads.

    What looks alike
    ----------------
    A command that *starts* with few cores (``taskset``, a container, a batch system) is
    ``cpu-starved-allocation``. Workers with several threads each are ``cpu-oversubscription``.

    What to do
    ----------
    Call ``os.sched_setaffinity`` in a ``worker_init_fn``, or remove the variable that sets it.

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
