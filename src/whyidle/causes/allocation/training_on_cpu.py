"""The model runs on the CPU although a GPU is available."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.arrays import I64
from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.integer_codes import is_among, used_codes
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.sampled_lines import lines_with_share
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import Proof, cause
from whyidle.model.process_facts import ProcessFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

METHOD = "class figure: operators 2 to 20 times faster on a GPU"
LEAST_SHARE = 0.10
"""least share of the step in operators that exist on the CPU only"""
LONG_NS = 10_000_000
"""a matrix product that only launches a kernel takes about 10 us; with a full queue, as long as one
kernel, which is rarely more than 1 ms"""


@cause(
    "The model runs on the CPU although a GPU is available",
    bucket="unknown",
    needs=("gpu_model", "host_ops"),
    watched=("own_settings", "gpus_beside", "steps"),
    direct=True,
)
def training_on_cpu(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A GPU is available, but the operators run on the CPU.

    Why it costs
    ------------
    A GPU from the last ten years multiplies matrices between several and a hundred times faster.

    How it is detected
    ------------------
    Trace: a device is listed, but there is no work on it and no launch call. At least a tenth of
    the step is in operators that exist only on the CPU (oneDNN convolutions, CPU attention), or in
    matrix products and convolutions that all take at least 10 ms, far longer than a launch. Watched
    job: the process reports the device of its parameters, and the driver or NVML reports the GPUs
    of the host. The gain is a rough estimate: 50 to 95 % of the time in operators.

    What looks alike
    ----------------
    A recording without ``ProfilerActivity.CUDA`` has no device work either. It has no CPU-only
    operators, so nothing is reported. Data loading on the CPU does not use such operators.

    What to do
    ----------
    Move the model and the batches to the device. Check ``CUDA_VISIBLE_DEVICES``, and that the
    installed PyTorch is built for the GPU.

    References
    ----------
    Gao et al., ICSE 2024 (481 minutes on the CPU because of an empty variable).
    """
    if len(facts.device) or len(facts.timeline.rows_of(Role.LAUNCH_CALL)):
        return None
    if "own_settings" in facts.signals:
        return _prove_from_facts(facts)
    host = facts.timeline.host
    rows = np.union1d(facts.rows_of(Role.CPU_KERNEL), _long_products(facts))
    share = facts.share_of(union_of(host.start[rows], host.end[rows]))
    if share < LEAST_SHARE:
        return None
    ops = facts.ops[0]
    work = facts.share_of(union_of(host.start[ops], host.end[ops]))
    place = facts.places.place_of(int(rows[0]))
    return Proof(
        headline=f"The work runs on the CPU while {facts.timeline.info.name} is idle",
        predicted=predict_removal(0.5 * work, 0.95 * work, METHOD),
        evidence=(
            make_evidence("operators that compute on the CPU", share, "ratio", source="ops"),
            make_evidence("time in operators", work, "ratio", source="ops"),
            make_evidence("device events", 0, None, source="kernels"),
        ),
        confidence=0.8,
        where=(place,) if place else (),
    )


def _long_products(facts: Facts) -> I64:
    """Matrix products and convolutions (host rows) of which each call is too long for a launch."""
    host, operator = facts.timeline.host, facts.timeline.operator
    rows = facts.host.innermost_rows((HostKind.OP,))
    rows = rows[facts.host_scope.contains_times(host.start[rows])]
    names = [name for name in used_codes(host.name[rows]) if operator(int(name)).work is not None]
    rows = rows[is_among(host.name[rows], names)]
    shortest = np.full(len(facts.timeline.names), np.iinfo(np.int64).max)
    np.minimum.at(shortest, host.name[rows], host.end[rows] - host.start[rows])
    rows = rows[shortest[host.name[rows]] >= LONG_NS]
    return rows if len(rows[2:]) else rows[:0]  # the first may load a library


def _prove_from_facts(facts: Facts) -> Proof | None:
    """Prove it from a watched process's own report that its parameters are on the CPU."""
    process, work = facts.timeline.process, facts.bucket_share("compute")
    gpus = max(len(process.gpus), len(facts.telemetry.gpus) if facts.telemetry else 0)
    if process.device != "cpu" or not facts.on_cpu or not gpus or work < LEAST_SHARE:
        return None
    lines = lines_with_share(facts, facts.time_of("compute"), HostKind.OP)
    return Proof(
        headline=f"The model trains on the CPU although the host has {gpus} "
        f"GPU{'s' if gpus > 1 else ''}: {_explain_device_choice(process)}",
        predicted=predict_removal(0.5 * work, 0.95 * work, METHOD),
        evidence=(
            make_evidence("GPUs of the host", gpus, None, source="driver, NVML"),
            make_evidence("device of the parameters", "cpu", None, source="optimizer"),
            make_evidence("time in operators", work, "ratio", source="samples"),
        ),
        confidence=0.8,
        where=tuple(place for place, _ in lines[:1]),
        bucket="compute",
    )


def _explain_device_choice(process: ProcessFacts) -> str:
    visible = process.environment.get("CUDA_VISIBLE_DEVICES")
    if process.cuda_built == "":
        return "this PyTorch is built without CUDA"
    if visible is not None and visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides them"
    return "the script does not move the model to them"
