"""Evaluate in larger batches without gradients."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix

FACTOR = 4
"""times the batch: what a model computes of each sample takes the same, what it costs to ask it is
paid once"""
ALL = "more samples at once, if it takes them a few at a time"


@fix("heavy-evaluation", consent="rounding")
def larger_evaluation(proof: Proof) -> Proposal | None:
    """Larger batches and no autograd bookkeeping in evaluation change no learning, only rounding.
    That is ``torch.no_grad``, whatever the knob is called: what a model keeps from an evaluation in
    ``inference_mode`` could not be trained on. Applied at run time, the script keeps its batches
    and gets the results of each: the model computes several of them together where its inputs are
    parts of the loader's batches and its results are seen to depend on no other sample of the
    batch. Declines for compiled models, hooks, random numbers in evaluation, several ranks, and
    loaders that shuffle; the first evaluations are left as they are. Where evaluation takes its
    batches from no loader nothing is applied to them, for it may compute all of its data at once:
    if it records no gradients either, it is left to the user."""
    batches, graph = (bool(proof.facts.get(name, True)) for name in ("batches", "graph"))
    parts = ["under torch.no_grad()"] if graph else []
    parts += [f"with {FACTOR} times the batch"] if batches else []
    without = Edit(knob="evaluation.inference_mode", value=True, was=False)
    factor = Edit(knob="evaluation.batch_factor", value=FACTOR, was=1)
    return Proposal(
        summary=f"evaluate {' '.join(parts or [ALL])}",
        edits=(*((without,) if graph else ()), *((factor,) if batches else ())),
        risk="" if parts and not batches else "more device memory during evaluation",
        automatic=batches or graph,
    )
