"""The optimizer updates parameters one by one, or operator by operator."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.optimizer_work import FUSED, TRAFFIC, OptimizerWork
from whyidle.analysis.step_replay import combine_changes
from whyidle.causes.host import _cpu_jobs as watched
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

F64 = NDArray[np.float64]

LEAST_GAIN = 0.01
"""share of the step below which a fused update is not worth a word"""
KEPT_HOST = {"loop": (0.5, 0.2, 0.05), "foreach": (0.9, 0.6, 0.25)}
"""what stays of the host's time in the optimizer (careful, expected, hopeful): a loop's launches
shrink by the number of parameters; foreach already groups them, and grouping itself stays"""

LATENCY_S = 2e-6
"""what even an empty kernel takes; at best the fused ones are so few that they pay it no more"""


@cause(
    "The optimizer's step is many small kernels",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links", "steps"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def unfused_optimizer(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The optimizer launches several kernels for every parameter (a Python loop, ``foreach=False``),
    or one per operator over all of them (``foreach=True``), where one fused kernel would do.

    Why it costs
    ------------
    The GPU waits for the launches; and every operator reads and writes all parameters and states
    again, so device memory traffic is two to three times what the update needs.

    How it is detected
    ------------------
    Regions ``Optimizer.step#...`` without ``_fused_`` operators. The implementation is told from
    the operators inside. Lost time is the exposed launching time in them, or what the replay wins
    where the device idles only later for the time that the host spent there. The gain is the replay
    of the recorded steps with that host time shrunk, and with the region's kernels shortened: by
    the ratio of memory traffic (Adam: 7 tensor passes instead of 18), and by the start that each
    launch takes, at most the recording's shortest kernel, which a fused one pays once. Where
    the kernels are most of the gain it lies in computing.

    A watched process tells its optimizer's class, number of tensors and switches; on a CPU a loop
    over many small tensors is the time of the optimizer's calls above what a fused one takes: its
    bytes, its tensors, and the call itself, which is most of it on a tiny model, all on a machine
    as slow as the loop shows it to be. While a loop runs the core's cache loses what the rest of
    the step uses: half of what refilling it takes at most is expected to be won, too.

    What looks alike
    ----------------
    An optimizer that already runs fused code (Apex, ``fused=True``, compiled) is left alone, and
    so is one for which PyTorch has no fused or foreach form. Tiny kernels elsewhere are
    ``launch-bound-small-kernels``.

    What to do
    ----------
    Pass ``fused=True``, else ``foreach=True``. Do not expect much where the optimizer is a small
    part of the step: 22 to 8 ms in the optimizer was 3 % end to end in one report.

    References
    ----------
    PyTorch, ``torch.optim`` ("foreach" and "fused" implementations); deepmodeling/deepmd-kit#4463;
    pytorch/pytorch#95415.
    """
    if facts.on_cpu:
        return watched.optimizer_loop(facts)
    work = facts.optimizer
    if work is None or not work.is_replaceable:
        return None
    exposed = facts.launching.exposed_share(facts.launching.optimizer)
    device = float(facts.durations_s(work.kernels).sum()) / max(facts.scope_s, 1e-9)
    gains = _fusion_gains(facts, work)
    if gains[2] < LEAST_GAIN:
        return None
    lost = max(exposed, gains[1])
    how = {"loop": "one parameter after the other", "foreach": "operator by operator"}
    return Proof(
        headline=f"{work.name} updates {how[work.implementation]}: "
        f"{work.launches_per_step:.0f} launches "
        "per optimizer step",
        low=min(gains[0], lost),
        high=lost,
        predicted=from_gains(gains, "P4 and P5: recorded steps replayed with a fused update"),
        evidence=_optimizer_evidence(work, exposed, device),
        confidence=0.9 if work.implementation == "loop" else 0.7,
        where=tuple(
            place
            for place in [facts.places.place_of(int(facts.rows_of(Role.OPTIMIZER)[0]))]
            if place
        ),
        facts=HostFacts(
            optimizer=work.name, implementation=work.implementation, noun=facts.device_noun
        ),
        bucket=_choose_bucket(facts, work),
    )


def _fusion_gains(facts: Facts, work: OptimizerWork) -> tuple[float, float, float]:
    """Share of the step won: careful, expected, hopeful. The careful one takes what the recording
    cost for the job's own; the hopeful one compares steps without it, and so does the expected
    one where that cost was measured."""
    launching, replay = facts.launching, facts.replay
    scales = (0.0, 1.0 if launching.is_cost_measured else 0.0, 1.0)
    gains = []
    for kept, ratio, scale in zip(
        KEPT_HOST[work.implementation], _fused_time_ratios(facts, work), scales, strict=True
    ):
        factor = np.ones(len(facts.device))
        factor[work.kernels] = ratio
        now = replay.replayed_length(launching.without_recording(scale))
        rest = launching.without_recording(scale, launching.optimizer)
        saved = combine_changes(replay.reduce_host_time(launching.optimizer, 1.0 - kept), rest)
        gains.append(max(0.0, 1.0 - replay.replayed_length(saved, factor=factor, fewer=True) / now))
    low, middle, high = sorted(gains)
    return low, middle, high


def _fused_time_ratios(facts: Facts, work: OptimizerWork) -> tuple[F64, F64, F64]:
    """Time fused per time now of the optimizer's kernels: careful, expected, hopeful. One launch
    pays once what each pays for its start, which is at most what the shortest kernel takes."""
    fused = TRAFFIC.get(work.name, 1.0) if work.name in FUSED else 1.0
    took = np.maximum(facts.durations_s(work.kernels), 1e-9)
    starts = np.minimum(float(facts.durations_s(facts.kernels).min(initial=np.inf)), took)
    likely = (
        starts / max(work.launches_per_step, 1.0) + (1.0 + fused) / 2 * (took - starts)
    ) / took
    best = fused * np.maximum(took - LATENCY_S, 0.0) / took
    return np.ones_like(took), likely, np.minimum(best, likely)


def _choose_bucket(facts: Facts, work: OptimizerWork) -> Bucket:
    """Where most of the gain lies: in launching, or in what the kernels take."""
    launching, replay = facts.launching, facts.replay
    scale = 1.0 if launching.is_cost_measured else 0.0
    factor = np.ones(len(facts.device))
    factor[work.kernels] = _fused_time_ratios(facts, work)[1]
    less = replay.reduce_host_time(launching.optimizer, 1.0 - KEPT_HOST[work.implementation][1])
    host = replay.replayed_length(
        combine_changes(less, launching.without_recording(scale, launching.optimizer))
    )
    device = replay.replayed_length(launching.without_recording(scale), factor=factor, fewer=True)
    return "host" if host <= device else "compute"


def _optimizer_evidence(work: OptimizerWork, exposed: float, device: float) -> tuple[Evidence, ...]:
    listed = (
        ("implementation", work.implementation, None, work.regions, "operators"),
        ("launches per optimizer step", work.launches_per_step, None, work.regions, "runtime"),
        ("device idle in the optimizer, share of step", exposed, "ratio", work.regions,
         "attribution"),
        ("optimizer kernels, share of step", device, "ratio", len(work.kernels), "device"),
    )  # fmt: skip
    return tuple(
        Evidence(
            quantity=quantity, value=value, unit=unit, window="steps in scope", samples=samples,
            source=source,
        )
        for quantity, value, unit, samples, source in listed
    )  # fmt: skip
