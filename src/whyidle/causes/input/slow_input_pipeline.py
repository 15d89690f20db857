"""An input pipeline makes batches more slowly than the steps consume them."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.data_libraries import (
    LIBRARIES,
    IteratedLibrary,
    find_conversion,
    iterated_library,
    waits_for_threads,
)
from whyidle.analysis.input.sample_work import work_inline
from whyidle.analysis.input.tfdata_pipelines import pipeline_waits
from whyidle.analysis.lines.sampled_lines import own_lines
from whyidle.analysis.steps.forecast import from_gains, predict_removal
from whyidle.causes.input._sample_evidence import (
    describe_conversion,
    describe_samples,
    describe_work,
    line_evidence,
)
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InputFacts
from whyidle.model.roles import Role

CAREFUL = 0.5
"""share of the waits that two calls at a time remove, compared with one"""
EXPECTED = 0.85
"""the same with as many calls as fit on eight cores besides the step"""
MANY = 2
"""requests per step from which each is for a row, not for a batch"""


@cause(
    "Batches are not ready when a step needs them", bucket="input", needs=("loader_marks", "steps")
)
def slow_input_pipeline(facts: Facts) -> Proof | None:
    """What it means
    -------------
    The step asks the input pipeline for a batch that is not ready, and waits for it.

    Why it costs
    ------------
    The device is idle while a batch is made, although the host could have made it one step earlier.

    How it is detected
    ------------------
    A profile shows waits in ``IteratorGetNext`` of tf.data while the device has nothing else to do.
    The report names the innermost recorded stage with at least half of the time per batch, and its
    number of parallel calls. In a watched run, the probe measures how long the loop waits for an
    iterator of Grain, Hugging Face ``datasets``, WebDataset or DALI.

    The upper bound removes all waits, the lower bound half of them, as with two calls at a time. If
    the CPU time of the process shows Python that computes, workers are expected to hide half of
    what fits beside the step, and the lower bound is no gain. If threads make the batches already,
    none is expected.

    What looks alike
    ----------------
    PyTorch's DataLoader has causes of its own, even if it reads from one of these libraries. So do
    pipelines of tf.data in a watched run. On a TPU, infeed waits may be slow transfers.

    What to do
    ----------
    Make the slow stage parallel (``num_parallel_calls=tf.data.AUTOTUNE``), interleave file reads,
    cache what is the same in each epoch (``cache()`` before random transforms), replace Python
    functions by TensorFlow operators, and end the pipeline with ``prefetch``. Other libraries have
    workers or threads of their own.

    References
    ----------
    TensorFlow guide, "Better performance with the tf.data API". Murray et al., "tf.data", VLDB
    2021.
    """
    timeline = facts.timeline
    iterated = iterated_library(facts) if timeline.source.format == "probe" else None
    if iterated is not None:
        return _prove_iterated(facts, iterated)
    loaders = (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS)
    if timeline.source.format == "probe" or any(len(timeline.rows_of(role)) for role in loaders):
        return None
    requests = timeline.rows_of(Role.BATCH_REQUEST)
    share = facts.bucket_share("loader")
    if not len(requests) or share < LEAST_SHARE:
        return None
    stage = timeline.source.input_stage
    slow = f"; {stage.name} takes {format_duration(stage.seconds)} a batch" if stage else ""
    serial = f", {stage.parallel} at a time" if stage and stage.parallel else ""
    return Proof(
        headline=f"Batches are not ready: {format_duration(share * facts.step_s)} of waiting per "
        f"step{slow}{serial}",
        low=share * CAREFUL,
        high=share,
        predicted=_predict_made_before(share),
        evidence=(
            make_evidence("waits for the pipeline, share of step", share, "ratio"),
            *_stage_evidence(facts),
        ),
        confidence=0.85 if stage else 0.7,
        facts=InputFacts(
            workers=stage.parallel if stage else None, function=stage.function if stage else None
        ),
    )


def _predict_made_before(share: float) -> Predicted:
    method = "batches are made during the step before"
    return predict_removal(share * CAREFUL, share, method, share * EXPECTED)


def _predict_beside(share: float) -> Predicted:
    """The gain of a thread that makes batches during the step. Upper bound: the longer of both
    remains. Lower bound: it takes the interpreter's lock or the core that the step needs."""
    most = min(share, 1.0 - share)
    return from_gains((0.0, most / 2, most), "P1: batches made during the step; no gain at worst")


def _prove_iterated(facts: Facts, iterated: IteratedLibrary) -> Proof | None:
    """Prove waits for an iterator of a data library."""
    share = facts.bucket_share("loader")
    if share < LEAST_SHARE:
        return None
    package, requests, count = iterated
    own = work_inline(facts, requests)
    conversion, part = find_conversion(facts, requests)
    if conversion == "rows":  # of a batch as a whole, if it is one request
        conversion = "single" if count > MANY * max(facts.step_count, 1) else ""
    made = " of Python objects" if conversion == "objects" else ""
    name, lost = LIBRARIES[package], format_duration(share * facts.step_s)
    waits, beside = pipeline_waits(facts) is not False, _predict_beside(share)
    if not waits and waits_for_threads(facts, iterated):  # more of them share the lock or the cores
        beside = from_gains((0.0, 0.0, share), "P1: more threads for code that uses the CPU")
    return Proof(
        headline=f"{name} makes batches{made} in the training loop: {lost} of waiting per step"
        f"{describe_work(own)}",
        low=share * CAREFUL if waits else 0.0,
        high=share,
        predicted=_predict_made_before(share) if waits else beside,
        evidence=(
            make_evidence("waits for the pipeline, share of step", share, "ratio"),
            make_evidence("time in conversions of datasets", part, "ratio", source="stacks"),
            *line_evidence(facts, own),
        ),
        confidence=0.85,
        where=own.places[:3] if own else own_lines(facts, requests)[:1],
        facts=InputFacts(
            library=package,
            beside=beside,
            **describe_conversion(conversion, part * share),
            **describe_samples(own, share),
        ),
    )


def _stage_evidence(facts: Facts) -> tuple[Evidence, ...]:
    stage = facts.timeline.source.input_stage
    if stage is None:
        return ()
    rows = [make_evidence(f"{stage.name}, per batch", stage.seconds, "s", source="stages")]
    if stage.parallel:
        rows.append(make_evidence("its calls at a time", stage.parallel, None, source="stages"))
    if stage.function:
        name = f"{stage.function} in it, per call"
        rows.append(make_evidence(name, stage.function_s, "s", source="stages"))
    return tuple(rows)
