"""Use a larger batch."""

from __future__ import annotations

from whyidle.fixes._values import nearby_values
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import DeviceFacts, HostFacts

LARGE = 8192
"""samples per step over all ranks from which scaling the learning rate may no longer be enough:
ImageNet in an hour held its accuracy up to there (Goyal et al. 2017); larger batches were trained
with layer-wise rates, LARS with SGD (You et al., Large Batch Training of Convolutional Networks,
2017) and LAMB with Adam (You et al., Training BERT in 76 minutes, ICLR 2020)"""


@fix("batch-too-small", "launch-bound-small-kernels", consent="convergence")
def larger_batch(proof: Proof) -> Proposal | None:
    """More samples per step, with a scaled learning rate: linearly for SGD, by the square root for
    Adam. Larger batches also need warm-up; from 8,192 samples over all ranks, layer-wise rates:
    LARS (You et al. 2017) or LAMB (You et al. 2020). A larger global batch may learn differently:
    beyond the gradient noise scale, the variance of single gradients over their squared mean, more
    samples teach little more."""
    larger = proof.get_facts(HostFacts).larger
    if larger is None and isinstance(proof.facts, HostFacts):
        return None
    device = proof.get_facts(DeviceFacts)
    times = device.times or (4 if larger else 2)
    target = f"{device.batch * times} samples" if device.batch else f"{times} times the samples"
    room = f" (at most {device.memory:.0%} of the memory)" if device.memory else ""
    among = nearby_values(times, 2, device.most_times)
    return Proposal(
        summary=f"batch x{times}: {target}{room}; scale the learning rate: linearly for SGD with "
        "warm-up, by the square root for Adam",
        edits=(
            Edit(knob="loader.batch_size_times", value=times, was=1, among=among),
            Edit(knob="optimizer.scale_learning_rate", value=True, was=False),
        ),
        predicted=larger,
        risk="memory grows with the batch; generalisation and learning rate may need tuning (not "
        "if accumulation steps are divided by the same factor: the global batch stays); the "
        f"input pipeline must deliver more samples per second{_layerwise_note(device, times)}",
    )


def _layerwise_note(device: DeviceFacts, times: int) -> str:
    samples = (device.batch or 0) * times * device.ranks
    if samples < LARGE:
        return ""
    return (
        f"; with {samples:,} samples per step over all ranks a scaled learning rate may not be "
        "enough: consider LARS (You et al. 2017) for SGD, LAMB (You et al. 2020) for Adam"
    )
