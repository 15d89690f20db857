"""Raise the batch."""

from __future__ import annotations

from whyidle.fixes._values import around
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts, HostFacts

LARGE = 8192
"""samples of a step, of all ranks, from which on a scaled learning rate may no longer do: ImageNet
in an hour held its accuracy up to there and lost it beyond (Goyal et al. 2017), and from there on
layer-wise rates are proven, LARS with SGD (You et al., Large Batch Training of Convolutional
Networks, 2017), LAMB with Adam (You et al., Training BERT in 76 minutes, ICLR 2020)"""


@fix("batch-too-small", "launch-bound-small-kernels", consent="convergence")
def larger_batch(proof: Proof) -> Proposal | None:
    """More samples per step, with a learning rate that goes with them: as many times as large for
    SGD, by the square root for Adam; larger batches still want warm-up, and those of 8,192 samples
    and more over all ranks layer-wise rates: LARS (You et al. 2017) or LAMB (You et al. 2020).
    Another global batch may learn differently: beyond the gradient noise scale, the variance of
    single gradients over their mean's square, more samples teach little more. Applied at run time,
    and only with consent, loaders that shuffle get larger batches; which size is fastest is tried,
    by samples per second, and it is kept only where after the same time of training the loss is no
    higher. Declines where batches are the script's own or an epoch would have few left. The plan
    without it is the job as it was."""
    larger = proof.get_facts(HostFacts).larger
    if larger is None and isinstance(proof.facts, HostFacts):
        return None
    device = proof.get_facts(DeviceFacts)
    times = device.times or (4 if larger else 2)
    target = f"a batch {times} times as large"
    if device.batch:
        target = f"batch_size={device.batch * times}"
    among = around(times, 2, device.most_times)
    return Proposal(
        summary=f"DataLoader(..., {target}), with the learning rate scaled to it: linearly for "
        "SGD with warm-up, by the square root for Adam",
        edits=(
            Edit(knob="loader.batch_size_times", value=times, was=1, among=among),
            Edit(knob="optimizer.scale_learning_rate", value=True, was=False),
        ),
        predicted=larger,
        risk="memory grows with the batch; generalisation and learning rate may need care; the "
        f"input pipeline must deliver more samples per second{_layerwise(device, times)}",
    )


def _layerwise(device: DeviceFacts, times: int) -> str:
    """What batches want that are known to become so large; empty for others."""
    samples = (device.batch or 0) * times * device.ranks
    if samples < LARGE:
        return ""
    return (
        f"; of {samples:,} samples a step, over all ranks, a scaled learning rate may not do: LARS "
        "(You et al. 2017) was made for that in place of SGD, LAMB (You et al. 2020) of Adam"
    )
