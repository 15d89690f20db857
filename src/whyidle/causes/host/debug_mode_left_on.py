"""A debugging mode slows down every step."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.device.kernel_launches import replay_of
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host import _debug_modes
from whyidle.model.cause import BLOCKING, MOSTLY, Proof, cause
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents

LEAST_KERNELS = 20


@cause(
    "A debugging mode is on",
    bucket="host",
    needs=("device_events", "host_ops", "runtime_calls", "launch_links"),
    watched=("device_time", "own_settings", "steady_steps"),
    direct=True,
)
def debug_mode_left_on(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``CUDA_LAUNCH_BLOCKING=1`` makes every launch wait for its kernel. Autograd's anomaly mode
    searches the result of every backward node for NaN and reads the answer back.

    Why it costs
    ------------
    CPU and GPU take turns, kernel by kernel, instead of working at the same time.

    How it is detected
    ------------------
    Trace: with blocking launches, at least 90 % of the kernels end before their launch call
    returns. With anomaly mode, at least half of the backward nodes contain an ``aten::isnan``. The
    recorded steps are replayed without these waits (P3).

    Watched job on the CPU: the process reports whether anomaly mode, the PyTorch profiler, a Python
    tracer or profiler, or deterministic algorithms are on, and which line enabled them. The gain is
    a typical cost of the mode, and at least the stack samples in its own code. Anomaly mode costs
    these samples, the Python that records call stacks, and 10 to 65 % of the backward pass (six
    networks, PyTorch 2.13). A profiler that is on for some steps only does not count, unless its
    code still takes 1 % of the last third of the steps.

    ``run_eagerly`` and ``jax_disable_jit`` run a traced step operator by operator. The prediction
    keeps what the operators compute in a burst, and adds the cost of calling a compiled step. The
    figures of ``jax_check_tracer_leaks`` and ``jax_debug_nans`` are from small networks on a CPU.

    What looks alike
    ----------------
    Ordinary ``.item()`` calls are ``per-step-host-sync``. If launch calls return before the kernel
    starts, a device that catches up with its launches is ``launch-bound-small-kernels``. Other
    debugging modes leave no trace in a recording and are not judged.

    What to do
    ----------
    Switch the mode off. Check the loss for NaN every k-th step instead.

    References
    ----------
    PyTorch, "CUDA semantics, asynchronous execution"; Lightning-AI/pytorch-lightning#17359 (2.5x)
    and #12344 (3x) for anomaly mode.
    """
    if facts.on_cpu:
        return _debug_modes.debug_mode(facts)
    if len(facts.kernel_launching.kernels) < LEAST_KERNELS:
        return None
    checks, waits = _nan_checks(facts)
    if facts.kernel_launching.blocking_share >= BLOCKING:
        mode, waits = "CUDA_LAUNCH_BLOCKING", facts.kernel_launching.calls
        headline = "Every launch waits for its kernel, as with CUDA_LAUNCH_BLOCKING=1"
        replay = replay_of(facts, waits)
    elif len(checks):
        mode, replay = "anomaly_mode", facts.replay
        headline = "Autograd's anomaly mode searches every gradient for NaN"
    else:
        return None
    gain = max(0.0, 1.0 - replay.replayed_length(without=waits) / replay.base_ns)
    gains = (0.7 * gain, gain, min(0.99, gain + 0.1 * (1.0 - gain)))
    listed = (
        ("kernels that end before their launch call returns", facts.kernel_launching.blocking_share,
         "ratio", len(facts.kernel_launching.kernels), "runtime"),
        ("searches for NaN in the backward pass, per step", len(checks) / facts.step_count,
         None, len(checks), "operators"),
    )  # fmt: skip
    return Proof(
        headline=headline,
        low=gains[0],
        high=gain,
        predicted=from_gains(gains, "P3: recorded steps replayed without the waits"),
        evidence=tuple(
            make_evidence(quantity, value, unit, samples=samples, source=source)
            for quantity, value, unit, samples, source in listed
        ),
        confidence=0.9,
        facts=HostFacts(mode=mode),
    )


def _nan_checks(facts: Facts) -> tuple[I64, I64]:
    """Searches for NaN in backward nodes, and their waits; empty if too few nodes are searched."""
    host = facts.timeline.host
    nodes = facts.rows_of(Role.BACKWARD_NODE)
    checks = _rows_within(host, nodes, facts.rows_of(Role.NAN_CHECK))
    waits = _rows_within(host, nodes, facts.waits.rows)
    searched = np.unique(np.searchsorted(host.start[nodes], host.start[checks], side="right"))
    if not len(checks) or len(searched) < MOSTLY * len(nodes):
        return checks[:0], waits[:0]
    return checks, waits


def _rows_within(host: HostEvents, nodes: I64, rows: I64) -> I64:
    """The rows that begin within one of these nodes."""
    if not len(nodes):
        return rows[:0]
    index = np.searchsorted(host.start[nodes], host.start[rows], side="right") - 1
    return rows[(index >= 0) & (host.start[rows] < host.end[nodes[np.maximum(index, 0)]])]
