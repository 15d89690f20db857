"""Tensors are turned around for every convolution."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.causes.device import _kernel_savings
from whyidle.model.cause import Proof, cause
from whyidle.model.proof_facts import DeviceFacts

LEFT = (0.5, 0.15, 0.0)
"""share of the conversions that stays with channels-last tensors (edges of the model, operators
without such a kernel): careful, expected, hopeful"""
LEFT_ROCM = (1.0, 0.75, 0.0)
"""the same on ROCm, where the library takes channels-last tensors only with
``PYTORCH_MIOPEN_SUGGEST_NHWC=1``, and may lose in batch normalisation"""


@cause(
    "Convolutions convert the layout of their tensors", bucket="compute", needs=("device_events",)
)
def wrong_memory_format(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Images are stored channel by channel (NCHW), but the fast convolution kernels want the channels
    last (NHWC), so the library turns every tensor before and after each of them.

    Why it costs
    ------------
    A conversion moves all bytes of a tensor twice and computes nothing.

    How it is detected
    ------------------
    Kernels that convert layouts (``nchwToNhwc``, ``batched_transpose``) run beside convolutions,
    and, where operators are recorded, convolutions launched them. Their time is what is lost; that
    convolutions themselves may run faster is not counted.

    What looks alike
    ----------------
    Transposes that the model asks for (``permute().contiguous()``) are copies, not conversions.
    Convolutions in FP32 without tensor cores need no conversion, and gain little.

    What to do
    ----------
    ``model.to(memory_format=torch.channels_last)``, and the same for the input batch.

    References
    ----------
    PyTorch tutorials, "Channels Last Memory Format in PyTorch".
    """
    rows = facts.kernels[facts.group[facts.kernels] == "layout"]
    convolutions = facts.kernels[facts.group[facts.kernels] == "convolution"]
    if not len(rows) or not len(convolutions):
        return None
    launchers = _kernel_savings.launcher_names(facts, rows)
    rows = rows[np.array([not name or "conv" in name or "Conv" in name for name in launchers])]
    if not len(rows):
        return None
    share = _kernel_savings.busy_share(facts, rows)
    factors = _kernel_savings.unit_factors(facts)
    _kernel_savings.scale_times(
        factors, rows, LEFT_ROCM if facts.timeline.info.kind == "rocm" else LEFT
    )
    return _kernel_savings.make_proof(
        facts,
        rows,
        factors,
        headline=f"{share:.0%} of the busy time converts tensor layouts around convolutions",
        method="P5: conversions removed, replayed against the recorded launches",
        evidence=(
            _kernel_savings.share_evidence("layout conversions, share of busy time", share, rows),
            _kernel_savings.share_evidence(
                "convolutions, share of busy time",
                _kernel_savings.busy_share(facts, convolutions),
                convolutions,
            ),
        ),
        confidence=0.8 if facts.timeline.info.kind == "cuda" else 0.6,
        told=DeviceFacts(rocm=facts.timeline.info.kind == "rocm"),
    )
