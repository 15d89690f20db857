"""The host cannot launch kernels as fast as the device runs them."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.batch_size import bound_larger_batch, predict_larger_batch
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.kernel_launches import RECORDING
from whyidle.analysis.step_replay import combine_changes
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

LEAST_SHARE = 0.01
"""share of the step below which exposed launching is not worth a word"""
BLOCKING = 0.9
"""with this share of launches that wait for their kernel, waiting is the cause, not launching"""
MOST_REMOVED = 0.5
"""the careful prediction leaves half of the time between launches: a compiler cannot remove code
that depends on data, and every graph break leaves Python behind"""
LATE = 2.0
"""the careful prediction takes launches twice as long as the recorded ones"""

LARGER = 4.0
"""so many times as large is the batch that is predicted beside it"""


@cause(
    "The CPU launches kernels more slowly than the GPU runs them",
    bucket="host",
    needs=("device_events", "host_ops", "launch_links"),
)
def launch_bound_small_kernels(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The GPU runs each kernel faster than the CPU needs to get the next one out: Python, the
    dispatcher and the launch itself take longer than the work that they start.

    Why it costs
    ------------
    The queue of launched work is empty, so the GPU idles between kernels, and the step takes as
    long as the CPU needs to launch it. A faster GPU or a smaller model changes nothing; a larger
    batch is nearly free.

    How it is detected
    ------------------
    Device-idle time in which the host was on its way from one launch to the next, less what the
    recording itself cost there. The recorded steps are then replayed with the time between
    launches cut down to launching alone (P4: ``T^ = max(G', launches x time per launch)``):
    carefully to half, hopefully to one launch per step. The median kernel, the launches per step,
    the delay from launch to start and the share of launches that find the queue empty stand as
    evidence.

    What looks alike
    ----------------
    Short kernels behind a full queue cost nothing here. A loop over parameters in the optimizer
    is ``unfused-optimizer``; long stretches of Python are ``python-overhead-in-step``; refills
    after a wait are ``per-step-host-sync``; launches that wait for their kernels are
    ``debug-mode-left-on``. A recording that misses events is not judged: its gaps may be full.

    What to do
    ----------
    Launch fewer, larger kernels: a larger batch, ``torch.compile``, CUDA graphs where shapes
    never change, fused or foreach operators.

    References
    ----------
    PyTorch, Performance Tuning Guide; "Accelerating PyTorch with CUDA Graphs" (2021); Holistic
    Trace Analysis, CUDA kernel launch statistics (launches usually take 5 to 20 us).
    """
    launching = facts.launching
    if not len(launching.calls) or launching.is_sampled or launching.blocking_share >= BLOCKING:
        return None
    dispatch = launching.dispatch_time - facts.optimizer_loop
    exposed = launching.exposed_share(dispatch)
    if exposed < LEAST_SHARE:
        return None
    gains = _launch_gains(facts, dispatch, exposed)
    lost = max(exposed - _recording_share(facts), gains[1])
    if gains[1] <= 0.0:
        return None
    kernel_s = float(np.median(facts.durations_s(facts.kernels)))
    return Proof(
        headline=f"The CPU needs {format_duration(exposed * facts.step_s)} per step to launch "
        f"{launching.per_step:.0f} kernels that the GPU was waiting for",
        low=min(gains[0], lost),
        high=lost,
        predicted=from_gains(gains, "P4: recorded steps replayed with fewer, shorter launches"),
        evidence=_launch_evidence(facts, kernel_s, exposed),
        confidence=0.9 if launching.starved_share > 0.5 else 0.7,
        facts=HostFacts(launches=launching.per_step, larger=_predict_larger_batch(facts)),
    )


def _predict_larger_batch(facts: Facts) -> Predicted | None:
    """Samples per second with a larger batch in as many launches; None of a start, which more
    samples do not shorten."""
    if facts.cold_start:
        return None
    found = predict_larger_batch(facts, LARGER) or bound_larger_batch(facts, LARGER)
    return Predicted(
        speedup=found.relative_throughput(found.step_s),
        low=found.relative_throughput(found.worst_s),
        high=found.relative_throughput(found.best_s),
        method=f"P6 from one size: samples per second at {LARGER:.3g} times the batch",
    )


def _launch_gains(facts: Facts, dispatch: Intervals, exposed: float) -> tuple[float, float, float]:
    """What removing time between launches gains, as share of the step: careful, expected, hopeful;
    each against the step without the recording's own cost. Only the hopeful one may exceed its
    part of the exposed time: what else the host then waits less for belongs to other causes."""
    launching, replay = facts.launching, facts.replay
    spent = max(dispatch.total / 1e9, 1e-9)
    launched = len(launching.calls) * launching.call_s / spent
    removed = (
        min(MOST_REMOVED, 1.0 - LATE * launched),
        1.0 - launched,
        1.0 - launched / max(launching.per_step, 1.0),
    )
    gains = []
    for raw, scale in zip(removed, RECORDING[::-1], strict=True):
        ratio = min(max(raw, 0.0), 1.0)
        now = replay.replayed_length(launching.without_recording(scale))
        rest = launching.without_recording(scale * (1.0 - ratio))
        then = replay.replayed_length(
            combine_changes(replay.reduce_host_time(dispatch, ratio), rest)
        )
        gains.append((max(0.0, 1.0 - then / now), exposed * ratio))
    (low, most), (middle, share), (high, _) = gains
    middle = min(middle, share)
    return min(low, most, middle), middle, max(high, middle)


def _recording_share(facts: Facts) -> float:
    """The share of the step that is the recording's own cost."""
    replay = facts.replay
    alone = replay.replayed_length(facts.launching.without_recording(RECORDING[1]))
    return 1.0 - alone / max(replay.base_ns, 1.0)


def _launch_evidence(facts: Facts, kernel_s: float, exposed: float) -> tuple[Evidence, ...]:
    launching = facts.launching
    listed = (
        ("median kernel", kernel_s, "s", len(facts.kernels), "device"),
        ("launches per step", launching.per_step, None, facts.step_count, "runtime"),
        ("median delay from launch to start", launching.delay_s, "s", len(launching.kernels),
         "device"),
        ("launches that found the queue empty", launching.starved_share, "ratio",
         len(launching.calls), "device"),
        ("device idle for want of launches, share of step", exposed, "ratio", facts.step_count,
         "attribution"),
        ("cost of recording, share of step", facts.profiler_share, "ratio", None, "estimate"),
    )  # fmt: skip
    return tuple(
        Evidence(
            quantity=quantity, value=value, unit=unit, window="steps in scope", samples=samples,
            source=source,
        )
        for quantity, value, unit, samples, source in listed
    )  # fmt: skip
