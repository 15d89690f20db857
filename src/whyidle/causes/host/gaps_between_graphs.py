"""The device waits between CUDA graphs while the host prepares the next one."""

from __future__ import annotations

from collections import Counter

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.buckets import Bucket
from whyidle.model.cause import LEAST_SHARE, MOSTLY, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.timeline import HostKind

BUCKETS: tuple[Bucket, ...] = ("host", "sync", "transfer")
"""buckets of the time between graphs: preparing inputs, reading results, copying"""
HIDDEN = (0.3, 0.8, 1.0)
"""share of the preparation that a host one step ahead hides (lower bound, expected, upper bound);
what depends on the sampled tokens stays"""


@cause("The GPU waits between CUDA graphs", bucket="host", needs=("device_events", "launch_links"))
def gaps_between_graphs(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The step is a CUDA graph, launched with one call. Between two graphs, the CPU reads results,
    schedules, and prepares the next inputs, while the GPU waits.

    Why it costs
    ------------
    In decoding, a graph takes a few milliseconds, and the CPU's work delays every token.

    How it is detected
    ------------------
    More than half of the kernel time is in CUDA graphs. The cost is the GPU's idle time between
    graphs while the host works, reads a result or copies. If the host works one step ahead, 80 % of
    it is expected to be hidden, with bounds of 30 and 100 % (P3).

    What looks alike
    ----------------
    Without graphs, the CPU launches each kernel: ``launch-bound-small-kernels``. When a server has
    no requests, it waits longer than between two graphs.

    What to do
    ----------
    Prepare the next step while the present one runs: ``--async-scheduling`` in vLLM, the overlap
    scheduler in SGLang (on unless ``--disable-overlap-schedule``) and TensorRT-LLM. Keep inputs in
    static buffers that small kernels update inside the graph. Decode more requests at once.

    References
    ----------
    PyTorch, "Accelerating PyTorch with CUDA Graphs" (2021); SGLang v0.4, "Zero-overhead batch
    scheduler" (2024).
    """
    if facts.graph_share <= MOSTLY or facts.cold_start:
        return None
    gaps = (facts.time_of(*BUCKETS) & facts.idle) - _running_graphs(facts)
    exposed = facts.share_of(gaps)
    if exposed < LEAST_SHARE:
        return None
    shares = [facts.share_of(facts.time_of(bucket) & gaps) for bucket in BUCKETS]
    careful, expected, hopeful = (part * exposed for part in HIDDEN)
    doing = _host_work(facts, gaps)
    decodes = facts.kind is not None and facts.kind.kind == "decode"
    step = "decoding step" if decodes else "graph"
    per_step = format_duration(exposed * facts.step_s)
    return Proof(
        headline=f"The {facts.device_noun} waits {per_step} per step between CUDA graphs while the "
        f"CPU prepares the next {step}",
        low=careful,
        high=exposed,
        predicted=predict_removal(
            careful, hopeful, "P3: the next step is prepared during the present one", expected
        ),
        evidence=(
            make_evidence("device idle between graphs, share of step", exposed, "ratio"),
            make_evidence("share of kernel time in graphs", facts.graph_share, "ratio"),
            make_evidence("the host meanwhile", ", ".join(doing), None, source="operators"),
        ),
        confidence=0.8,
        bucket=BUCKETS[int(np.argmax(shares))],
        facts=HostFacts(
            operators=tuple(doing), engine=(facts.kind and facts.kind.engine) or "", decodes=decodes
        ),
    )


def _running_graphs(facts: Facts) -> Intervals:
    """The time from the first to the last kernel of each graph, including gaps."""
    rows = np.flatnonzero(facts.in_graph)
    calls, first, index = np.unique(
        facts.launches.call[rows], return_index=True, return_inverse=True
    )
    ends = np.zeros(len(calls), dtype=np.int64)
    np.maximum.at(ends, index, facts.device.end[rows])
    return union_of(facts.device.start[rows[first]], ends)


def _host_work(facts: Facts, gaps: Intervals) -> list[str]:
    """Operators and calls of the host that take longest in the gaps."""
    host, spent = facts.timeline.host, Counter[str]()
    rows = facts.host.innermost_rows((HostKind.OP, HostKind.RUNTIME))
    rows = rows[gaps.contains_times(host.start[rows])]
    for row in rows:
        spent[facts.timeline.names[host.name[row]]] += int(host.end[row] - host.start[row])
    return [f"{name} {format_duration(ns / 1e9)}" for name, ns in spent.most_common(4)]
