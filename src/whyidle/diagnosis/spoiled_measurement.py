"""What spoils a measurement: other programs on the machine, a slow start, kernels that are missing
from the recording, and steps whose work gradient scaling threw away."""

from __future__ import annotations

import re
from typing import Final

from whyidle.analysis.device.device_backlog import earlier_work
from whyidle.analysis.device.lost_kernels import LOST, lost_launches, why_lost
from whyidle.analysis.facts import Facts
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.steps.undisturbed_steps import cores_of_others
from whyidle.diagnosis.job_starts import steps_of
from whyidle.model.buckets import REASONS, bucket_of
from whyidle.model.cause import MOSTLY
from whyidle.model.number_text import format_duration, format_part
from whyidle.model.roles import Role

VIRTUAL: Final = re.compile(r"^(?:GRID|NVIDIA) \S+-\d+[ABCQ]$")
"""names of NVIDIA's virtual GPUs: card, size in GB, and series, such as ``GRID T4-8Q``"""
WAITS = {
    Role.LOADER: "waits for the DataLoader",
    Role.SYNC: "waits for the {device}",
    Role.COLLECTIVE_WAIT: "waits for other ranks",
}
"""what the host's time tells without kernels"""
NOTABLE = 0.01
"""least share of the recorded time for a backlog to be noted"""
SEARCH: Final = 16
"""skips of the initial search: the scale starts at 2**16, and each skip halves it"""
GROWS_EVERY: Final = 2000
"""interval of doublings, each at the cost of at most one skip; defaults of ``GradScaler``"""


def notes_on(job: Job) -> list[str]:
    """What makes the figures of a run less certain."""
    return [*note_other_programs(job), *note_slow_start(job), *note_lost_kernels(job)]


def note_other_programs(job: Job) -> list[str]:
    """Notes if the GPU is a share of one, and if other programs filled the machine's cores."""
    name = job.lead_rank.timeline.info.name or ""
    shared = [
        f"{name} is a virtual GPU: other machines share its card in time slices, so some of the "
        "waiting and of the slow kernels may be due to them"
    ]
    return [*(shared if VIRTUAL.match(name) else []), *_notes_on_cores(job)]


def _notes_on_cores(job: Job) -> list[str]:
    telemetry = job.lead_rank.telemetry
    load = cores_of_others(telemetry) if telemetry is not None else None
    if load is None:
        return []
    others, cores = load
    return [
        f"other programs used {others:.1f} of the machine's {cores:.0f} cores and no core was "
        "idle, which lengthens steps and distorts shares; repeat the run on an idle machine"
        + _fewer_threads(job.lead_rank, cores - others)
    ]


def _fewer_threads(facts: Facts, left: float) -> str:
    """Suggest fewer operator threads if there are more than free cores: an operator ends when its
    last thread ends, and that one may be waiting for a core."""
    threads = facts.timeline.process.operator_threads or 1
    fit = max(1, round(left))
    if not facts.on_cpu or threads <= fit:
        return ""
    return (
        f", or set OMP_NUM_THREADS={fit} here: operators of this job use {threads} threads, and "
        "each waits for its slowest thread (changes rounding)"
    )


def note_slow_start(job: Job) -> list[str]:
    """Describe a slow start: its length, its share of the recording and its main activity. It never
    counts as step time; the shares contain it only if there is little else."""
    lead = job.lead_rank
    first = len(lead.warm_up_s)
    if not (lead.slow_start and lead.steps.found_by):
        return []
    slow = "the first step" if first == 1 else f"the first {first} steps"
    each = "" if first == 1 else " each on average"
    share = lead.warm_up.total / max(int((lead.steps.end - lead.steps.start).sum()), 1)
    text = (
        f"slow start: {slow} took "
        f"{format_duration(float(lead.warm_up_s.mean()))}{each}, {share:.0%} of the recorded "
        f"time{_main_activity(lead)}"
    )
    if lead.cold_start:
        return [
            f"{text}; step time and throughput exclude it, shares and findings cover all steps "
            f"(mean {format_duration(lead.step_s)})"
        ]
    return [f"{text}; shares, verdict and findings cover the {lead.step_count} steady steps"]


def _main_activity(lead: Facts) -> str:
    whole = max(lead.warm_up.total, 1)
    spent = {name: (part & lead.warm_up).total for name, part in lead.partition.parts.items()}
    most = max(spent, key=lambda name: spent[name])
    if spent[most] < MOSTLY * whole or bucket_of(most) in ("compute", "unknown"):
        return ""
    return f" ({format_part(spent[most] / whole)} {REASONS[most][1]})"


def explain_lost_kernels(job: Job) -> str | None:
    """Say why idle time means nothing where launches were recorded but not their kernels, and what
    the host does; None where nothing is lost, or some steps are complete."""
    lead = job.lead_rank
    if len(lead.timeline.device) and lead.steps.found_by and lead.steps.incomplete is None:
        return None
    rows, lost = lost_launches(lead.timeline)
    if not len(rows) or lost.mean() <= LOST:
        return None
    incomplete = lead.steps.incomplete
    if len(lead.timeline.device) and incomplete is not None and not incomplete.all():
        return None
    device = lead.device_noun
    kernels = "its kernels" if lost.all() else f"{lost.mean():.0%} of its kernels"
    host = _describe_host(lead)
    return (
        f"The recording lost {kernels} ({lost.sum()} of {len(rows)} launches have none), so "
        f"{device} idle time is unknown: {why_lost(lost)}{f'. {host}' if host else ''}"
    )


def _describe_host(lead: Facts) -> str:
    start, end = lead.host_scope.start, lead.host_scope.end
    whole = max(int((end - start).sum()), 1)
    shares = {
        text.format(device=lead.device_noun): (lead.host.time_in(role) & lead.host_scope).total
        / whole
        for role, text in WAITS.items()
    }
    parts = [f"{text} {share:.0%}" for text, share in shares.items() if share > LOST]
    return f"The host {' and '.join(parts)} of the time" if parts else ""


def note_lost_kernels(job: Job) -> list[str]:
    """Note steps without their kernels, and work from before the recording."""
    lead, notes = job.lead_rank, []
    incomplete = lead.steps.incomplete
    if incomplete is not None and not incomplete.all():
        notes.append(
            f"kernels of {incomplete.sum()} of {len(lead.steps)} steps are missing from the "
            "recording, and these steps are left out: "
            f"{why_lost(lost_launches(lead.timeline)[1])}"
        )
    low = int(lead.steps.on_host[0][0])
    if not lead.steps.found_by and len(lead.timeline.host):
        low = int(lead.timeline.host.start.min())
    earlier = earlier_work(lead.timeline, lead.launches, low)
    if earlier and earlier.until - low > NOTABLE * (lead.steps.window[1] - low):
        busy = format_duration((earlier.until - low) / 1e9)
        notes.append(
            f"the {lead.device_noun} was busy for the first {busy} with work launched "
            "before the recording began; shares do not cover this time"
        )
    return notes


def note_skipped_steps(job: Job) -> list[str]:
    """A note if scaling skipped more steps than its search for a scale explains."""
    ranks = [facts.timeline for facts in job.ranks]
    skipped, updates = max((rank.process.skipped_steps, steps_of(rank)) for rank in ranks)
    usual = SEARCH + updates // GROWS_EVERY
    if skipped <= usual:
        return []
    return [
        f"gradient scaling skipped {skipped} of {updates} optimizer steps because of inf or nan "
        f"gradients, so their work was lost. The search for a scale explains at most {usual}; find "
        "the overflow, or train in bfloat16, which needs no scaling"
    ]
