"""The training loop computes the same results for the same samples in every epoch."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.repeated_results import find_repeated_results
from whyidle.analysis.lines.source_lines import at_place, source_line
from whyidle.analysis.sampling.share_error import sample_count, share_bounds
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

KEPT = (0.25, 0.1, 0.0)
"""careful, expected and least cost of taking a kept result, as a part of computing it; the last two
as for samples that a loader's workers would keep (``repeated-deterministic-preprocessing``)"""


@cause(
    "The same results are computed again in every epoch",
    bucket="compute",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def same_result_again(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    A line computes something that depends on the sample alone: a frozen encoder's output, a
    distance transform of a label, targets assigned to boxes. Or each epoch builds the same data set
    anew. Every epoch computes it again, with the same result.

    Why it costs
    ------------
    Training pays in every epoch for what is needed once.

    How it is detected
    ------------------
    On a watched job on the CPU, the stored source shows which statements of the training loop, and
    of functions that it calls, compute from the batch alone: through functions that are neither
    random nor trained, and through networks that are in evaluation mode and that no optimizer has;
    and which statements of the loop over epochs compute from what the file sets once. For the
    former, samples must be the same in every epoch: rows of tensors, or at least eight samples
    whose checksums were the same whenever they came again. Stack samples give the time at these
    lines. A kept result costs a tenth of that (careful: a quarter).

    What looks alike
    ----------------
    Random augmentation, a teacher that follows the model, and a network in training mode give
    another result each time. What the source does not show is not assumed: this cause is silent.

    What to do
    ----------
    Compute it once before training. What depends on the sample: for every sample, kept by its
    index, in memory or in a file; let the data set return it beside the sample.

    References
    ----------
    Hugging Face, "Diffusers: training" (cached latents); Isenko et al., "Where Is My Training
    Bottleneck?" (PRESTO), SIGMOD 2022.
    """
    work = find_repeated_results(facts) if facts.on_cpu else None
    if work is None:
        return None
    share, (least, most) = facts.share_of(work.spans), share_bounds(facts, work.spans)
    if min(share, least) < LEAST_SHARE:
        return None
    gains = tuple(
        (1.0 - kept) * part for kept, part in zip(KEPT, (least, share, most), strict=True)
    )
    listed = (
        ("time at these lines, share of step", share, "ratio"),
        ("samples that came again, all of them the same", work.again or None, None),
    )
    where = work.places[:MOST_PLACES]
    return Proof(
        headline=f"The same results are computed in every epoch{at_place(where)}: "
        f"{format_duration(share * facts.step_s)} of each step",
        low=gains[0],
        high=most,
        predicted=from_gains((gains[0], gains[1], gains[2]), "the step with kept results"),
        evidence=tuple(
            make_evidence(*row, samples=sample_count(facts), source="samples")
            for row in listed
            if row[1] is not None
        ),
        confidence=0.85,
        where=where,
        facts=HostFacts(
            text=source_line(facts.timeline.sources, where[0]), of_samples=work.of_samples
        ),
    )
