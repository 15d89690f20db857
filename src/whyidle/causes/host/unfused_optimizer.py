"""The optimizer updates parameters one by one, or with one kernel per operator."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import F64
from whyidle.analysis.device.optimizer_work import FUSED, TRAFFIC, OptimizerWork
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import from_gains
from whyidle.analysis.steps.step_replay import combine_changes
from whyidle.causes.host._cpu_jobs import optimizer_loop
from whyidle.model.buckets import Bucket
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

REMAINING = {"loop": (0.5, 0.2, 0.05), "foreach": (0.9, 0.6, 0.25)}
"""share of the host's time in the optimizer that stays (low, expected, high gain). The launches of
a loop shrink by the number of parameters; foreach keeps grouping them"""
LATENCY_S = 2e-6
"""time of an empty kernel; the upper bound assumes that few fused kernels pay it"""


@cause(
    "The optimizer updates one parameter or operator at a time",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links", "steps"),
    watched=("device_time", "own_settings", "steady_steps"),
)
def unfused_optimizer(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The optimizer launches several kernels for every parameter (a Python loop, ``foreach=False``),
    or one per operator over all parameters (``foreach=True``). One fused kernel is enough.

    Why it costs
    ------------
    The GPU waits for the launches. Every operator reads and writes all parameters and states again,
    which is two to three times the memory traffic of a fused update.

    How it is detected
    ------------------
    Trace: regions ``Optimizer.step#...`` contain no ``_fused_`` operators. The cost is the exposed
    launching time in these regions, and at least the expected gain. The recorded steps are replayed
    with less host time there and with shorter kernels. Kernel times shrink by the ratio of memory
    traffic (Adam: 7 tensor passes instead of 18). Kernels also start once instead of many times (a
    start takes at most as long as the shortest recorded kernel). If kernels are most of the gain,
    the cost counts as compute.

    Watched job on the CPU: the process reports its optimizer's class, number of tensors and
    options. The time of the optimizer's calls is compared with that of a fused update, which
    depends on its bytes, tensors, parameter groups and the call itself, scaled to the speed of this
    machine. What a trainer does in the step's closure (norms, clipping, logs) does not count. A
    loop also evicts other data from the core's cache, which the upper bound includes.

    What looks alike
    ----------------
    Fused optimizers (Apex, ``fused=True``, compiled), and those without a fused or foreach form in
    PyTorch, are not reported. Tiny kernels elsewhere are ``launch-bound-small-kernels``.

    What to do
    ----------
    Pass ``fused=True``, or else ``foreach=True``. The gain is small if the optimizer is a small
    part of the step: in one report, cutting it from 22 to 8 ms saved 3 % of the run.

    References
    ----------
    PyTorch, ``torch.optim`` ("foreach" and "fused" implementations); deepmodeling/deepmd-kit#4463;
    pytorch/pytorch#95415.
    """
    if facts.on_cpu:
        return optimizer_loop(facts)
    work = facts.optimizer
    if work is None or not work.is_replaceable:
        return None
    exposed = facts.kernel_launching.exposed_share(facts.kernel_launching.optimizer)
    device = float(facts.durations_s(work.kernels).sum()) / max(facts.scope_s, 1e-9)
    gains = _fusion_gains(facts, work)
    if gains[2] < LEAST_SHARE:
        return None
    lost = max(exposed, gains[1])
    unit = "parameter" if work.implementation == "loop" else "operator"
    place = facts.places.place_of(int(facts.rows_of(Role.OPTIMIZER)[0]))
    return Proof(
        headline=f"{work.name} updates one {unit} at a time: {work.launches_per_step:.0f} launches "
        "per optimizer step",
        low=min(gains[0], lost),
        high=lost,
        predicted=from_gains(gains, "P4 and P5: recorded steps replayed with a fused update"),
        evidence=_optimizer_evidence(work, exposed, device),
        confidence=0.9 if work.implementation == "loop" else 0.7,
        where=(place,) if place else (),
        facts=HostFacts(
            optimizer=work.name, implementation=work.implementation, noun=facts.device_noun
        ),
        bucket=_choose_bucket(facts, work),
    )


def _fusion_gains(facts: Facts, work: OptimizerWork) -> tuple[float, float, float]:
    """Share of the step saved: low, expected, high. The low one includes the cost of recording. The
    high one compares steps without it, as does the expected one if the cost was measured."""
    launching, replay = facts.kernel_launching, facts.replay
    scales = (0.0, 1.0 if launching.is_cost_measured else 0.0, 1.0)
    ratios, gains = _fused_time_ratios(facts, work), []
    for part, ratio, scale in zip(REMAINING[work.implementation], ratios, scales, strict=True):
        factor = np.ones(len(facts.device))
        factor[work.kernels] = ratio
        present = replay.replayed_length(launching.without_recording(scale))
        rest = launching.without_recording(scale, launching.optimizer)
        saved = combine_changes(replay.reduce_host_time(launching.optimizer, 1.0 - part), rest)
        length = replay.replayed_length(saved, factor=factor, fewer=True)
        gains.append(max(0.0, 1.0 - length / present))
    low, middle, high = sorted(gains)
    return low, middle, high


def _fused_time_ratios(facts: Facts, work: OptimizerWork) -> tuple[F64, F64, F64]:
    """Time of the fused kernels relative to the present ones (low, expected, high gain). One launch
    pays the start of a kernel once, which takes at most as long as the shortest kernel."""
    fused = TRAFFIC.get(work.name, 1.0) if work.name in FUSED else 1.0
    took = np.maximum(facts.durations_s(work.kernels), 1e-9)
    starts = np.minimum(float(facts.durations_s(facts.kernels).min(initial=np.inf)), took)
    likely = (
        starts / max(work.launches_per_step, 1.0) + (1.0 + fused) / 2 * (took - starts)
    ) / took
    best = fused * np.maximum(took - LATENCY_S, 0.0) / took
    return np.ones_like(took), likely, np.minimum(best, likely)


def _choose_bucket(facts: Facts, work: OptimizerWork) -> Bucket:
    """Where most of the gain lies: in the launches or in the kernels."""
    launching, replay = facts.kernel_launching, facts.replay
    scale = 1.0 if launching.is_cost_measured else 0.0
    factor = np.ones(len(facts.device))
    factor[work.kernels] = _fused_time_ratios(facts, work)[1]
    saved = replay.reduce_host_time(launching.optimizer, 1.0 - REMAINING[work.implementation][1])
    rest = launching.without_recording(scale, launching.optimizer)
    host = replay.replayed_length(combine_changes(saved, rest))
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
        make_evidence(quantity, value, unit, samples=samples, source=source)
        for quantity, value, unit, samples, source in listed
    )
