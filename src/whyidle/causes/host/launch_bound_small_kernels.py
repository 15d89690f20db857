"""The host cannot launch kernels as fast as the device runs them."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.device.kernel_launches import RECORDING
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import bound_larger_batch, predict_larger_batch
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.steps.forecast import from_gains
from whyidle.analysis.steps.step_replay import combine_changes
from whyidle.model.cause import BLOCKING, LEAST_SHARE, MOSTLY, Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

MOST_REMOVED = 0.5
"""lower bound: half of the time between launches stays, because compilers cannot remove code that
depends on data, and every graph break leaves Python behind"""
SLOW_LAUNCH = 2.0
"""lower bound: a launch takes twice as long as recorded"""
LARGER = 4.0
"""batch factor of the additional prediction for a larger batch"""


@cause(
    "The CPU launches kernels more slowly than the GPU runs them",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links"),
)
def launch_bound_small_kernels(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The GPU runs each kernel faster than the CPU launches the next one: Python, the dispatcher and
    the launch itself take longer than the kernel.

    Why it costs
    ------------
    The launch queue is empty, so the GPU is idle between kernels, and the CPU's launches determine
    the step time. A faster GPU or a smaller model changes nothing. A larger batch is nearly free.

    How it is detected
    ------------------
    The cost is the time in which the device is idle while the host prepares the next launch, less
    the cost of recording. The recorded steps are replayed with the time between launches reduced to
    the launches alone (P4: ``T^ = max(G', launches x time per launch)``). The lower bound keeps
    half of this time, the upper bound one launch per step.

    What looks alike
    ----------------
    Short kernels behind a full queue cost nothing. An optimizer that loops over parameters is
    ``unfused-optimizer``, long Python ``python-overhead-in-step``, idle time after a wait
    ``per-step-host-sync``, launches that wait for their kernels ``debug-mode-left-on``, operators
    that compute on the CPU ``cpu-tensor-work``, and waits between CUDA graphs
    ``gaps-between-graphs``. Recordings with missing events are not judged.

    What to do
    ----------
    Launch fewer, larger kernels: use a larger batch, ``torch.compile``, CUDA graphs for constant
    shapes, or fused and foreach operators.

    References
    ----------
    PyTorch, Performance Tuning Guide; "Accelerating PyTorch with CUDA Graphs" (2021); Holistic
    Trace Analysis, CUDA kernel launch statistics (launches usually take 5 to 20 us).
    """
    launching = facts.kernel_launching
    if not len(launching.calls) or launching.is_sampled or launching.blocking_share >= BLOCKING:
        return None
    if facts.graph_share > MOSTLY:
        return None
    dispatch = launching.dispatch_time - facts.optimizer_loop - facts.cpu_work[1]
    exposed = launching.exposed_share(dispatch)
    if exposed < LEAST_SHARE:
        return None
    gains = _launch_gains(facts, dispatch, exposed)
    lost = max(exposed - _recording_share(facts), gains[1])
    if gains[1] <= 0.0:
        return None
    return Proof(
        headline=f"The GPU waits {format_duration(exposed * facts.step_s)} per step while the CPU "
        f"launches {launching.per_step:.0f} kernels",
        low=min(gains[0], lost),
        high=lost,
        predicted=from_gains(gains, "P4: recorded steps replayed with fewer, shorter launches"),
        evidence=_launch_evidence(facts, exposed),
        confidence=0.9 if launching.starved_share > 0.5 else 0.7,
        facts=HostFacts(launches=launching.per_step, larger=_predict_larger_batch(facts)),
    )


def _predict_larger_batch(facts: Facts) -> Predicted | None:
    """Samples per second with a larger batch in the same launches; None during start-up, which a
    larger batch does not shorten."""
    if facts.cold_start:
        return None
    batch = predict_larger_batch(facts, LARGER) or bound_larger_batch(facts, LARGER)
    return batch.predict_gain()


def _launch_gains(facts: Facts, dispatch: Intervals, exposed: float) -> tuple[float, float, float]:
    """Share of the step saved with less time between launches (low, expected, high), compared with
    the step without the cost of recording. Only the high one may exceed its part of the exposed
    time, because shorter waits of the host belong to other causes."""
    launching, replay = facts.kernel_launching, facts.replay
    launches = len(launching.calls) * launching.call_s / max(dispatch.total / 1e9, 1e-9)
    removed = (
        min(MOST_REMOVED, 1.0 - SLOW_LAUNCH * launches),
        1.0 - launches,
        1.0 - launches / max(launching.per_step, 1.0),
    )
    gains = []
    for raw, scale in zip(removed, RECORDING[::-1], strict=True):
        ratio = min(max(raw, 0.0), 1.0)
        present = replay.replayed_length(launching.without_recording(scale))
        rest = launching.without_recording(scale * (1.0 - ratio))
        saved = combine_changes(replay.reduce_host_time(dispatch, ratio), rest)
        gains.append((max(0.0, 1.0 - replay.replayed_length(saved) / present), exposed * ratio))
    (low, most), (middle, share), (high, _) = gains
    middle = min(middle, share)
    return min(low, most, middle), middle, max(high, middle)


def _recording_share(facts: Facts) -> float:
    """The cost of recording as a share of the step."""
    replay = facts.replay
    alone = replay.replayed_length(facts.kernel_launching.without_recording(RECORDING[1]))
    return 1.0 - alone / max(replay.base_ns, 1.0)


def _launch_evidence(facts: Facts, exposed: float) -> tuple[Evidence, ...]:
    launching = facts.kernel_launching
    kernel_s = float(np.median(facts.durations_s(facts.kernels)))
    listed = (
        ("median kernel", kernel_s, "s", len(facts.kernels), "device"),
        ("launches per step", launching.per_step, None, facts.step_count, "runtime"),
        ("median delay from launch to start", launching.delay_s, "s", len(launching.kernels),
         "device"),
        ("launches that found the queue empty", launching.starved_share, "ratio",
         len(launching.calls), "device"),
        ("device waiting for launches, share of step", exposed, "ratio", facts.step_count,
         "attribution"),
        ("cost of recording, share of step", facts.profiler_share, "ratio", None, "estimate"),
    )  # fmt: skip
    return tuple(
        make_evidence(quantity, value, unit, samples=samples, source=source)
        for quantity, value, unit, samples, source in listed
    )
