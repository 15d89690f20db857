"""Checks which telemetry can be read on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whyidle.model.live.telemetry import Absent, Source, Target, split_key
from whyidle.model.machine import Check, Topic
from whyidle.record.monitor import live_sources

_NAMED = 4  # missing signals named individually, at most


def check_sources(
    root: Path,
    environ: Mapping[str, str],
    *,
    gpu: bool,
    sources: Mapping[str, Source] | None = None,
) -> list[Check]:
    """Check each live source (or those of ``sources``), with one further check per reason for
    missing signals. ``environ`` selects the GPUs of a job; without ``gpu`` their sources are
    skipped."""
    target = Target(environ=environ, root=root)
    read = live_sources() if sources is None else sources
    wanted = {name: source for name, source in read.items() if gpu or not _of_gpus(source)}
    return [check for name, source in wanted.items() for check in _checks(name, source, target)]


def _of_gpus(source: Source) -> bool:
    return all(meter.subject.startswith("gpu") for meter in source.SIGNALS)


def _checks(name: str, source: Source, target: Target) -> list[Check]:
    topic: Topic = "gpu" if _of_gpus(source) else "host"
    availability = source.probe(target)
    title = f"telemetry of {name}"
    if isinstance(availability, Absent):
        check = Check(
            topic=topic,
            name=title,
            state="gap",
            found=availability.reason,
            means="whyidle run does not record it",
            close=availability.how,
        )
        return [check]
    reasons: dict[Absent, list[str]] = {}
    for key, why in availability.missing.items():
        reasons.setdefault(why, []).append(split_key(key)[0])
    gone = {signal for signals in reasons.values() for signal in signals}
    offered = len(source.SIGNALS)
    found = f"{offered - len(gone)} of {offered} signals, every {source.PERIOD_S:g} s"
    return [
        Check(topic=topic, name=title, state="ok", found=found),
        *(_signal_gap(topic, why, signals) for why, signals in reasons.items()),
    ]


def _signal_gap(topic: Topic, why: Absent, signals: list[str]) -> Check:
    names = list(dict.fromkeys(signals))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return Check(
        topic=topic,
        name="not read",
        state="gap" if why.how else "note",
        found=f"{', '.join(names[:_NAMED])}{more}: {why.reason}",
        means="checks that need them are skipped" if why.how else "",
        close=why.how,
    )
