"""What telemetry can be read here, as each source itself says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from whyidle.engine.recording.monitor import live_sources
from whyidle.model.machine import Check, Topic
from whyidle.model.telemetry import Absent, Source, Target, split_key

_NAMED = 4
"""missing signals that are named; further ones are counted"""


def check_sources(
    root: Path,
    environ: Mapping[str, str],
    *,
    gpu: bool,
    sources: Mapping[str, Source] | None = None,
) -> list[Check]:
    """One check per source that reads this machine, and one per reason for which some of its
    signals are not to be had.

    Args:
        root: where the file system begins.
        environ: the environment variables, which decide what GPUs a job sees.
        gpu: whether there is a GPU; without one nothing of it is missing.
        sources: by name; None: all that read a live machine.
    """
    target = Target(environ=environ, root=root)
    read = live_sources() if sources is None else sources
    wanted = {name: source for name, source in read.items() if gpu or not _of_gpus(source)}
    return [check for name, source in wanted.items() for check in _checks(name, source, target)]


def _of_gpus(source: Source) -> bool:
    return all(meter.subject.startswith("gpu") for meter in source.SIGNALS)


def _checks(name: str, source: Source, target: Target) -> list[Check]:
    topic: Topic = "gpu" if _of_gpus(source) else "host"
    told = source.probe(target)
    title = f"telemetry of {name}"
    if isinstance(told, Absent):
        check = Check(
            topic=topic,
            name=title,
            state="gap",
            found=told.reason,
            means="whyidle run reads none of it",
            close=told.how,
        )
        return [check]
    reasons: dict[Absent, list[str]] = {}
    for key, why in told.missing.items():
        reasons.setdefault(why, []).append(split_key(key)[0])
    gone = {signal for signals in reasons.values() for signal in signals}
    offered = len(source.SIGNALS)
    found = f"{offered - len(gone)} of {offered} signals, every {source.PERIOD_S:g} s"
    return [
        Check(topic=topic, name=title, state="ok", found=found),
        *(_signal_gap(topic, why, signals) for why, signals in reasons.items()),
    ]


def _signal_gap(topic: Topic, why: Absent, signals: list[str]) -> Check:
    """Signals that lack for one reason: a gap where something can be done about it."""
    names = list(dict.fromkeys(signals))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return Check(
        topic=topic,
        name="not read",
        state="gap" if why.how else "note",
        found=f"{', '.join(names[:_NAMED])}{more}: {why.reason}",
        means="causes that need them say so, and do not judge" if why.how else "",
        close=why.how,
    )
