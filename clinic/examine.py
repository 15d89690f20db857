"""One case from its card to its outcome: watched once, its cures timed beside it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timezone
from pathlib import Path

import msgspec

from clinic import launch, runs, truth
from clinic.card import Case, Mode, Options
from clinic.outcome import Evidence, Gain, Named, Outcome, Results, oracle_key, product, timed
from clinic.times import JobError
from whyidle.errors import WhyidleError
from whyidle.model.diagnosis import Diagnosis, Finding
from whyidle.readers.probe.loader_records import read_document
from whyidle.record.recording_diagnosis import read_recording

NEAR, MOST_PAIRS = 1.10, 5
"""below this, up to so many pairs are run: all five on one side of nothing are so by chance in one
case of sixteen. A cure that seems to make a job slower is as doubtful as one that seems to do
nothing: two pairs of one that wins a twentieth are both slower now and then"""
SETTLED, STEADY = 0.03, 1.05
"""pairs that differ by no more, of arms of which none is faster than its like by more, tell what
more of them would; a machine that drifts makes pairs agree by chance"""
CLEAR = 2.5
"""from here on one pair tells enough: a machine that is a tenth faster or slower moves the step
with the cure by a few percent of the sick one, and whether something is planted not at all"""


def examine(
    case: Case,
    mode: Mode,
    results: Results,
    *,
    oracle: bool,
    fresh: bool = False,
) -> Outcome:
    """Run what has not been run (or, ``fresh``, all of it), and keep it. A case that fails has an
    outcome that says so."""
    begin = time.time()
    known = None if fresh else results.load(case, mode, False)
    outcome = known or Outcome(
        id=case.id,
        mode=mode,
        made=_now(),
        options=case.arm(),
        job=oracle_key(case, mode),
        product=product(),
    )
    try:
        if known is None:
            outcome = _watched(outcome, case, results)
        if oracle and timed(case):
            gains = measured(case, mode, results, fresh=fresh)
            outcome = msgspec.structs.replace(outcome, gains=gains)
    except JobError as error:
        outcome = msgspec.structs.replace(outcome, error=str(error))
    except (WhyidleError, msgspec.MsgspecError, OSError) as error:
        outcome = msgspec.structs.replace(outcome, error=f"{type(error).__name__}: {error}")
    if outcome.error and not outcome.state:  # else what was watched is kept, only a timing failed
        outcome = _took(outcome, begin)
        results.save(case, outcome, b"")
    return outcome


def _watched(outcome: Outcome, case: Case, results: Results) -> Outcome:
    """What the product says of it, kept at once: timing its cures takes longer, and may fail."""
    begin = time.time()
    with _seen(case, outcome.mode) as (seen, recording):
        told = _took(_told(outcome, case, seen, recording), begin)
        results.save(case, told, seen.document)
    return told


def _took(outcome: Outcome, begin: float) -> Outcome:
    """With when it was, and for how long."""
    now = time.time()
    return msgspec.structs.replace(outcome, seconds=now - begin, span=(begin, now))


def _seen(case: Case, mode: Mode) -> AbstractContextManager[tuple[runs.Watched, Path]]:
    if mode == "recorded":
        return runs.explained(case)
    return runs.watched(case, case.arm(), mode)


def recorded(case: Case) -> dict[str, Gain]:
    """What the cured twin's recording shows."""
    steps = []
    for name in (case.recording, case.twin):
        text = runs.explain(runs.recording(name), case.budget.limit_s)
        steps.append(msgspec.json.decode(text, type=Diagnosis).steps.p50_s)
    sick, cured = steps
    if not sick or not cured:
        raise JobError("a recording shows no steps")
    return {"cured": Gain([(1 / sick, 1 / cured)])}


def measured(case: Case, mode: Mode, results: Results, *, fresh: bool = False) -> dict[str, Gain]:
    """What each cure brings. Kept: it is measured once for a script, its options and a machine."""
    gains = {} if fresh else results.gains(case, mode)
    if not gains:
        begin = time.time()
        gains = recorded(case) if case.recording else paired(case, mode)
        span = (begin, time.time())
        gains = {n: msgspec.structs.replace(gain, span=span) for n, gain in gains.items()}
        results.save_gains(case, mode, gains)
    return gains


def paired(case: Case, mode: Mode) -> dict[str, Gain]:
    """Pairs of runs, taken in turn and in turned order; more of them where there is little, one
    where there is much."""
    arms = {name: from_start(case, cured) for name, cured in case.arms().items()}
    rates: dict[str, list[float]] = {name: [] for name in arms}
    spent = dict.fromkeys(arms, 0.0)
    gains: dict[str, Gain] = {}
    wanted = list(arms)
    for number in range(max(case.budget.pairs, MOST_PAIRS)):
        for name in wanted if number % 2 == 0 else reversed(wanted):
            begin = launch.wall()
            rates[name].append(runs.alone(case, arms[name], mode).rate(case.measure))
            spent[name] += launch.wall() - begin
        gains = _gains(rates, spent)
        enough = 1 if clear(gains.values()) else case.budget.pairs
        if number + 1 >= enough and not doubtful(gains):
            break
        if settled(gains.values()) and all(map(steady, rates.values())):
            break
        wanted = ["sick", *(name for name, gain in gains.items() if gain.ratio < CLEAR)]
    return gains


def _gains(rates: dict[str, list[float]], spent: dict[str, float]) -> dict[str, Gain]:
    sick, own = rates["sick"], {**spent, "cured": spent["sick"] + spent["cured"]}
    return {
        name: Gain(list(zip(sick, found, strict=False)), own[name])  # of what is clear: fewer
        for name, found in rates.items()
        if name != "sick"
    }


def clear(gains: Iterable[Gain]) -> bool:
    """Whether every cure brings so much that one pair tells of it."""
    return all(gain.ratio >= CLEAR for gain in gains)


def doubtful(gains: Mapping[str, Gain]) -> bool:
    """Whether the gain of the cure is so small that more pairs must tell whether there is one, or
    a part of it seems to do harm."""
    return gains["cured"].ratio < NEAR or any(gain.ratio < 1.0 for gain in gains.values())


def settled(gains: Iterable[Gain]) -> bool:
    """Whether the pairs of every cure agree."""
    ratios = [gain.ratios for gain in gains]
    return all(len(own) > 1 and max(own) - min(own) <= SETTLED for own in ratios)


def steady(rates: list[float]) -> bool:
    """Whether all runs of one arm went at the same pace."""
    return max(rates) <= STEADY * min(rates)


def from_start(case: Case, cured: frozenset[int]) -> Options:
    """What falls ill later is ill from the start where only its cure is timed."""
    options = case.arm(cured)
    return {**options, case.onset: 0.0} if case.onset else options


def _told(outcome: Outcome, case: Case, seen: runs.Watched, recording: Path) -> Outcome:
    """From the document and the recording to what is scored."""
    found = msgspec.json.decode(seen.document, type=Diagnosis)
    times = seen.times
    return msgspec.structs.replace(
        outcome,
        state=found.verdict.state,
        bound=found.verdict.bound,
        device=found.device.kind,
        steps=found.steps.count,
        named=[named(finding) for finding in found.findings],
        evidence=_evidence(found, recording),
        watched_rate=times.rate(case.measure) if times else None,
        overhead_ratio=found.coverage.overhead_ratio,
        truth=truth.shares(seen.truths, times) if times else None,
    )


def named(finding: Finding) -> Named:
    """What is scored of a finding."""
    predicted = {
        one.fix: (one.predicted.speedup, one.predicted.low, one.predicted.high)
        for one in finding.fixes
        if one.predicted
    }
    return Named(
        cause=finding.cause,
        family=finding.family,
        bucket=finding.bucket,
        severity=finding.severity,
        lost=finding.lost.high,
        predicted=predicted,
    )


def _evidence(found: Diagnosis, recording: Path) -> Evidence:
    """What the rules of others would be given of the same run."""
    timelines = read_recording(recording) if recording.is_dir() else []
    pid = timelines[0].process.pid if timelines else None
    settings = read_document(recording / f"{pid}.facts.json")
    kept = ("switches", "optimizer", "gpus", "saves", "ddp", "environment")
    loading = read_document(recording / f"{pid}.loaders.json")
    memory, used = found.device.memory_bytes, found.utilization.memory_peak_bytes
    return Evidence(
        attribution=msgspec.structs.asdict(found.attribution),
        reasons={reason.reason: reason.share for reason in found.detail.reasons},
        device=found.device.kind,
        cores=float(loading.get("cores") or 0.0),
        loaders=[_plain(one) for one in loading.get("settings", [])],
        settings={name: settings[name] for name in kept if name in settings},
        memory_share=used / memory if memory and used is not None else None,
    )


def _plain(one: dict[str, object]) -> dict[str, object]:
    return {name: one.get(name) for name in ("workers", "pinned", "persistent", "batch_size")}


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
