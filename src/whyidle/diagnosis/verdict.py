"""Decides the verdict: one line with one of four states, or the reason why there is none."""

from __future__ import annotations

from typing import cast

import msgspec

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.sampled_lines import describe_place, lines_with_share
from whyidle.analysis.partition.unexplained_time import describe_unexplained
from whyidle.analysis.ranks.job import Job
from whyidle.diagnosis import device_timestamps, low_evidence
from whyidle.diagnosis.spoiled_measurement import explain_lost_kernels
from whyidle.model.buckets import Bucket
from whyidle.model.cause import MOSTLY
from whyidle.model.diagnosis import Finding, State, Verdict
from whyidle.model.number_text import format_duration, format_part
from whyidle.model.purposes import MEANINGS, TRAINING

STARVED = 0.15  # least cost of a finding in a bucket of waiting for the device to be *starved*
CLEAN = 0.20  # with more idle time than this and no finding, the verdict is inconclusive
LATE = frozenset({"late-rank", "rank-workload-imbalance", "fail-slow-device"})
"""causes of waiting for another rank"""
PREPARING = frozenset({"cpu-tensor-work", "gaps-between-graphs"})
"""causes of waiting for a CPU that does something other than launching"""
UNEXPLAINED = 0.5  # with a larger unknown share there is no verdict

NONE_FOUND = "no cause found among the {}"
WAITS_FOR: dict[str, str] = {
    "input": "its next batch",
    "transfer": "copies between it and the host",
    "host": "the CPU to launch work",
    "sync": "the CPU, which is waiting for it",
    "communication": "the network and the other ranks",
}

SEEN_WAITS = frozenset({"input", "sync", "communication"})
"""buckets of time inside calls that wait for what the bucket is named after, whatever its cause"""

HOW_TO_RECORD = {
    "nsys": "record with nsys profile --trace=cuda,nvtx,osrt",
    "legacy_autograd": "record with torch.profiler and ProfilerActivity.CUDA, or at least with "
    "use_cuda=True",
    "Apple GPU (MPS)": "PyTorch's profiler does not record this device: torch.mps.profiler.start() "
    "does, for Xcode's Instruments",
}
"""by name of the device, or format of the recording; else as with PyTorch's profiler"""


def describe_waiting(job: Job, bucket: str, cause: str | None = None) -> str:
    """Describe the wait of a bucket, for which ``cause`` was found, with its share of the time."""
    share = f"{job.attribution[bucket]:.0%} of the time"
    outside = job.lead_rank.bucket_share("startup") + job.lead_rank.bucket_share("after")
    if (
        bucket == "interruption"
        and job.lead_rank.bucket_share("compile") > MOSTLY * job.lead_rank.attribution[bucket]
    ):
        return f"One-off set-up takes {share}"
    if bucket == "interruption" and outside > job.attribution[bucket] / 2:
        return f"{outside:.0%} of the time lies before the first step or after the last"
    if bucket == "interruption":
        kind = job.lead_rank.kind
        loop = "training loop" if kind is None or kind.kind == "training" else "program"
        return f"The {loop} is interrupted {share}"
    locked = job.lead_rank.bucket_share("locked")
    if bucket == "host" and locked > job.lead_rank.attribution[bucket] / 2:
        return (
            f"The training thread waits for Python's global interpreter lock (GIL) {locked:.0%} of "
            "the time: another thread, or native code that waits, holds it"
        )
    if bucket == "host" and job.lead_rank.on_cpu:
        return f"The CPU runs Python and the framework instead of the model {share}"
    awaited = "the CPU" if bucket == "host" and cause in PREPARING else WAITS_FOR[bucket]
    return f"The {job.lead_rank.device_noun} waits for {awaited} {share}"


def is_emulated(job: Job) -> bool:
    """Whether the recording is of an emulated device, which the headline must say."""
    info = job.lead_rank.timeline.info
    return info.kind == "emulated" or (info.name or "").lower().startswith("emulated")


def decide_verdict(
    job: Job, findings: list[Finding], *, checks: int, few: int | None = None
) -> tuple[Verdict, list[Finding]]:
    """Decide the verdict from the findings, sorted by cost, and the attribution. ``checks`` causes
    were checked; ``few`` is the number of steady steps if too few for all but direct evidence.

    Returned with the findings that it allows: where nothing can be concluded, none is more than a
    remark or promises anything."""
    verdict = _verdict(job, findings, few, checks)
    if verdict.state == "inconclusive":
        replace = msgspec.structs.replace
        findings = [replace(one, severity="info", fixes=[], removal=None) for one in findings]
    if is_emulated(job):
        headline = f"Emulated device: {_lower_first(verdict.headline)}"
        verdict = msgspec.structs.replace(verdict, headline=headline)
    return verdict, findings


def _inconclusive(reason: str, proven: list[Finding]) -> Verdict:
    """The reason why there is no verdict; or what is proven in spite of it, as the verdict."""
    if not proven:
        return Verdict(state="inconclusive", headline=reason, bound=None)
    top = proven[0]
    waits = top.bucket not in ("compute", "unknown") and top.lost.high >= STARVED
    return Verdict(
        state="starved" if waits else "inefficient",
        headline=f"{top.headline}. {reason}",
        bound=top.bucket,
        cause=top.cause,
    )


def _verdict(job: Job, findings: list[Finding], few: int | None, checks: int) -> Verdict:
    serious = [finding for finding in findings if finding.severity != "info"]
    direct = [finding for finding in serious if low_evidence.needs_few_steps(finding)]
    if job.lead_rank.has_no_steps:
        stepless = job.lead_rank.timeline.stepless
        unseen = f"No training step was seen: {stepless.reason if stepless else ''}"
        return _inconclusive(unseen, serious)
    if reason := _no_answer(job, direct):
        return _inconclusive(reason, direct)
    if few is not None:
        if not direct:
            return _inconclusive(low_evidence.explain_low_evidence(few), [])
        serious = direct
    if reason := _unexplained_time(job):
        return _inconclusive(reason, serious)
    idle = [f for f in serious if f.bucket not in ("compute", "unknown") and f.lost.high >= STARVED]
    leads = job.lead_rank.on_cpu or (serious and low_evidence.needs_few_steps(serious[0]))
    if idle and not (serious[0] not in idle and leads):  # a CPU works on all that it does
        return _starved_verdict(job, serious, idle, checks)
    if not serious and device_timestamps.has_only_marks(job.lead_rank):
        return _inconclusive(device_timestamps.explain_missing_proof(job.lead_rank), [])
    if not serious and (wait := _unproven_idle_time(job, checks)):
        return wait
    if serious and (open_ := _unexplained_bucket(job, serious)):
        return _unproven_wait(job, serious, open_, checks)
    return _of_findings(job, findings, serious, checks)


def _of_findings(job: Job, findings: list[Finding], serious: list[Finding], checks: int) -> Verdict:
    bound = cast("Bucket", max(job.attribution, key=lambda bucket: job.attribution[bucket]))
    if not serious:
        return _verdict_without_findings(job, findings, bound, checks)
    top = serious[0]
    headline = top.headline
    if top.bucket in _held_shares(job):
        busy = f"{job.attribution['compute']:.0%} of the time"
        headline = (
            f"The {job.lead_rank.device_noun} computes {busy}, but steps take longer than "
            f"necessary. {top.headline}"
        )
    return Verdict(state="inefficient", headline=headline, bound=bound, cause=top.cause)


def _starved_verdict(job: Job, serious: list[Finding], idle: list[Finding], checks: int) -> Verdict:
    """Name the largest bucket of waiting and the finding that explains most of it.

    Without a finding in that bucket, report it as unexplained if it holds more than any finding;
    else use the largest bucket with findings, or the costliest finding's if those of the largest
    explain less than half of it. If the host leads only by the profiler's own cost,
    the findings decide, which exclude it. If ranks wait for a late rank, its own cause is named;
    if what holds that rank up costs most, the waiting of the others comes before it.
    """
    waits = _held_shares(job)
    largest, second = sorted(waits, key=lambda bucket: -waits[bucket])[:2]
    if largest == "host" and waits[largest] - waits[second] <= job.lead_rank.profiler_share:
        largest = idle[0].bucket
    if not any(finding.bucket == largest for finding in serious):
        if _unexplained_bucket(job, serious) == largest:
            return _unproven_wait(job, serious, largest, checks)
        largest = max((finding.bucket for finding in idle), key=lambda bucket: waits[bucket])
    elif MOSTLY * waits[largest] > max(one.lost.high for one in serious if one.bucket == largest):
        largest = idle[0].bucket
    explaining = [finding for finding in serious if finding.bucket == largest]
    late_findings = [one for one in explaining if one.cause in LATE]
    near = late_findings and late_findings[0].lost.high >= MOSTLY * explaining[0].lost.high
    top = late_findings[0] if near else explaining[0]
    if top.cause == "heavy-evaluation" and job.lead_rank.on_cpu:  # it works, as the steps do
        top = max(serious, key=_best_speedup)
        largest = top.bucket
    wait = describe_waiting(job, largest, top.cause)
    late = next((one for one in serious if one.cause in LATE and one is not top), None)
    held = job.imbalance.late_rank
    if late and held and held.is_constant and held.reason == top.bucket:  # it costs both ranks
        gain = late.removal.speedup if late.removal else None
        wait = f"{late.headline}{f'; with even ranks {gain:.2f}x as fast' if gain else ''}"
    headline = f"{wait}. {top.headline}"
    if (evaluates := top.cause == "heavy-evaluation") and largest == "interruption":
        headline = top.headline  # it names the same share
    works = job.lead_rank.on_cpu and evaluates
    state: State = "inefficient" if works else "starved"  # a CPU computes while it evaluates
    return Verdict(state=state, headline=headline, bound=largest, cause=top.cause)


def _best_speedup(finding: Finding) -> float:
    return max((fix.predicted.speedup for fix in finding.fixes if fix.predicted), default=1.0)


def _unproven_wait(job: Job, serious: list[Finding], bucket: Bucket, checks: int) -> Verdict:
    wait = f"{describe_waiting(job, bucket)}{_most_sampled_line(job.lead_rank, bucket)}"
    headline = f"{wait}; {NONE_FOUND.format(_count_checks(checks))}. Also: {serious[0].headline}"
    return Verdict(state="starved", headline=headline, bound=bucket)


def _held_shares(job: Job) -> dict[Bucket, float]:
    shares = job.attribution.items()
    return {
        cast("Bucket", name): share for name, share in shares if name not in ("compute", "unknown")
    }


def _verdict_without_findings(
    job: Job, findings: list[Finding], bound: Bucket, checks: int
) -> Verdict:
    """No finding is serious. Whether a CPU computes efficiently requires recorded operators."""
    computes = (
        f"The {job.lead_rank.device_noun} computes {job.attribution['compute']:.0%} of the time"
        f"{_mention_other_work(job.lead_rank)}"
    )
    if unseen := _mention_unseen_compute(job):
        return _inconclusive(f"{computes}{_mention_late_risks(findings)}; {unseen}", [])
    more = any(fix.changes_batch and fix.predicted for one in findings for fix in one.fixes)
    at = "at this batch, " if more else ""
    return Verdict(
        state="saturated",
        headline=f"{computes}; {at}no cause worth more than 3% "
        f"was found among the {_count_checks(checks)}{_mention_late_risks(findings)}",
        bound=bound,
    )


def _mention_other_work(lead: Facts) -> str:
    """The line with most of the time, if that is neither the model's nor the loader's: whether
    training needs it, its author knows."""
    for line in lead.lines[:1]:
        share = line.time / max(lead.scope.total, 1)
        if line.place and line.purpose not in TRAINING and share > MOSTLY:
            spot = f"{(line.place.file or '').rpartition('/')[2]}:{line.place.line}"
            if lead.timeline.framework == "jax":  # what a compiled step gives is ready later
                spot += ", which may wait for earlier steps"
            return f", {share:.0%} of the step in {MEANINGS[line.purpose]} ({spot})"
    return ""


def _count_checks(checks: int) -> str:
    return f"{checks} check{'' if checks == 1 else 's'} that this recording allows"


def _mention_late_risks(findings: list[Finding]) -> str:
    leak = next((found for found in findings if found.cause == "memory-leak-growth"), None)
    return f", but: {_lower_first(leak.headline)}" if leak else ""


def _mention_unseen_compute(job: Job) -> str:
    """Why the operators of a job on the CPU were not recorded; empty if they were."""
    process = job.lead_rank.timeline.process
    recorded = any(facts.burst is not None for facts in job.ranks)
    if not job.lead_rank.on_cpu or recorded or process.pid is None:
        return ""
    bursts = process.bursts
    text = "its operators were not recorded, so inefficient ones could not be identified"
    off = bursts.off
    if off and off != "closed":
        return f"{text}: {off}"
    if bursts.put_off:  # a longer run would not change that
        return f"{text}: {bursts.put_off}"
    if bursts.looks:  # requested, as whyidle fix always does
        return f"{text}: too few steps were watched"
    why = "the run was too short, or profiling was off"
    if needs := bursts.needs_s:
        why = f"this takes {format_duration(needs)} of training"
    return f"{text}: {why}; --look profile records immediately"


def _unexplained_time(job: Job) -> str | None:
    """Why a recording of a device gives no verdict where most of its time is unexplained."""
    lead = job.lead_rank
    recorded = len(lead.timeline.device) > 0 and lead.timeline.source.format != "probe"
    if not recorded or job.attribution["unknown"] <= UNEXPLAINED:
        return None
    return describe_unexplained(lead)


def _unproven_idle_time(job: Job, checks: int) -> Verdict | None:
    waits = _held_shares(job)
    largest = max(waits, key=lambda bucket: waits[bucket])
    idle = 1.0 - job.attribution["compute"]
    if idle < CLEAN:
        return None
    if job.attribution["unknown"] >= waits[largest]:
        return _inconclusive(describe_unexplained(job.lead_rank), [])
    wait = f"{describe_waiting(job, largest)}{_most_sampled_line(job.lead_rank, largest)}"
    unproven = NONE_FOUND.format(_count_checks(checks))
    if largest in SEEN_WAITS and waits[largest] > MOSTLY:
        return Verdict(state="starved", headline=f"{wait}; {unproven}", bound=largest)
    return _inconclusive(f"N{unproven[1:]}; {_lower_first(wait)}", [])


def _unexplained_bucket(job: Job, serious: list[Finding]) -> Bucket | None:
    """The largest bucket of waiting if more of it is unexplained than any finding costs."""
    waits = _held_shares(job)
    bucket = max(waits, key=lambda name: waits[name])
    left = waits[bucket] - sum(one.lost.high for one in serious if one.bucket == bucket)
    return bucket if left > max(CLEAN, serious[0].lost.high) else None


def _most_sampled_line(lead: Facts, bucket: str) -> str:
    lines = lines_with_share(lead, lead.time_of(bucket))
    if not lines or lines[0][1] < MOSTLY:
        return ""
    place, share = lines[0]
    file = (place.file or "").rpartition("/")[2]
    return f", {format_part(share)} {describe_place(place)} ({file}:{place.line})"


def _lower_first(text: str) -> str:
    """Lower-case the first letter of a sentence, unless it begins with a name (AdamW)."""
    word = text.partition(" ")[0]
    return text[:1].lower() + text[1:] if word == word.capitalize() else text


def _describe_host(facts: Facts) -> str:
    """What is known where the device was not recorded: an operator that took most of the time, on
    the CPU or waiting for a copy."""
    for longest in facts.operators[:1]:
        share = longest.total_s / max(facts.scope_s, 1e-9)
        if share > MOSTLY:
            return f". On the CPU, {longest.name} took {share:.0%} of the recording"
    return ""


def _no_answer(job: Job, direct: list[Finding]) -> str | None:
    kind = job.lead_rank.kind
    if kind is not None and kind.kind == "graph_capture":
        return (
            f"The recording shows the capture of a CUDA graph: {kind.why}, not run, so they start "
            f"no kernels.  It happens once; record steps after it"
        )
    if reason := explain_lost_kernels(job):
        return reason + _describe_host(job.lead_rank)
    if not any(len(facts.timeline.device) for facts in job.ranks):
        told = any(finding.bucket == "unknown" for finding in direct)  # what the time was for
        if told or device_timestamps.has_only_marks(job.lead_rank):
            return None
        if job.lead_rank.timeline.info.kind != "cpu":
            timeline = job.lead_rank.timeline
            how = HOW_TO_RECORD.get(timeline.info.name or "") or HOW_TO_RECORD.get(
                timeline.source.format, "record with ProfilerActivity.CUDA"
            )
            known = _describe_host(job.lead_rank)
            return (
                f"The recording contains no GPU activity, so GPU idle time is unknown; {how}{known}"
            )
        # a rank that waits for another explains the unknown time of that one
        share = min(facts.attribution["unknown"] for facts in job.ranks)
        if share > UNEXPLAINED:
            return f"The recording leaves {share:.0%} of the step unexplained"
    return None
