"""The model's section of the document, from a look at the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from whyidle.analysis.facts import Facts
from whyidle.analysis.input.batch_size import backward_passes
from whyidle.model.architecture import Architecture, LayerRow, LayerSwap
from whyidle.model.model_look import ModelLook

MEASURED: Final = "measured"
BACKWARD: Final = 3
"""times the FLOPs and bytes of the forward pass that forward and backward together take"""
LEAST_PAIRS: Final = 4
IN_PLACE: Final = 0.05
"""share of a pass that is within the error of a swap in the live model: jobs that were really
changed differed from what was predicted by up to 6 % of their step"""
TITLES: Final = {
    "channels_last": "channels_last memory format for the whole model",
    "bfloat16": "bfloat16 autocast for the whole model",
}
NOTES: Final = (
    "pruning, quantisation and distillation are bounded by the layers that they remove: no more "
    "than their share of the step, and only where the device skips what is removed; unstructured "
    "zeros save no time in dense kernels",
)


def build_architecture(facts: Facts) -> Architecture | None:
    """Build the section; None without a look."""
    look = facts.timeline.process.model_look
    if look is None:
        return None
    steps = facts.steps.seconds
    step_s = float(np.median(steps)) if facts.steps.found_by and len(steps) else None
    return describe_look(look, step_s, backward_passes(facts) or 1)


def describe_look(look: ModelLook, step_s: float | None, passes: int) -> Architecture:
    """Build the section from a look.

    Args:
        look: what was recorded.
        step_s: the median steady step, s.
        passes: backward passes of a step.
    """
    pass_s = float(np.median(look.passes)) if look.passes else None
    layers = _list_layers(look)
    swaps = _list_swaps(look, step_s, passes)
    unknown = [] if look.state == MEASURED else [f"the step was not repeated: {look.state}"]
    return Architecture(
        batch=look.batch,
        pass_s=pass_s,
        step_s=step_s,
        passes=passes,
        peak_flops=look.peak_flops,
        peak_bytes=look.peak_bytes,
        layers=layers[:60],
        swaps=sorted(swaps, key=lambda swap: -(swap.change[0] if swap.change else 0.0)),
        notes=list(NOTES) if swaps else [],
        unknown=unknown,
    )


def _list_layers(look: ModelLook) -> list[LayerRow]:
    whole = sum(forward + backward for _, _, forward, backward, _, _ in look.calls) or 1.0
    rows = [
        LayerRow(
            name=look.modules[number][0],
            kind=look.modules[number][1],
            calls=calls,
            forward_s=forward,
            backward_s=backward,
            share=(forward + backward) / whole,
            flops=BACKWARD * flops or None,
            bytes=BACKWARD * moved,
            attained=_roofline_share(look, forward + backward, BACKWARD * flops, BACKWARD * moved),
        )
        for number, calls, forward, backward, flops, moved in look.calls
    ]
    return sorted(rows, key=lambda row: -row.share)


def _roofline_share(look: ModelLook, seconds: float, flops: float, moved: float) -> float | None:
    """The roofline's least time over the time taken (Williams et al., "Roofline", CACM 2009)."""
    if not look.peak_flops or not look.peak_bytes or seconds <= 0.0:
        return None
    return min(max(flops / look.peak_flops, moved / look.peak_bytes) / seconds, 1.0)


def _list_swaps(look: ModelLook, step_s: float | None, passes: int) -> list[LayerSwap]:
    found, share = [], _pass_share(look, step_s, passes)
    for swap in look.swaps:
        if swap.kind not in TITLES:  # of a recording by an earlier version
            continue
        step, change = _predict_step(swap.pairs, step_s, share)
        why = swap.failed and f"not applicable to this model: {swap.failed}"
        found.append(
            LayerSwap(
                kind=swap.kind,
                title=TITLES[swap.kind],
                keeps=swap.keeps,
                step_s=step,
                change=change,
                why=why or (None if change else "no difference beyond the noise"),
            )
        )
    return found


def _pass_share(look: ModelLook, step_s: float | None, passes: int) -> float:
    """Share of a step in its passes: as the job's own steps divide, or by the look's pass."""
    known = float(np.median(look.passes)) * passes if look.passes else 1.0
    return 1.0 - look.job_shares[1] if look.job_shares else min(known / (step_s or known), 1.0)


def _predict_step(
    pairs: Sequence[tuple[float, float]], step_s: float | None, share: float
) -> tuple[float | None, tuple[float, float] | None]:
    """The step with a swap, and how many times shorter it is: what the lower quartiles of both
    sides save, since what disturbs a pass makes it longer, as a share of the pass, since the job's
    own takes another time; between the quartiles of the pairs, widened by the error of the method.
    No interval where it contains 1."""
    if step_s is None or len(pairs) < LEAST_PAIRS:
        return None, None
    plain, changed = np.array(pairs).T
    middle = 1.0 - np.percentile(changed, 25) / np.percentile(plain, 25)
    low, high = np.percentile([*(1.0 - changed / plain), middle], (25, 75))
    low, high = low - IN_PLACE, high + IN_PLACE
    steps = [max(step_s * (1.0 - share * each), 0.01 * step_s) for each in (low, middle, high)]
    change = (float(step_s / steps[0]), float(step_s / steps[2]))
    if change[0] <= 1.0 <= change[1]:
        return float(steps[1]), None
    return float(steps[1]), change
