"""Convolutions convert the memory layout of their tensors."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.causes.device import _kernel_savings as savings
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import DeviceFacts

REMAINING = (0.5, 0.15, 0.0)
"""share of the conversions that stays with channels-last tensors (edges of the model, operators
without such a kernel): low, expected, high gain"""
REMAINING_ROCM = (1.0, 0.75, 0.0)
"""the same on ROCm, where the library accepts channels-last tensors only with
``PYTORCH_MIOPEN_SUGGEST_NHWC=1``, and batch normalisation may become slower"""


@cause(
    "Convolutions convert the layout of their tensors", bucket="compute", needs=("device_events",)
)
def wrong_memory_format(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Tensors are stored channels first (NCHW), but the fast convolution kernels need channels last
    (NHWC), so the library converts them around each convolution.

    Why it costs
    ------------
    A conversion reads and writes the whole tensor and computes nothing.

    How it is detected
    ------------------
    Convolutions launch kernels that convert layouts (``nchwToNhwc``, ``batched_transpose``). The
    prediction removes 50 to 100 % of their time (expected: 85 %, P5; on ROCm, 0 to 100 %, expected:
    25 %). A possible speed-up of the convolutions is not included.

    What looks alike
    ----------------
    Transposes in the model (``permute().contiguous()``) are copies, not conversions. FP32
    convolutions without tensor cores need no conversion and gain little.

    What to do
    ----------
    Call ``model.to(memory_format=torch.channels_last)``, and convert the input batch the same way.

    References
    ----------
    PyTorch tutorials, "Channels Last Memory Format in PyTorch".
    """
    rows = facts.kernels[facts.group[facts.kernels] == "layout"]
    convolutions = facts.kernels[facts.group[facts.kernels] == "convolution"]
    if not len(rows) or not len(convolutions):
        return None
    names, operators = facts.timeline.host.name, facts.launching_op[rows]
    launchers = [facts.timeline.names[names[op]] if op >= 0 else "conv" for op in operators]
    rows = rows[np.array(["conv" in name or "Conv" in name for name in launchers])]
    if not len(rows):
        return None
    share, kind = savings.busy_share(facts, rows), facts.timeline.info.kind
    useful = savings.busy_share(facts, convolutions)
    return savings.make_proof(
        facts,
        rows,
        savings.scale_kernels(facts, (rows, REMAINING_ROCM if kind == "rocm" else REMAINING)),
        headline=f"{share:.0%} of the busy time converts tensor layouts around convolutions",
        method="P5: conversions removed, replayed against the recorded launches",
        evidence=(
            savings.share_evidence("layout conversions, share of busy time", share, rows),
            savings.share_evidence("convolutions, share of busy time", useful, convolutions),
        ),
        confidence=0.8 if kind == "cuda" else 0.6,
        fix_facts=DeviceFacts(rocm=kind == "rocm"),
    )
