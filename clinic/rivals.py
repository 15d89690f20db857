"""Simple rules that people use instead, on the same evidence. Each names causes, best first.

They are given the product's own attribution and the settings that it recorded, which is more than
they would have in the wild.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from clinic.card import LATER
from clinic.outcome import Evidence, Outcome
from whyidle import catalog

ICSE_LOW, ICSE_FULL = 0.5, 0.8
"""utilization and memory of the rules in "An Empirical Study on Low GPU Utilization of Deep
Learning Jobs" (ICSE 2024)"""
DATA_WAIT = 0.10
LEAST_SELF = 0.05


class Guess(msgspec.Struct, frozen=True):
    """A cause that a doctor names, with what its removal would bring where it says so."""

    cause: str
    family: str
    bucket: str
    speedup: float | None = None


class Opinion(msgspec.Struct, frozen=True):
    """All that a doctor says of a job.

    Attributes:
        guesses: causes, the first one first.
        phase: the bucket that it points at without a cause; empty where it does not.
        applies_all: whether its advice is to do everything it names.
    """

    guesses: tuple[Guess, ...] = ()
    phase: str = ""
    applies_all: bool = False


Doctor = Callable[[Outcome], Opinion]


def product(outcome: Outcome) -> Opinion:
    """Findings that are more than a remark, in the document's order. Without one it points at the
    bucket it says the job is bound by, or else at the largest share outside ``compute``."""
    guesses = []
    for one in outcome.named:
        best = one.best()
        if one.severity != "info" or one.cause in LATER:
            guesses.append(Guess(one.cause, one.family, one.bucket, best[0] if best else None))
    shares = dict(outcome.evidence.attribution) if outcome.evidence else {}
    shares.pop("compute", None)
    phase = outcome.bound or max(shares, key=lambda bucket: shares[bucket], default="")
    return Opinion(tuple(guesses), phase if not guesses else "")


def nothing(_: Outcome) -> Opinion:
    """Does nothing, names nothing."""
    return Opinion()


def every_safe_fix(outcome: Outcome) -> Opinion:
    """A check-list in the usual order of repair: every setting that could be better is changed, as
    long as results stay the same, whatever time it takes now."""
    seen = outcome.evidence
    return Opinion(tuple(map(guess, _smells(seen))) if seen else (), applies_all=True)


def icse(outcome: Outcome) -> Opinion:
    """Utilization and memory both at most half: a larger batch. Memory over 80 %: save memory.
    Batches not pinned, on a device with memory of its own: pin them. Utilization is the share of
    useful work; unknown memory counts as little."""
    seen = outcome.evidence
    if seen is None:
        return Opinion()
    found = []
    memory = seen.memory_share or 0.0
    if seen.attribution["compute"] <= ICSE_LOW and memory <= ICSE_LOW:
        found.append(guess("batch-too-small"))
    if memory > ICSE_FULL:
        found.append(guess("memory-capacity-bound"))
    if seen.device != "cpu" and any(not one["pinned"] for one in seen.loaders):
        found.append(guess("pageable-h2d-copy"))
    return Opinion(tuple(found))


def data_wait(outcome: Outcome) -> Opinion:
    """Over 10 % of the time is spent waiting for data: more workers (any, where there are none)."""
    seen = outcome.evidence
    wait = _wait(seen) if seen else 0.0
    if seen is None or wait <= DATA_WAIT:
        return Opinion()
    return Opinion((guess(_workers(seen), 1 / max(1 - wait, 0.01)),))


def longest_self_time(outcome: Outcome) -> Opinion:
    """What takes longest outside the model's own work, from 5 % on, is the cause by its name."""
    seen = outcome.evidence
    if seen is None:
        return Opinion()
    named = {"loader": _workers(seen), "preprocess": _workers(seen), **_BY_NAME}
    shares = {reason: share for reason, share in seen.reasons.items() if reason in named}
    ranked = sorted(shares, key=lambda reason: -shares[reason])
    found = [
        guess(named[reason], 1 / max(1 - shares[reason], 0.01))
        for reason in ranked
        if shares[reason] >= LEAST_SELF
    ]
    return Opinion(tuple({one.cause: one for one in found}.values()))


_BY_NAME = {
    "checkpoint": "sync-checkpoint",
    "evaluation": "heavy-evaluation",
    "logging": "blocking-logging-upload",
    "blocked": "blocking-logging-upload",
    "gc": "python-gc-pauses",
    "compile": "recompilation-storm",
    "startup": "slow-startup",
    "after": "interactive-or-unreleased",
    "allocator": "allocator-thrash",
    "sync_refill": "per-step-host-sync",
    "launch": "launch-bound-small-kernels",
    "python": "python-overhead-in-step",
    "collective": "exposed-gradient-comm",
    "collective_call": "exposed-gradient-comm",
    "collective_wait": "exposed-gradient-comm",
    "copy": "pageable-h2d-copy",
    "copy_call": "pageable-h2d-copy",
    "copy_refill": "blocking-h2d-copy",
}

DOCTORS: dict[str, Doctor] = {
    "whyidle": product,
    "do nothing": nothing,
    "every safe fix": every_safe_fix,
    "ICSE rules": icse,
    "data wait over 10 %": data_wait,
    "longest self time": longest_self_time,
}


def guess(cause: str, speedup: float | None = None) -> Guess:
    """A cause of the catalogue as a guess."""
    known = catalog.load_causes()[cause]
    return Guess(cause, known.family, known.bucket, speedup)


def _wait(seen: Evidence) -> float:
    return seen.reasons.get("loader", 0.0) + seen.reasons.get("preprocess", 0.0)


def _workers(seen: Evidence) -> str:
    none = any(not one["workers"] for one in seen.loaders)
    return "dataloader-no-workers" if none else "dataloader-too-few-workers"


def _smells(seen: Evidence) -> Iterator[str]:
    """Causes whose usual setting is found, in the order of repair."""
    switches = _table(seen.settings.get("switches"))
    on_gpu = seen.device != "cpu"
    if seen.settings.get("gpus") and not on_gpu:
        yield "training-on-cpu"
    if switches.get("anomaly_mode") or _table(switches.get("seen")).get("anomaly_mode"):
        yield "debug-mode-left-on"
    yield from _loader_smells(seen, int(str(switches.get("num_threads") or 1)))
    if on_gpu and any(not one["pinned"] for one in seen.loaders):
        yield "pageable-h2d-copy"
    yield from _setting_smells(seen)
    if switches.get("gc_threshold") == [700, 10, 10]:
        yield "python-gc-pauses"


def _loader_smells(seen: Evidence, threads: int) -> Iterator[str]:
    workers = [int(str(one["workers"] or 0)) for one in seen.loaders]
    if 0 in workers:
        yield "dataloader-no-workers"
    if any(0 < number < seen.cores for number in workers):
        yield "dataloader-too-few-workers"
    if any(one["workers"] and not one["persistent"] for one in seen.loaders):
        yield "worker-restart-per-epoch"
    if max([threads, *workers]) > (seen.cores or threads):
        yield "cpu-oversubscription"


def _setting_smells(seen: Evidence) -> Iterator[str]:
    optimizer = _table(seen.settings.get("optimizer"))
    compiled = _table(seen.settings.get("compile"))
    smells = {
        "unfused-optimizer": optimizer and not optimizer.get("fused"),
        "graph-breaks": compiled.get("breaks"),
        "recompilation-storm": compiled.get("recompiles"),
        "ddp-config-overhead": seen.settings.get("ddp"),
        "sync-checkpoint": seen.settings.get("saves"),
    }
    yield from (cause for cause, there in smells.items() if there)


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
