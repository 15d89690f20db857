"""The training loop computes the same results for the same samples in every epoch."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.line_purposes import quote_line
from whyidle.analysis.lines.repeated_results import find_repeated_results
from whyidle.analysis.lines.source_lines import at_place
from whyidle.analysis.sampling.share_error import sample_count, share_bounds
from whyidle.analysis.steps.forecast import from_gains
from whyidle.model.cause import LEAST_SHARE, MOST_PLACES, Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import HostFacts

KEPT = (0.25, 0.1, 0.0)
"""cost of reading a kept result relative to computing it (low, expected, high gain). The last two
as for cached samples (``repeated-deterministic-preprocessing``)"""


@cause(
    "The same results are computed again in every epoch",
    bucket="compute",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def same_result_again(facts: Facts) -> Proof | None:
    """What it means
    -------------
    A line computes something that depends on the sample alone: a frozen encoder's output, a
    distance transform of a label, targets assigned to boxes. Or each epoch builds one dataset anew.

    Why it costs
    ------------
    Every epoch repeats work that is needed once.

    How it is detected
    ------------------
    In a watched job on the CPU, the stored source shows statements that compute from the batch
    alone: with functions that are neither random nor trained, and with networks in evaluation mode
    that no optimizer has. Statements of the epoch loop count if they use only what the file sets
    once.

    Samples must be the same in every epoch: rows of tensors, or at least eight samples whose
    checksums always came out the same. Stack samples give the time at these lines. A kept result is
    expected to cost a tenth of it, at most a quarter.

    What looks alike
    ----------------
    Random augmentation, a teacher that follows the model, and a network in training mode give
    another result each time. Code whose source is not stored is not judged.

    What to do
    ----------
    Compute it once before training. Keep results that depend on the sample by its index, in memory
    or in a file, and let the dataset return them with the sample.

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
            text=quote_line(facts.timeline.sources, where[0]), of_samples=work.of_samples
        ),
    )
