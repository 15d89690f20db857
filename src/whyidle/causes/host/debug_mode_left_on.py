"""A debugging mode slows every step down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.kernel_launches import replay_of
from whyidle.causes.host import _debugging
from whyidle.causes.host._modes import SWITCHED
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostEvents

BLOCKING = 0.9
"""share of kernels that end before their launch call returns; 0 to 1 % in ordinary recordings"""
LEAST_KERNELS = 20
CHECKED = 0.5
"""share of backward nodes followed by a search for NaN, from which on anomaly mode is proven"""


@cause(
    "A debugging mode is on",
    bucket="host",
    needs=("device_events", "host_ops", "runtime_calls", "launch_links"),
    watched=("device_time", "own_settings", "steady_steps"),
    direct=True,
)
def debug_mode_left_on(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``CUDA_LAUNCH_BLOCKING=1`` makes every launch wait for its kernel; autograd's anomaly mode
    searches the result of every backward node for NaN and reads the answer back.

    Why it costs
    ------------
    CPU and GPU take turns, kernel by kernel, instead of working at the same time.

    How it is detected
    ------------------
    Blocking launches: at least 90 % of the kernels end before the call that launched them
    returns. Anomaly mode: at least half of the backward nodes hold an ``aten::isnan`` whose
    result is read back. The gain is the replay of the recorded steps without these waits (P3).

    A watched process whose device is the CPU tells by itself whether anomaly mode, a profiler of
    PyTorch, a tracer or profiler of Python, or deterministic algorithms are on, and which line
    asked for it. The gain is a class figure on its work, and at least what stack samples show of
    the mode's own code: anomaly mode made jobs 1.1 to 3 times slower in reports, and took 1.3 to
    1.85 times what samples show of it on five networks (PyTorch 2.13, CPU), as it also searches
    every gradient. A trial tells it exactly. A profiler that is on for some steps only is no mode
    left on.

    Whatever the device, a watched process tells of ``PYTHONMALLOC=debug``, ``PYTHONDEVMODE``,
    ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` and ``torch.cuda.set_sync_debug_mode``. What these cost
    depends on how many objects, exchanges and waits there are, so they are remarks, and no gain is
    promised: loops that make Python objects took 1.5 times as long with the first two, operators
    1.0 to 1.08 times.

    What looks alike
    ----------------
    Ordinary ``.item()`` calls are ``per-step-host-sync``. A device that always keeps up is
    ``launch-bound-small-kernels``: there launch calls return before the kernel starts. Other debug
    modes leave no trace in a recording and are not judged.

    What to do
    ----------
    Turn the mode off; look for NaN in the loss every k-th step instead.

    References
    ----------
    PyTorch, "CUDA semantics, asynchronous execution"; Lightning-AI/pytorch-lightning#17359 (2.5x)
    and #12344 (3x) for anomaly mode.
    """
    if facts.on_cpu:
        return _debugging.debug_mode(facts)
    if len(facts.launching.kernels) < LEAST_KERNELS:
        return _debugging.debug_mode(facts, SWITCHED)
    checks, waits = _nan_checks(facts)
    if facts.launching.blocking_share >= BLOCKING:
        mode, waits = "CUDA_LAUNCH_BLOCKING", facts.launching.calls
        headline = "Every launch waits for its kernel, as with CUDA_LAUNCH_BLOCKING=1"
        replay = replay_of(facts, waits)
    elif len(checks):
        mode, replay = "anomaly_mode", facts.replay
        headline = "Autograd's anomaly mode searches every gradient for NaN"
    else:
        return _debugging.debug_mode(facts, SWITCHED)
    gain = max(0.0, 1.0 - replay.replayed_length(without=waits) / replay.base_ns)
    gains = (0.7 * gain, gain, min(0.99, gain + 0.1 * (1.0 - gain)))
    kernels = len(facts.launching.kernels)
    return Proof(
        headline=headline,
        low=gains[0],
        high=gain,
        predicted=from_gains(gains, "P3: recorded steps replayed without the waits"),
        evidence=(
            make_evidence(
                "kernels that end before their launch call returns",
                facts.launching.blocking_share,
                "ratio",
                samples=kernels,
                source="runtime",
            ),
            make_evidence(
                "searches for NaN in the backward pass, per step",
                len(checks) / facts.step_count,
                None,
                samples=len(checks),
                source="operators",
            ),
        ),
        confidence=0.9,
        facts=HostFacts(mode=mode),
    )


def _nan_checks(facts: Facts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Searches for NaN in backward nodes, and the waits of these nodes; empty where too few nodes
    are searched."""
    host, waits = facts.timeline.host, facts.waits.rows
    nodes = facts.rows_of(Role.BACKWARD_NODE)
    found = facts.rows_of(Role.NAN_CHECK)
    if not len(nodes):
        return found[:0], waits[:0]
    checks, waits = (_within(host, nodes, rows) for rows in (found, waits))
    searched = np.unique(np.searchsorted(host.start[nodes], host.start[checks], side="right"))
    if not len(checks) or len(searched) < CHECKED * len(nodes):
        return checks[:0], waits[:0]
    return checks, waits


def _within(
    host: HostEvents, nodes: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rows that begin within one of these nodes."""
    index = np.searchsorted(host.start[nodes], host.start[rows], side="right") - 1
    return rows[(index >= 0) & (host.start[rows] < host.end[nodes[np.maximum(index, 0)]])]
