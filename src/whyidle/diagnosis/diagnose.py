"""From recordings to a diagnosis: check every cause, rank the findings, decide the verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from whyidle import catalog
from whyidle.analysis.device.model_account import build_architecture
from whyidle.analysis.device.model_flops_utilization import peak_flops
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import samples_per_s
from whyidle.analysis.intervals import union_of
from whyidle.analysis.ranks.job import Job
from whyidle.analysis.recording_checks import check_recordings
from whyidle.analysis.steps.step_detection import AFTER
from whyidle.diagnosis import (
    burst_evidence,
    device_timestamps,
    low_evidence,
    slowest_rank,
    spoiled_measurement,
)
from whyidle.diagnosis.detail_tables import build_details
from whyidle.diagnosis.findings import ProvenCause, findings_of, word_without_steps
from whyidle.diagnosis.fix_instructions import word_fixes
from whyidle.diagnosis.memory_account import MEASURED, build_account
from whyidle.diagnosis.prediction_width import bucket_spread
from whyidle.diagnosis.rank_assignment import assign_ranks, notes_on
from whyidle.diagnosis.telemetry_summary import notes_on_sources, own_cost, summarize_utilization
from whyidle.diagnosis.verdict import decide_verdict, is_emulated
from whyidle.model.cause import MOSTLY, WORTH, Cause, Proof
from whyidle.model.diagnosis import (
    Abstention,
    Attribution,
    Coverage,
    Device,
    Diagnosis,
    Edit,
    Finding,
    ProposedFix,
    RunInfo,
    Steps,
)
from whyidle.model.knobs import JAX, KERAS, LOADERS, PYTHON, TENSORFLOW, TORCH, Subject
from whyidle.model.roles import Role
from whyidle.model.signals import SIGNALS
from whyidle.model.timeline import Timeline
from whyidle.version import __version__

Progress = Callable[[str], None]
CONTAINED: tuple[type[Exception], ...] = (Exception,)
"""errors of one cause that must not stop the others; causes may be plug-ins"""


def diagnose_job(
    timelines: list[Timeline],
    *,
    run: RunInfo | None = None,
    progress: Progress | None = None,
    everyone: tuple[Facts, ...] = (),
) -> Diagnosis:
    """Diagnose one job from a recording per rank. ``run`` is the watched command, None for traces;
    ``progress`` is called with the title of each cause before it is checked; ``everyone`` are all
    ranks, as surveyed, of which the recordings are some."""
    ranks, notes = assign_ranks(check_recordings(timelines))
    job = Job(tuple(Facts(timeline) for timeline in ranks), everyone)
    bursts = burst_evidence.job_of(job)
    device_job = burst_evidence.device_of(job, bursts)
    proven, abstentions, failed = _judge_causes(job, bursts, progress or (lambda _: None))
    few = low_evidence.too_few_steps(job)
    findings = low_evidence.held_back(findings_of(device_job, proven), few)
    findings = keep_applicable_fixes(findings, device_job.lead_rank)
    if device_job.lead_rank.steps.found_by is None:
        findings = [word_without_steps(finding) for finding in findings]
    notes = [*notes, *(text for item in proven for text in item.decisions[1])]
    findings = [word_fixes(one, job.lead_rank.timeline.framework) for one in findings]
    checks = len(catalog.load_causes()) - len(abstentions) - len(failed)
    verdict, findings = decide_verdict(device_job, findings, checks=checks, few=few)
    return Diagnosis(
        run=run or _run_info(job),
        device=_device_info(device_job),
        steps=_step_summary(job),
        attribution=Attribution(**_normalize_shares(device_job.attribution)),
        utilization=summarize_utilization(job, device_job),
        verdict=verdict,
        findings=findings,
        abstentions=abstentions,
        trials=[],
        coverage=_coverage_summary(job, bursts, [*failed, *notes]),
        detail=build_details(job, device_job),
        recording=device_job.lead_rank.kind,
        memory=build_account(_find_looked(job, "memory_look")),
        architecture=build_architecture(_find_looked(job, "model_look")),
    )


def _find_looked(job: Job, look: str) -> Facts:
    """The rank that was looked at, which is one of all; without any the lead."""
    states = ((one, getattr(one.timeline.process, look)) for one in job.ranks)
    return next((one for one, found in states if found and found.state == MEASURED), job.lead_rank)


def _judge_causes(
    live: Job, bursts: Job | None, progress: Progress
) -> tuple[list[ProvenCause], list[Abstention], list[str]]:
    judged, abstentions, failed = [], [], []
    for cause in catalog.load_causes().values():
        progress(cause.title)
        job = burst_evidence.judge_of(cause, live, bursts)
        if not cause.applies_to(job.lead_rank.timeline.framework):
            continue
        missing = cause.missing_signals(job.signals)
        if missing or job.lead_rank.step_count < cause.min_steps:
            missing = missing or ["steady_steps"]
            how = _merge_instructions([SIGNALS[name].how for name in missing])
            abstentions.append(Abstention(cause=cause.id, missing=missing, how=how))
            continue
        try:
            proven = _strongest_proof(cause, job, live)
            if (
                proven is None
                and (other := burst_evidence.second_of(cause, job, bursts)) is not None
            ):
                proven = _strongest_proof(cause, other, live)
        except MemoryError:
            raise
        except CONTAINED as error:
            text = f"{type(error).__name__}: {error}"
            failed.append(f"internal error in the check of {cause.id}, which was skipped: {text}")
            continue
        judged += [proven] if proven else []
    return judged, abstentions, failed


def _strongest_proof(cause: Cause, job: Job, live: Job) -> ProvenCause | None:
    """The strongest proof among the ranks, or the weakest if all ranks must have the cause. If one
    rank sets the pace, its proof counts, limited to what the other ranks allow to gain."""
    if cause.scope == "job":
        proof = cause.test(job)
        if proof is not None and job is not live:
            proof = burst_evidence.mark_burst_evidence(proof, job.lead_rank)
        return _make_proven(cause, proof, job.lead_rank, 1.0) if proof else None
    proofs = [(facts, cause.test(facts)) for facts in job.ranks]
    proven = [(facts, proof) for facts, proof in proofs if proof is not None]
    common = cause.common and live.meets_every_step
    if not proven or (common and len(proven) < len(proofs)):
        return None
    facts, proof = (min if common else max)(proven, key=lambda pair: pair[1].high)
    room = None
    pace = slowest_rank.pace_setter(job, proof.bucket or cause.bucket) if job is live else None
    if pace is not None and not common:
        own = [each for facts, each in proven if facts is pace]
        if not own:
            return None
        facts, room = pace, slowest_rank.gain_of_others(job, proven, pace)
        proof = replace(own[0], predicted=slowest_rank.limit_prediction(own[0].predicted, room))
    if job is not live:
        live_facts = next(each for each in live.ranks if each.burst is facts)
        proof = burst_evidence.place_sync_proof(
            cause, burst_evidence.mark_burst_evidence(proof, facts), live_facts
        )
    proof = device_timestamps.add_mark_evidence(cause, proof, facts)
    judged = _make_proven(cause, proof, facts, len(proven) / len(proofs))
    return replace(judged, rank=facts.rank, room=room)


def _make_proven(cause: Cause, proof: Proof, facts: Facts, spread: float) -> ProvenCause:
    return ProvenCause(
        cause, proof, None, spread, bucket_spread(facts, proof.bucket or cause.bucket)
    )


def _normalize_shares(shares: dict[str, float]) -> dict[str, float]:
    """Round the shares so that they sum to exactly one; the largest takes the difference."""
    rounded = {bucket: round(max(share, 0.0), 9) for bucket, share in shares.items()}
    largest = max(rounded, key=lambda bucket: rounded[bucket])
    rounded[largest] = round(rounded[largest] + 1.0 - sum(rounded.values()), 9)
    return rounded


def _run_info(job: Job) -> RunInfo:
    sources = [facts.timeline.source.display_path for facts in job.everyone]
    digest = hashlib.sha256("\n".join(sources).encode()).hexdigest()[:8]
    worlds = [facts.timeline.world_size or 0 for facts in job.ranks]
    hosts = {facts.timeline.hostname for facts in job.everyone if facts.timeline.hostname}
    windows = [facts.steps.window for facts in job.ranks]
    return RunInfo(
        id=f"explain-{digest}",
        command=None,
        started=None,
        duration_s=max(high - low for low, high in windows) / 1e9,
        exit_status=None,
        framework=job.lead_rank.timeline.framework,
        ranks=max(*worlds, len(job.everyone)),
        hosts=sorted(hosts),
        whyidle=__version__,
        sources=sources,
    )


def _device_info(job: Job) -> Device:
    info = job.lead_rank.timeline.info
    return Device(
        kind="emulated" if is_emulated(job) else info.kind,  # type: ignore[arg-type]
        name=info.name,
        count=max(info.count, len(job.everyone) if len(job.lead_rank.timeline.device) else 0),
        memory_bytes=info.memory_bytes,
        peak_flops=peak_flops(job.lead_rank),
    )


def _step_summary(job: Job) -> Steps:
    lead = job.lead_rank
    seconds = lead.steps.seconds if lead.steps.found_by else np.empty(0)
    p50, p95, p99 = np.percentile(seconds, [50, 95, 99]) if len(seconds) else (None,) * 3
    return Steps(
        count=int(lead.steps.steady.sum()) if lead.steps.found_by else 0,
        warmup=int((~lead.steps.steady).sum())
        - lead.steps.left_out
        - (lead.steps.labels[-1] == AFTER),
        mean_s=_optional_float(seconds.mean() if len(seconds) else None),
        p50_s=_optional_float(p50),
        p95_s=_optional_float(p95),
        p99_s=_optional_float(p99),
        samples_per_s=samples_per_s(lead) if (lead.timeline.world_size or 1) == 1 else None,
        detected_by=lead.steps.found_by,
        confidence=lead.steps.confidence,
    )


def _optional_float(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]


def _merge_instructions(texts: list[str]) -> str:
    """Join instructions; one that another contains is left out."""
    distinct = list(dict.fromkeys(texts))
    parts = [text for text in distinct if not any(text in other != text for other in distinct)]
    return "; ".join(parts)


def _coverage_summary(job: Job, bursts: Job | None, assumed: list[str]) -> Coverage:
    spoils = spoiled_measurement.notes_on(job)
    notes = [
        *assumed,
        *notes_on(job),
        *burst_evidence.notes_on(job),
        *device_timestamps.notes_on(job),
    ]
    notes += spoiled_measurement.note_skipped_steps(job)
    notes += notes_on_sources(job)
    for facts in job.ranks:
        source = facts.timeline.source
        notes += [f"{source.display_path}: {note}" for note in source.notes]
        if source.lost:
            spoils.append(f"{source.display_path}: incomplete, {source.lost}")
    if job.lead_rank.steps.found_by is None and not job.lead_rank.has_no_steps:
        notes.append("no step boundaries were found; shares refer to the whole recording")
    if job.lead_rank.profiler_share > 0.02:
        effect = (
            "the step is that much shorter"
            if job.lead_rank.on_cpu
            else f"the {job.lead_rank.device_noun} waits up to that much less for kernel launches"
        )
        notes.append(
            f"the profiler took about {job.lead_rank.profiler_share:.0%} of the step on the host; "
            f"without it {effect}"
        )
    return Coverage(
        signals=sorted(job.signals | (bursts.signals if bursts else frozenset())),
        windows=len(job.everyone) + (len(bursts.ranks) if bursts else 0),
        overhead_ratio=own_cost(job),
        clock_error_s=job.meetings.clock_error_s,
        notes=[*spoils, *notes],
        spoils=spoils,
    )


LEARNING = ("optimizer.", "autocast.grad_scaler")
"""knobs of training alone"""
COMPUTES: Final[dict[str, frozenset[Subject]]] = {
    "pytorch": frozenset({TORCH, LOADERS}),
    "tensorflow": frozenset({TENSORFLOW, KERAS}),
    "jax": frozenset({JAX}),
}
"""name of the framework that computes -> what comes with it"""
LOADER_CALLS: Final = (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS)


def keep_applicable_fixes(findings: list[Finding], lead: Facts) -> list[Finding]:
    """Return the findings with the fixes that apply to the kind of recording."""
    subjects, kind = find_subjects(lead.timeline), lead.kind
    if subjects is not None:
        findings = [_keep(finding, lambda fix: fit_subjects(fix, subjects)) for finding in findings]
    if kind is None:
        return findings
    if kind.kind == "graph_capture":
        return []
    meant = {name for name, fix in catalog.load_fixes().items() if kind.kind in fix.kinds}
    findings = [_keep(one, lambda fix: fix if fix.fix in meant else None) for one in findings]
    return [_keep(finding, lambda fix: _applicable(fix, lead)) for finding in findings]


def fit_subjects(fix: ProposedFix, subjects: frozenset[Subject]) -> ProposedFix | None:
    """The fix with the edits whose subject a job with these has; None if it has that of none. It is
    advice where only people can set one of them in this job."""
    present: dict[Edit, frozenset[Subject]] = {}
    for edit in fix.edits:
        of = catalog.find_knob(edit.knob).subjects
        if not of or subjects & {*of}:
            present[edit] = subjects & {*of}
    if fix.edits and not present:
        return None
    by_hand = any(
        of and of <= {*catalog.find_knob(edit.knob).by_hand_in} for edit, of in present.items()
    )
    return msgspec.structs.replace(
        fix, edits=list(present), automatic=fix.automatic and not by_hand
    )


def _keep(finding: Finding, fit: Callable[[ProposedFix], ProposedFix | None]) -> Finding:
    """The finding with the fixes that fit; a remark where those with a worthwhile gain do not."""
    fixes = [kept for fix in finding.fixes if (kept := fit(fix))]
    gains = [1.0 - 1.0 / fix.predicted.speedup for fix in fixes if fix.predicted]
    if len(fixes) < len(finding.fixes) and gains and max(gains) < WORTH:
        finding = msgspec.structs.replace(finding, severity="info")
    return msgspec.structs.replace(finding, fixes=fixes)


def _compiled_share(lead: Facts) -> float:
    """Share of the host's time in scope that runs compiled graphs already."""
    host = lead.timeline.host
    roles = (Role.COMPILED_CALL, Role.COMPILED_REGION)
    rows = np.concatenate([lead.timeline.rows_of(role) for role in roles])
    compiled = union_of(host.start[rows], host.end[rows]) & lead.host_scope
    return compiled.total / max(lead.host_scope.total, 1)


def _applicable(fix: ProposedFix, lead: Facts) -> ProposedFix | None:
    assert lead.kind is not None
    knobs = [edit.knob for edit in fix.edits]
    if lead.graph_share > MOSTLY and any(knob.startswith("model.compile") for knob in knobs):
        return None
    if "model.compile" in knobs and _compiled_share(lead) > MOSTLY:
        return None
    if lead.kind.kind in ("training", "warm_up"):
        return fix
    edits = [edit for edit in fix.edits if not edit.knob.startswith(LEARNING)]
    if not fix.changes_batch:
        return msgspec.structs.replace(fix, edits=edits)
    if lead.kind.serves:
        return None  # a server batches requests, which has advice of its own
    has_loader = len(lead.host.rows_of(Role.LOADER)) > 0
    return msgspec.structs.replace(
        fix,
        summary=fix.summary.partition(";")[0],
        edits=edits,
        consent="none",
        automatic=fix.automatic and has_loader,
        risk="memory and the time until a result grow with the batch",
    )


def find_subjects(timeline: Timeline) -> frozenset[Subject] | None:
    """Return the subjects of a recorded process; None where its framework is unknown, so that any
    may be present."""
    computes = COMPUTES.get(timeline.framework or "")
    if computes is None:
        return None
    process, subjects = timeline.process, {*computes, PYTHON}
    if process.py_dataset is not None:
        subjects.add(KERAS)
    if process.pipelines:
        subjects.add(TENSORFLOW)
    if timeline.loading.loaders or any(len(timeline.rows_of(role)) for role in LOADER_CALLS):
        subjects.add(LOADERS)
    return frozenset(subjects)
