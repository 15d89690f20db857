"""The answer in one line, or the reason why there is none."""

from __future__ import annotations

from typing import cast

import msgspec

from whyidle.analysis.facts import Facts
from whyidle.analysis.job import Job
from whyidle.analysis.sampled_lines import describe_place, lines_with_share
from whyidle.engine.diagnosis import device_marks, low_evidence
from whyidle.model.buckets import Bucket
from whyidle.model.diagnosis import Finding, Verdict
from whyidle.model.number_text import format_duration

STARVED = 0.15
"""an idle bucket with a finding that costs this much starves the device: where peers call launches
critical (data wait, communication: 20 %)"""
CLEAN = 0.20
"""with more time than this not spent computing, "nothing found" is no clean bill of health"""
MOSTLY = 0.5
"""a line at which the samples find less than this share of a bucket is not where it is"""
LATE = frozenset({"late-rank", "rank-workload-imbalance", "fail-slow-device"})
"""causes of waiting for another rank"""
UNEXPLAINED = 0.5
"""with more than this share unexplained there is no verdict"""

WAITS_FOR: dict[str, str] = {
    "input": "its next batch",
    "transfer": "copies between it and the host",
    "host": "the CPU to launch work",
    "sync": "the CPU, which waited for it",
    "communication": "the network and the other ranks",
}


def describe_waiting(job: Job, bucket: str) -> str:
    """How a bucket that holds the device up is said, with its share of the time."""
    share = f"{job.attribution[bucket]:.0%} of the time"
    outside = job.lead_rank.bucket_share("startup") + job.lead_rank.bucket_share("after")
    if bucket == "interruption" and outside > job.attribution[bucket] / 2:
        return f"{outside:.0%} of the time lies before the first step or after the last"
    if bucket == "interruption":
        return f"The training loop is interrupted {share}"
    if (
        bucket == "host"
        and job.lead_rank.bucket_share("locked") > job.lead_rank.attribution[bucket] / 2
    ):
        return (
            f"The training thread does not run {job.lead_rank.bucket_share('locked'):.0%} of the "
            "time: the "
            "interpreter's lock is taken, by another thread or by native code that waits"
        )
    if bucket == "host" and job.lead_rank.on_cpu:
        return f"The CPU runs Python and the framework instead of the model {share}"
    return f"The {job.lead_rank.device_noun} waits for {WAITS_FOR[bucket]} {share}"


def is_emulated(job: Job) -> bool:
    """Whether the recording is of an imagined device; no such verdict goes out unmarked."""
    info = job.lead_rank.timeline.info
    return info.kind == "emulated" or (info.name or "").lower().startswith("emulated")


def decide_verdict(
    job: Job, findings: list[Finding], *, checks: int, few: int | None = None
) -> Verdict:
    """Decide from the findings and the attribution. ``checks``: how many causes could be judged.
    ``few``: how many steady steps were seen, where that is too few to judge by anything but direct
    evidence."""
    found = _verdict(job, findings, few, checks)
    if not is_emulated(job):
        return found
    said = f"Emulated device: {_lower_first(found.headline)}"
    return msgspec.structs.replace(found, headline=said)


def _verdict(job: Job, findings: list[Finding], few: int | None, checks: int) -> Verdict:
    if job.lead_rank.has_no_steps:
        return Verdict(
            state="inconclusive", headline=_verdict_without_steps(job, findings), bound=None
        )
    if reason := _no_answer(job):
        return Verdict(state="inconclusive", headline=reason, bound=None)
    serious = [finding for finding in findings if finding.severity != "info"]
    if few is not None:
        direct = [finding for finding in serious if low_evidence.needs_few_steps(finding)]
        if not direct:
            return Verdict(
                state="inconclusive",
                headline=low_evidence.explain_low_evidence(few, serious),
                bound=None,
            )
        serious = direct
    idle = [f for f in serious if f.bucket not in ("compute", "unknown") and f.lost.high >= STARVED]
    if idle and not (serious[0] not in idle and low_evidence.needs_few_steps(serious[0])):
        return _starved(job, serious, idle, checks)
    if not serious and device_marks.has_only_marks(job.lead_rank):
        headline = device_marks.explain_missing_proof(job.lead_rank)
        return Verdict(state="inconclusive", headline=headline, bound=None)
    if not serious and (reason := _unproven_idle_time(job, checks)):
        return Verdict(state="inconclusive", headline=reason, bound=None)
    if serious and (open_ := _unexplained_bucket(job, serious)):
        return _unproven_wait(job, serious, open_, checks)
    return _of_findings(job, findings, serious, checks)


def _of_findings(job: Job, findings: list[Finding], serious: list[Finding], checks: int) -> Verdict:
    """Where no wait holds much, the device's work is said first: what it waits for is the smaller
    part."""
    bound = cast("Bucket", max(job.attribution, key=lambda bucket: job.attribution[bucket]))
    if not serious:
        return _verdict_without_findings(job, findings, bound, checks)
    top = serious[0]
    headline = top.headline
    if top.bucket in _held(job):
        busy = f"{job.attribution['compute']:.0%} of the time"
        headline = (
            f"The {job.lead_rank.device_noun} does useful work {busy}, in steps that are longer "
            "than need be. "
            f"{top.headline}"
        )
    return Verdict(state="inefficient", headline=headline, bound=bound, cause=top.cause)


def _starved(job: Job, serious: list[Finding], idle: list[Finding], checks: int) -> Verdict:
    """The bucket that holds most, and the finding that explains most of it. Of ranks that wait for
    a late one that is what the late rank does, where it costs about as much as the exchange. Where
    nothing is found in that bucket and it holds more than any finding, this is said; else the
    bucket of findings that holds most. Where the host leads by no more than recording itself may
    have cost it, findings decide, which do not count that."""
    held = _held(job)
    most, second = sorted(held, key=lambda bucket: -held[bucket])[:2]
    if most == "host" and held[most] - held[second] <= job.lead_rank.profiler_share:
        most = idle[0].bucket
    if not any(finding.bucket == most for finding in serious):
        if _unexplained_bucket(job, serious) == most:
            return _unproven_wait(job, serious, most, checks)
        most = max((finding.bucket for finding in idle), key=lambda bucket: held[bucket])
    explaining = [finding for finding in serious if finding.bucket == most]
    late = [one for one in explaining if one.cause in LATE]
    near = late and late[0].lost.high >= MOSTLY * explaining[0].lost.high
    top = late[0] if near else explaining[0]
    headline = f"{describe_waiting(job, most)}. {top.headline}"
    return Verdict(state="starved", headline=headline, bound=most, cause=top.cause)


def _unproven_wait(job: Job, serious: list[Finding], bucket: Bucket, checks: int) -> Verdict:
    headline = (
        f"{describe_waiting(job, bucket)}{_most_sampled_line(job.lead_rank, bucket)}; "
        f"{_none_found(checks)}. "
    )
    headline += f"Besides: {serious[0].headline}"
    return Verdict(state="starved", headline=headline, bound=bucket)


def _none_found(checks: int) -> str:
    """Nothing found says little where little could be checked."""
    return f"no cause found among the {checks} checks that this recording allows"


def _held(job: Job) -> dict[Bucket, float]:
    """Share of each bucket of waiting."""
    shares = job.attribution.items()
    return {
        cast("Bucket", name): share for name, share in shares if name not in ("compute", "unknown")
    }


def _verdict_without_findings(
    job: Job, findings: list[Finding], bound: Bucket, checks: int
) -> Verdict:
    """No finding is worth a word. Where a CPU is all there is, whether it computes what it need not
    is known from a recording of its operators alone."""
    busy = f"{job.attribution['compute']:.0%} of the time"
    if unseen := _mention_unseen_compute(job):
        headline = (
            f"Nothing holds up the {job.lead_rank.device_noun}, which computes "
            f"{busy}{_mention_late_risks(findings)}"
        )
        return Verdict(state="inconclusive", headline=f"{headline}; {unseen}", bound=None)
    return Verdict(
        state="saturated",
        headline=f"The {job.lead_rank.device_noun} does useful work {busy}; no cause worth "
        "more than 3 % was "
        f"found among the {checks} checks that this recording "
        f"allows{_mention_late_risks(findings)}",
        bound=bound,
    )


def _mention_late_risks(findings: list[Finding]) -> str:
    """What costs nothing now and ends the job later."""
    leak = next((found for found in findings if found.cause == "memory-leak-growth"), None)
    return f", but: {_lower_first(leak.headline)}" if leak else ""


def _mention_unseen_compute(job: Job) -> str:
    """That nobody looked at what a CPU computes, and how to: of a device of its own that is told
    elsewhere."""
    process = job.lead_rank.timeline.process
    recorded = any(facts.burst is not None for facts in job.ranks)
    if not job.lead_rank.on_cpu or recorded or process.pid is None:
        return ""
    told = process.bursts
    said, off = "what it computes was not recorded, and may be dearer than need be", told.off
    if off and off != "closed":
        return f"{said}: {off}"
    if told.put_off:  # nor would a longer run change that
        return f"{said}: {told.put_off}"
    if told.looks:  # it was asked for, as whyidle fix always does
        return f"{said}: the steps that were watched were too few for it"
    why = "the run was too short for it, or told not to"
    if needs := told.needs_s:
        why = f"that takes {format_duration(needs)} of training"
    return f"{said}: {why}, or --profile look"


def _verdict_without_steps(job: Job, findings: list[Finding]) -> str:
    """That nothing was seen to train, and what the system shows all the same."""
    stepless = job.lead_rank.timeline.stepless
    said = f"No training step was seen: {stepless.reason if stepless else ''}"
    shown = [finding.headline for finding in findings if finding.severity != "info"]
    return f"{said}. {shown[0]}" if shown else said


def _unproven_idle_time(job: Job, checks: int) -> str | None:
    """Idle time without a proven cause is not a clean bill of health."""
    waits = _held(job)
    largest = max(waits, key=lambda bucket: waits[bucket])
    idle = 1.0 - job.attribution["compute"]
    if idle < CLEAN:
        return None
    device = job.lead_rank.device_noun
    if job.attribution["unknown"] >= waits[largest]:
        return f"The {device} is idle {idle:.0%} of the time, and the recording does not show why"
    return (
        f"{describe_waiting(job, largest)}{_most_sampled_line(job.lead_rank, largest)}; "
        f"{_none_found(checks)}"
    )


def _unexplained_bucket(job: Job, serious: list[Finding]) -> Bucket | None:
    """The bucket of waiting that costs more, beyond what findings explain of it, than any finding;
    None where that is little."""
    waits = _held(job)
    bucket = max(waits, key=lambda name: waits[name])
    left = waits[bucket] - sum(one.lost.high for one in serious if one.bucket == bucket)
    return bucket if left > max(CLEAN, serious[0].lost.high) else None


def _most_sampled_line(lead: Facts, bucket: str) -> str:
    """The user's line that most stack samples in a bucket show; nothing without samples."""
    found = lines_with_share(lead, lead.time_of(bucket))
    if not found or found[0][1] < MOSTLY:
        return ""
    place, share = found[0]
    file = (place.file or "").rpartition("/")[2]
    return f", {share:.0%} of it {describe_place(place)} ({file}:{place.line})"


def _lower_first(text: str) -> str:
    """A sentence to stand inside another; a name (AdamW, DataLoader) stays as it is written."""
    word = text.partition(" ")[0]
    return text[:1].lower() + text[1:] if word == word.capitalize() else text


def _no_answer(job: Job) -> str | None:
    if not any(len(facts.timeline.device) for facts in job.ranks):
        if device_marks.has_only_marks(job.lead_rank):
            return None
        if job.lead_rank.timeline.info.kind != "cpu":
            return (
                "The recording holds no GPU activity, so it cannot tell whether the GPU was idle; "
                "record with ProfilerActivity.CUDA"
            )
        # the rank that waits explains what a silent one does to it
        share = min(facts.attribution["unknown"] for facts in job.ranks)
        if share > UNEXPLAINED:
            return f"The recording leaves {share:.0%} of the step unexplained"
    return None
