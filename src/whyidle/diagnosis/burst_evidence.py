"""Reads profiler bursts and decides which causes are judged from them.

Measurements of the whole run have priority, because they are undisturbed. A burst is used only for
causes whose signals the run lacks (kernels, launches, shapes), and for the attribution where only
the burst recorded the device.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.arrays import I64
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.source_lines import in_library
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.step_detection import StepWindows, find_steps
from whyidle.errors import InputError
from whyidle.model.cause import MOST_PLACES, Cause, Proof
from whyidle.model.diagnosis import Place
from whyidle.model.number_text import format_duration
from whyidle.model.process_facts import BurstFacts, BurstInRun
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline
from whyidle.readers import kineto, xplane

_ORDINARY = ("as many", "closed")
"""beginnings of expected reasons for the last burst, which need no note"""
NO_KERNELS = (
    "no profile contains device activity, so causes that need kernels were not checked: the "
    "profiler recorded none, or its file is truncated"
)


def read_bursts(recording: Path, timeline: Timeline) -> tuple[Timeline, ...]:
    """Read the bursts that one process lists; unreadable ones are left out."""
    bursts = []
    for facts in timeline.process.bursts.bursts:
        path = recording / facts.file
        if facts.state != "recorded" or not path.is_file():
            continue
        try:
            burst = (xplane if path.name.endswith(xplane.SUFFIXES) else kineto).load(path)
        except InputError:
            continue  # truncated: the process was killed
        on_cpu = timeline.info.kind == "cpu"  # even if the machine has a GPU
        if not (on_cpu or len(burst.device)):
            continue
        steps = locate_burst(facts, find_steps(timeline), timeline.base_ns)
        window = f"profile of {steps.step_range}"
        bursts.append(
            replace(
                burst,
                info=timeline.info if on_cpu else burst.info,
                process=timeline.process,
                burst=BurstInRun(**msgspec.structs.asdict(facts), window=window),
                rank=timeline.rank,
                hostname=timeline.hostname,
            )
        )
    return tuple(bursts)


def job_of(job: Job) -> Job | None:
    """Combine the bursts of a job's ranks into a job; None without bursts."""
    bursts = tuple(facts.burst for facts in job.ranks if facts.burst is not None)
    return Job(bursts) if bursts else None


def judge_of(cause: Cause, job: Job, bursts: Job | None) -> Job:
    """Choose the recording for a cause: the bursts only if the run itself lacks the signals."""
    if (
        bursts is None
        or not cause.missing_signals(job.signals)
        or cause.missing_signals(bursts.signals)
    ):
        return job
    return bursts


def second_of(cause: Cause, job: Job, bursts: Job | None) -> Job | None:
    """The bursts as a second chance for a cause that the run's own substitute for runtime calls
    did not prove; None if they lack signals too."""
    instead = "runtime_calls" in cause.needs and not job.signals.issuperset(cause.needs)
    if bursts is None or not instead or not bursts.signals.issuperset(cause.needs):
        return None
    return bursts


def device_of(job: Job, bursts: Job | None) -> Job:
    """Choose the recording for the device's shares: the run itself if it has device time."""
    blind = "device_time" not in job.signals
    return bursts if bursts is not None and blind and "device_time" in bursts.signals else job


def mark_burst_evidence(proof: Proof, facts: Facts) -> Proof:
    """Name the burst as window and source of the proof's evidence."""
    evidence = tuple(
        msgspec.structs.replace(item, window=_burst_name(facts), source=f"burst: {item.source}")
        for item in proof.evidence
    )
    return replace(proof, evidence=evidence)


def place_sync_proof(cause: Cause, proof: Proof, live: Facts) -> Proof:
    """Add the run's waiting lines to a proof of synchronisation, since bursts hold no lines."""
    if proof.where or cause.bucket != "sync":
        return proof
    return replace(proof, where=waiting_lines(live))


def _burst_name(burst: Facts) -> str:
    return burst.timeline.burst.window if burst.timeline.burst else ""


def notes_on(job: Job) -> list[str]:
    """List the bursts: their steps, their cost, and step times before, during and after."""
    notes = []
    for facts in job.ranks:
        log = facts.timeline.process.bursts
        prefix = f"rank {facts.rank}: " if len(job.ranks) > 1 else ""
        shown = [item for item in log.bursts if item.state != _CUT_OFF]
        notes += [f"{prefix}{_describe_burst(facts, item)}" for item in shown]
        if log.off and not log.off.startswith(_ORDINARY):
            first = "no further profile" if shown else "no burst"
            notes.append(f"{prefix}{first} was recorded: {log.off}")
        burst = facts.burst
        if burst is None and not facts.on_cpu and any(item.state == "recorded" for item in shown):
            notes.append(f"{prefix}{NO_KERNELS}")
        if burst is not None and facts.on_cpu and burst.operators:
            notes.append(f"{prefix}{_dominant_operator(facts, burst)}")
    return notes


def _describe_burst(facts: Facts, burst: BurstFacts) -> str:
    steps = locate_burst(burst, facts.steps, facts.timeline.base_ns)
    if burst.state != "recorded":
        return f"the profile at step {steps.first} failed: {burst.state}"
    times = ((burst.before_s, "before"), (burst.during_s, "during"), (burst.after_s, "after"))
    durations = ", ".join(f"{format_duration(s)} {word}" for s, word in times if s)
    return (
        f"profile of {steps.step_range}: every operator recorded, excluded from all other figures; "
        f"{_LENGTHS[steps.alike]} took {durations}; recording cost {format_duration(burst.cost_s)}"
    )


_CUT_OFF = "abandoned: closed"  # the job ended during the burst, which needs no note
_LENGTHS = {True: "steps", False: "the time between calls of the first optimizer"}


def _dominant_operator(facts: Facts, burst: Facts) -> str:
    compute = facts.attribution["compute"]
    phased = any(operator.phase != "forward" for operator in burst.operators)
    operators = ", ".join(
        f"{operator.name}{f' in {operator.phase}' if phased else ''} {operator.share * compute:.0%}"
        for operator in burst.operators[:3]
    )
    return f"operators with the most time: {operators} of the step ({_burst_name(burst)})"


class BurstSteps(NamedTuple):
    """First and last step, counted from 1; ``alike``: the probe's steps are the run's steps."""

    first: int
    last: int
    alike: bool

    @property
    def step_range(self) -> str:
        """The steps in words: ``step 3`` or ``steps 3 to 5``."""
        single = self.first == self.last
        return f"step {self.first}" if single else f"steps {self.first} to {self.last}"


def locate_burst(burst: BurstFacts, steps: StepWindows, base_ns: int) -> BurstSteps:
    """Find a burst's steps by its times; without times or steps, use the probe's own count: calls
    of one optimizer, which with several is not what the diagnosis counts as a step."""
    if steps.found_by is None or not burst.begin or not burst.end:
        return BurstSteps(burst.step, burst.step + max(burst.steps, 1) - 1, True)
    ends = steps.on_host[1]
    before, after = (
        int(np.searchsorted(ends, moment - base_ns, side="right"))
        for moment in (burst.begin, burst.end)
    )
    return BurstSteps(before + 1, max(after, before + 1), after - before == burst.steps)


RARE = 0.1
"""lines in a smaller share of the samples do not matter"""


def waiting_lines(facts: Facts) -> tuple[Place, ...]:
    """Return the user's lines sampled inside such waits in scope, the most frequent first."""
    host, samples = facts.timeline.host, facts.timeline.looks
    waits = facts.rows_of(Role.DEVICE_READ)
    if samples is None:
        return ()
    times = samples.time[union_of(host.start[waits], host.end[waits]).contains_times(samples.time)]
    return lines_at(facts, times, host.thread[waits])


def lines_at(facts: Facts, times: I64, threads: NDArray[np.int16]) -> tuple[Place, ...]:
    """Return the user's lines sampled at some moments on some threads, the most frequent first."""
    host = facts.timeline.host
    samples = np.flatnonzero((host.detail >= 0) & is_among(host.thread, np.unique(threads)))
    rows = np.searchsorted(host.start[samples], times, side="right") - 1
    rows = samples[rows[rows >= 0]]
    counts_by_place: Counter[Place] = Counter()
    _, first, counts = np.unique(host.detail[rows], return_index=True, return_counts=True)
    for row, count in zip(rows[first], counts, strict=True):
        place = facts.places.place_of(int(row))
        if place is not None and not in_library(place):
            counts_by_place[place] += int(count)
    common = counts_by_place.most_common(MOST_PLACES)
    return tuple(place for place, count in common if count >= RARE * len(times))
