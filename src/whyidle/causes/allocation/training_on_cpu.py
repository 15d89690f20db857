"""There is a GPU, but the work runs on the CPU."""

from __future__ import annotations

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import remove
from whyidle.analysis.intervals import union
from whyidle.model.cause import Proof, cause
from whyidle.model.timeline import HostKind

CPU_ONLY = (
    r"mkldnn|onednn|_for_cpu\b|_nnpack|aten::_?slow_conv|aten::thnn_conv|"
    r"fbgemm|aten::quantized_.*_cpu"
)
"""operators that only exist on the CPU"""
LEAST_SHARE = 0.10
"""share of the step that must be seen inside such operators"""


@cause(
    "The model runs on the CPU although a GPU is there",
    bucket="unknown",
    needs=("gpu_model", "host_ops"),
)
def training_on_cpu(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    The recording lists a GPU, but no work was launched on it: the operators ran on the CPU.

    Why it costs
    ------------
    A GPU of the last ten years multiplies matrices several to a hundred times faster.

    How it is detected
    ------------------
    A device is listed, there is neither work on it nor a launch call, and at least a tenth of the
    step lies in operators that exist on the CPU only (oneDNN convolutions, CPU attention). The
    gain is a rough class figure: half to 95 % of the time in operators.

    What looks alike
    ----------------
    A recording without ``ProfilerActivity.CUDA`` has no device work either, but its operators are
    not CPU-only ones: then nothing is said. Data loading on the CPU uses no such operators.

    What to do
    ----------
    Move model and batches to the device; check ``CUDA_VISIBLE_DEVICES`` and that the installed
    PyTorch is built for the GPU.

    References
    ----------
    Gao et al., ICSE 2024 (481 minutes on the CPU because of an empty variable).
    """
    if len(facts.device) or len(facts.host.roles.rows("launch_call")):
        return None
    host = facts.timeline.host
    rows = facts.named(CPU_ONLY, HostKind.OP)
    share = facts.share_of(union(host.start[rows], host.end[rows]))
    if share < LEAST_SHARE:
        return None
    ops = facts.ops[0]
    work = facts.share_of(union(host.start[ops], host.end[ops]))
    return Proof(
        headline=f"The work runs on the CPU, and {facts.timeline.info.name} has nothing to do",
        low=0.5 * work,
        high=0.95 * work,
        predicted=remove(0.5 * work, 0.95 * work, "class of devices: operators 2 to 20 x faster"),
        evidence=(
            measured("time in operators that exist only on the CPU", share, "ratio", source="ops"),
            measured("time in operators", work, "ratio", source="ops"),
            measured("device events", 0, None, source="kernels"),
        ),
        confidence=0.8,
        where=tuple(place for place in [facts.places.of(int(rows[0]))] if place),
    )
