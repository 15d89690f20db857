"""Bursts, recordings of every operator of a few steps: read, and joined to their run's diagnosis.

The one place that joins them. What live signals have measured stays as it is: they saw the whole
run, undisturbed. A burst answers for causes that need evidence which live signals lack (kernels,
launches, shapes), and where only it has seen the device, for the device's shares too.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import msgspec

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.analysis.sampled_lines import lines_with_share
from whyidle.analysis.step_detection import find_steps
from whyidle.analysis.sync_sites import waiting_lines
from whyidle.engine.diagnosis.burst_steps import locate_burst
from whyidle.errors import InputError
from whyidle.importers import kineto
from whyidle.model.cause import Cause, Proof
from whyidle.model.number_text import format_duration
from whyidle.model.process_facts import BurstFacts, BurstInRun, BurstLog
from whyidle.model.timeline import HostKind, Timeline

_ORDINARY = ("as many", "closed")
"""why bursts end that needs no word"""
TOO_MANY = "a step has too many operators"
"""as the probe says it"""
NO_KERNELS = (
    "no burst shows what the device did, so that causes which need its kernels were not judged: "
    "PyTorch's profiler came away without any, or its file was cut short"
)
MOSTLY = 0.5
"""a line that has less than this share of the operators' time is not where they are called"""
NAMED = 3
"""so many operators are named in a note"""


def read_bursts(recording: Path, timeline: Timeline) -> tuple[Timeline, ...]:
    """The bursts of one process, as it told of them; those that cannot be read are left out."""
    found = []
    for one in timeline.process.bursts.bursts:
        path = recording / one.file
        if one.state != "recorded" or not path.is_file():
            continue
        try:
            burst = kineto.load(path)
        except InputError:
            continue  # cut short: the process was killed
        on_cpu = timeline.info.kind == "cpu"  # of a machine that has a GPU, perhaps
        if not (on_cpu or len(burst.device)):
            continue  # and so nothing is known of what it was to tell
        window = f"burst of {locate_burst(one, find_steps(timeline), timeline.base_ns).step_range}"
        found.append(
            replace(
                burst,
                info=timeline.info if on_cpu else burst.info,
                process=timeline.process,
                burst=BurstInRun(**asdict(one), window=window),
                rank=timeline.rank,
                hostname=timeline.hostname,
            )
        )
    return tuple(found)


def job_of(job: Job) -> Job | None:
    """The bursts of a job's ranks as a job of their own; None where there is none."""
    found = tuple(facts.burst for facts in job.ranks if facts.burst is not None)
    return Job(found) if found else None


def judge_of(cause: Cause, job: Job, bursts: Job | None) -> Job:
    """Where a cause is judged: in the burst only if it alone has the evidence."""
    if (
        bursts is None
        or not cause.missing_signals(job.signals)
        or cause.missing_signals(bursts.signals)
    ):
        return job
    return bursts


def second_of(cause: Cause, job: Job, bursts: Job | None) -> Job | None:
    """Where a cause is judged again if nothing was proven: what a watched process tells of itself
    stands in for calls of the runtime, and the burst holds them."""
    instead = "runtime_calls" in cause.needs and not job.signals.issuperset(cause.needs)
    if bursts is None or not instead or not bursts.signals.issuperset(cause.needs):
        return None
    return bursts


def device_of(job: Job, bursts: Job | None) -> Job:
    """Who tells the device's shares: live signals where they see the device at all."""
    blind = "device_time" not in job.signals
    return bursts if bursts is not None and blind and "device_time" in bursts.signals else job


def mark_burst_evidence(proof: Proof, facts: Facts) -> Proof:
    """A proof from a burst, whose evidence says so."""
    evidence = tuple(
        msgspec.structs.replace(item, window=_burst_name(facts), source=f"burst: {item.source}")
        for item in proof.evidence
    )
    return replace(proof, evidence=evidence)


def place_sync_proof(cause: Cause, proof: Proof, live: Facts) -> Proof:
    """A proof that the host waits for the device; its burst holds operators and no lines, so they
    are those at which the whole run waited."""
    if proof.where or cause.bucket != "sync":
        return proof
    return replace(proof, where=waiting_lines(live))


def _burst_name(burst: Facts) -> str:
    return burst.timeline.burst.window if burst.timeline.burst else ""


def notes_on(job: Job) -> list[str]:
    """What bursts there were, what they cost, and whether the steps were as fast afterwards."""
    notes = []
    for facts in job.ranks:
        told = facts.timeline.process.bursts
        who = f"rank {facts.rank}: " if len(job.ranks) > 1 else ""
        seen = [one for one in told.bursts if one.state != _CUT_OFF]
        notes += [f"{who}{_describe_burst(facts, one)}" for one in seen]
        if told.off and not told.off.startswith(_ORDINARY):
            first = "no further burst" if seen else "no burst"
            notes.append(f"{who}{first} was recorded: {told.off}{_count_operators(facts, told)}")
        burst = facts.burst
        if burst is None and not facts.on_cpu and any(one.state == "recorded" for one in seen):
            notes.append(f"{who}{NO_KERNELS}")
        if burst is not None and facts.on_cpu and burst.operators:
            notes.append(f"{who}{_dominant_operator(facts, burst)}")
    return notes


def _count_operators(facts: Facts, told: BurstLog) -> str:
    """How many operators there are where they are too many, how small, and who calls most."""
    nodes, seconds = told.counted_s or (0, 0.0)
    if told.off != TOO_MANY or not nodes:
        return ""
    said = (
        f"; one had {nodes:,} nodes in its graph, and {format_duration(seconds / nodes)} for each"
    )
    found = lines_with_share(facts, facts.time_of("compute"), HostKind.OP) if facts.on_cpu else []
    if found and found[0][1] >= MOSTLY and found[0][0].file:
        place, share = found[0]
        said += f"; {share:.0%} of their time is at {Path(str(place.file)).name}:{place.line}"
    return f"{said}. Where the model is called many times a step, one call for all makes fewer"


def _describe_burst(facts: Facts, one: BurstFacts) -> str:
    found = locate_burst(one, facts.steps, facts.timeline.base_ns)
    if one.state != "recorded":
        return f"a burst at step {found.first} came to nothing: {one.state}"
    times = ((one.before_s, "before"), (one.during_s, "during"), (one.after_s, "after"))
    took = ", ".join(f"{format_duration(seconds)} {word}" for seconds, word in times if seconds)
    return (
        f"burst of {found.step_range}: recorded operator by operator, and left out of all other "
        "figures; "
        f"{_LENGTHS[found.alike]} took {took}; recording cost {format_duration(one.cost_s)}"
    )


_CUT_OFF = "abandoned: closed"
"""the job ended meanwhile: that is nothing to tell"""

_LENGTHS = {True: "steps", False: "from one call of the first optimizer to the next it"}


def _dominant_operator(facts: Facts, burst: Facts) -> str:
    compute = facts.attribution["compute"]
    said = ", ".join(
        f"{one.name} in {one.phase} {one.share * compute:.0%}" for one in burst.operators[:NAMED]
    )
    return f"operators with the most time, share of step ({_burst_name(burst)}): {said}"
