"""Predicts the step of a recorded job on other numbers of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from whyidle.analysis.arrays import F64
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import usable_cores
from whyidle.analysis.ranks import rank_scaling as model
from whyidle.diagnosis.job_starts import jobs_of
from whyidle.errors import InputError
from whyidle.model.diagnosis import Interval
from whyidle.model.documents.rank_scaling import Bottleneck, Link, Needed, RankScaling, ScalePoint
from whyidle.record.recording_diagnosis import read_recording

LOOK: Final = "ranks"
"""the look that records what is needed here"""
LEAST_STEPS: Final = 10
TARGET: Final = 0.9
"""the efficiency that counts as nearly linear"""
LATE: Final = 1.05
"""a rank whose own work takes this many times the others' is named"""
GIVEN_SPREAD: Final = 0.34
"""error of a link's nominal bandwidth: measured collectives were 34 % slower than theory (Zhu et
al., "Daydream", USENIX ATC 2020)"""
WITHIN: Final = (("NVLink", 300e9, 5e-6), ("PCIe 4", 24e9, 10e-6))
BETWEEN: Final = (("200 Gbit/s", 25e9, 15e-6), ("25 Gbit/s", 3.1e9, 40e-6))
"""scenarios of unknown links: bytes/s in a direction, and s of a message (NVIDIA, A100 data sheet;
PCI-SIG, 4.0; the latency of NCCL's and of TCP's transports)"""
NEAR, FAR = 8, 64
"""multiples of the measured ranks beyond which intervals widen with each doubling, and beyond which
a prediction is only a bound"""


@dataclass(frozen=True, slots=True)
class Question:
    """What to predict: numbers of ranks, ranks on each node (None: as many as this machine has
    cards, or all on one), and links that the user states."""

    ranks: Sequence[int]
    per_node: int | None = None
    within: Link | None = None
    between: Link | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What the look recorded of one job."""

    rows: list[F64]
    """of each rank: steps, as ``model.own_steps`` takes them"""
    sizes: list[int]
    link: Link | None
    caps: tuple[int, int]
    notes: list[str]


class _Look(msgspec.Struct, forbid_unknown_fields=False):
    """``PID.ranks.json``, see ``whyidle.probe.frameworks.torch.looks.rank_look``."""

    bytes: list[int] = []  # msgspec copies it
    steps: list[list[int]] = []
    device: bool = False
    world: int = 1
    backend: str = ""
    bucket_bytes: int | None = None
    link: list[tuple[int, list[float]]] = []
    no_link: str | None = None


def predict_scaling(recording: Path, run: str, asked: Question) -> RankScaling:
    """Predict a recorded job on other numbers of ranks.

    Raises:
        InputError: the recording holds no measured steps of a PyTorch job.
    """
    jobs = jobs_of(read_recording(recording))
    facts = [Facts(timeline) for timeline in jobs[0].ranks] if jobs else []
    seen = _read_looks(recording, facts)
    buckets = model.pack_buckets(seen.sizes, np.concatenate(seen.rows)[:, 2:], *seen.caps)
    sizes = np.array([sum(seen.sizes[i] for i in bucket) for bucket in buckets], np.float64)
    steps = model.own_steps(seen.rows, buckets)
    world = len(seen.rows)
    core_s, cores = _core_use(facts[0], world)
    gpus = len(facts[0].telemetry.gpus) if facts[0].telemetry else 0
    cards = max(gpus, world) if gpus or world > 1 else None
    job = _Job(
        steps=steps,
        sizes=sizes,
        world=world,
        within=asked.within or seen.link,
        between=asked.between,
        per_node=asked.per_node or cards,
        core_s=core_s,
        cores=cores,
        measured_s=float(np.mean([rank[:, 0].mean() for rank in seen.rows])),
    )
    return RankScaling(
        run=run,
        command=list(_command_of(recording)),
        measured_ranks=world,
        per_node=job.per_node or max(asked.ranks),
        steps=steps.stride,
        own_s=float(steps.own.mean()),
        own_spread_s=float(steps.own.std()),
        correlation=steps.correlation if world > 1 else None,
        residual_s=job.residual_s,
        buckets=[int(size) for size in sizes],
        within=job.within,
        between=asked.between,
        core_s=job.core_s,
        cores=job.cores,
        points=[job.predict(ranks, link) for ranks in asked.ranks for link in job.links_of(ranks)],
        notes=[*seen.notes, *job.notes()],
    )


def _read_looks(recording: Path, facts: Sequence[Facts]) -> Measured:
    looks = [
        _read_look(recording / f"{Path(f.timeline.source.path).stem}.ranks.json") for f in facts
    ]
    known = [look for look in looks if look is not None and len(look.steps) >= LEAST_STEPS]
    if not any(looks):
        raise InputError(
            "The command does not train with PyTorch.",
            why="No PyTorch optimizer took a step while it ran; only PyTorch can be measured.",
            hint="Pass your training command, for example: whyidle scale --to 2,4 python train.py",
        )
    if not known or len(known) < len(looks):
        least = min((len(look.steps) if look else 0 for look in looks), default=0)
        raise InputError(
            "Too few steps were measured for a prediction.",
            why=f"{least} complete steps of a rank were measured, {LEAST_STEPS} are needed. Only "
            "PyTorch's optimizers and backward passes are measured.",
            hint="Let the job run for 80 steps: whyidle scale --to 2,4 python train.py",
        )
    first = known[0]
    if any(look.bytes != first.bytes for look in known):
        raise InputError(
            "The ranks train different models.",
            why="Their parameters differ in number or size.",
            hint="Only ranks that each train the whole model can be predicted.",
        )
    rows = [_complete_rows(look.steps) for look in known]
    notes = [f"the link was not measured: {first.no_link}"] if first.no_link else []
    left_out = sum(len(look.steps) for look in known) - sum(len(rank) for rank in rows)
    if left_out:
        notes.append(f"{left_out} steps without a gradient of every parameter are left out")
    cap = first.bucket_bytes
    caps = (model.FIRST_BUCKET, model.BUCKET) if cap in (None, model.BUCKET) else (cap, cap)
    return Measured(rows, first.bytes, _fit_link(known), caps, notes)


def _read_look(path: Path) -> _Look | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Look)
    except (OSError, msgspec.DecodeError):
        return None


def _complete_rows(steps: list[list[int]]) -> F64:
    """Steps in which the most common set of gradients was ready, s."""
    table = np.array(steps, np.float64) / 1e9
    ready = (table[:, 2:] >= 0).sum(axis=1)
    table = table[ready == np.bincount(ready).argmax()]
    table[:, 2:] = np.maximum(table[:, 2:], 0.0)
    return table


def _fit_link(looks: Sequence[_Look]) -> Link | None:
    """Of each exchange, the shortest over the ranks: the others waited for somebody."""
    if any(len(look.link) != len(looks[0].link) for look in looks) or not looks[0].link:
        return None
    rows = [
        (size, _quartile_time([look.link[i][1] for look in looks]))
        for i, (size, _) in enumerate(looks[0].link)
    ]
    return model.fit_link(rows, len(looks))


def _quartile_time(times: Sequence[Sequence[float]]) -> float:
    """The lower quartile of the rounds: a busy host only delays them."""
    return float(np.percentile(np.min(times, axis=0), 25))


def _core_use(facts: Facts, world: int) -> tuple[float | None, float | None]:
    """CPU time of a rank with its loaders per step, s, and the cores of this host."""
    outside = facts.telemetry
    used = outside.summed_rate("job_cpu_user_s", "job_cpu_system_s") if outside else None
    return (None if used is None else used * facts.step_s / world), usable_cores(facts)


def _command_of(recording: Path) -> Sequence[str]:
    try:
        ended: Mapping[str, Any] = msgspec.json.decode((recording / "ended.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return []
    return ended.get("command") or []


@dataclass(frozen=True)
class _Job:
    """One measured job, and what is known of its links. ``core_s``: see ``_core_use``."""

    steps: model.OwnSteps
    sizes: F64
    world: int
    within: Link | None
    between: Link | None
    per_node: int | None
    core_s: float | None
    cores: float | None
    measured_s: float

    @cached_property
    def residual_s(self) -> float | None:
        """What the measured step took beyond the model; None of one rank, or without a link."""
        if self.world < 2 or self.within is None:
            return None
        seen = model.simulate_step(self.steps, self.sizes, self.within, self.world)
        return self.measured_s - seen.step

    def links_of(self, ranks: int) -> list[Link | None]:
        """The link that limits an exchange of ``ranks`` ranks, or scenarios where it is unknown."""
        if ranks < 2:
            return [None]
        inside = self.per_node is None or ranks <= self.per_node
        if (link := self.within if inside else self.between) is not None:
            return [link]
        usual = [*(WITHIN if inside else ()), *(BETWEEN if not self.per_node or not inside else ())]
        return [
            Link(latency_s=latency, bytes_per_s=speed, spread=GIVEN_SPREAD, source="assumed",
                 name=name)
            for name, speed, latency in usual
        ]  # fmt: skip

    def predict(self, ranks: int, link: Link | None) -> ScalePoint:
        """Predict the job on ``ranks`` ranks."""
        nodes = -(-ranks // (self.per_node or ranks))
        fast_link, slow_link = link.bounds() if link is not None else (None, None)
        together = replace(self.steps, correlation=1.0) if self.world == 1 else self.steps
        seen = model.simulate_step(self.steps, self.sizes, link, ranks)
        fast = model.simulate_step(together, self.sizes, fast_link, ranks)
        slow = model.simulate_step(self.steps, self.sizes, slow_link, ranks, ring=True)
        rest = (self.residual_s or 0.0) if ranks > 1 else 0.0
        floor = self._cores_floor(min(ranks, self.per_node or self.world))
        step = max(seen.step + rest, floor)
        error = 2.0 * seen.error + abs(rest)
        beyond = 1.0 + max(float(np.log2(ranks / (NEAR * self.world))), 0.0)
        low = max(step - beyond * (step - min(fast.step + rest, step) + error), seen.own)
        high = step + beyond * (max(slow.step + rest, step) - step + error)
        parts: dict[Bottleneck, float] = {
            "exchange": max(seen.step + rest - seen.slowest, 0.0),
            "late ranks": seen.slowest - seen.own,
            "host cores": floor - seen.step - rest,
        }
        worst = max(parts, key=lambda name: parts[name])
        limit = worst if parts[worst] > (1 - TARGET) * step / 2 else "computation"
        bound = ranks > FAR * self.world
        efficiency = seen.own / step
        return ScalePoint(
            ranks=ranks,
            nodes=nodes,
            step_s=step,
            interval=None if bound else Interval(low=low, high=high),
            efficiency=efficiency,
            exchange=min(parts["exchange"] / step, 1.0),
            late=min(parts["late ranks"] / step, 1.0),
            bottleneck=limit,
            needed=self._find_needed(ranks, link, limit) if efficiency < TARGET else None,
            measured_s=self.measured_s if ranks == self.world else None,
            scenario=link.name if link else "",
            bound=bound,
        )

    def _cores_floor(self, ranks: int) -> float:
        """The shortest step in which a host's cores do the work of ``ranks`` ranks, s."""
        return (self.core_s or 0.0) * ranks / self.cores if self.cores else 0.0

    def _find_needed(self, ranks: int, link: Link | None, limit: Bottleneck) -> Needed:
        longest = float(self.steps.own.mean()) / TARGET
        if limit == "host cores" or link is None:
            work = (self.core_s or 0.0) * min(ranks, self.per_node or self.world)
            cores = math.ceil(work / longest)
            return Needed(target=TARGET, bytes_per_s=None, batch_times=None, cores=cores)
        return Needed(
            target=TARGET,
            bytes_per_s=model.needed_bandwidth(self.steps, self.sizes, link, ranks, longest),
            batch_times=model.needed_batch(self.steps, self.sizes, link, ranks, TARGET),
        )

    def notes(self) -> list[str]:
        """What the reader must know of these numbers."""
        means = self.steps.own.reshape(self.world, -1).mean(axis=1)
        notes = ["every rank keeps its batch: the global batch grows with the ranks"]
        slowest = int(means.argmax())
        others = float(np.median(np.delete(means, slowest))) if self.world > 1 else 0.0
        if others and means[slowest] > LATE * others:
            times = means[slowest] / others
            notes.append(
                f"rank {slowest} always takes {times:.2f}× as long as the others: predictions mix "
                "its steps with theirs; whyidle report names why"
            )
        if self.world == 1:
            notes.append("one rank was measured: how much ranks differ in the same step is unknown")
        return notes
