"""Python calls each short compiled step separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import training_pipeline
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.sampled_lines import own_lines, sampled_stacks, sampled_where
from whyidle.analysis.lines.source_lines import own_frame
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._modes import EAGER, active_share
from whyidle.model.buckets import Bucket
from whyidle.model.cause import MOSTLY, Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_duration
from whyidle.model.process_facts import Switches
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind

FIT = "Model.fit"
SET_UP = {"predict": Role.PREDICT_FRAME, "fit": Role.FIT_FRAME}
"""methods of Keras that make a dataset in each call"""
CALL_S = (0.25e-3, 0.6e-3, 1.2e-3)
"""seconds of a call outside the step's operators: logs, callbacks, starting the function in
threads. Small networks saved 0.4 to 1.5 ms per step with 20 steps per call (Keras 3.3, 3.15)"""
MOST = (0.5, 0.75, 0.9)
"""largest part of a step that this cost can be"""
LEAST = 0.1
"""least expected gain, at a step of 6 ms; longer steps should keep reports at every batch"""
STEPS = 20
"""steps per call: each keeps a twentieth of the cost. More gain little and delay reports"""


@cause(
    "Each short compiled step is a separate call",
    bucket="host",
    needs=("device_time", "own_settings", "steady_steps"),
)
def short_step_calls(facts: Facts) -> Proof | None:
    """What it means
    -------------
    ``model.fit`` calls its compiled function once per batch, and the operators of a step take no
    longer than the call.

    Why it costs
    ------------
    Around every call, Keras runs callbacks, collects logs and moves the progress bar, and
    TensorFlow hands the function to its threads. Each ``model.predict`` or ``model.fit`` also makes
    a dataset, its iterator and callbacks. This takes tens of milliseconds, even for one sample.

    How it is detected
    ------------------
    The fitted model runs one step per call (``steps_per_execution=1``), and no callback uses
    every batch. A call usually costs 0.25 to 1.2 ms. The report names this cause if this cost is
    expected to be at least a tenth of the step. The gain is this cost with twenty steps per call,
    at most nine tenths of the step.

    Calls of ``predict`` in most steps count, excluding the traced function inside. Calls of ``fit``
    count if most of them train a single batch. The usual cost of a ``fit`` call is expected to
    stay.

    What looks alike
    ----------------
    ``run_eagerly=True`` is ``debug-mode-left-on``. Callbacks that take long after every batch are
    ``callback-overhead``. With several steps per call, callbacks see only the last batch, so jobs
    whose callbacks use every batch are not judged, nor are loops of JAX.

    What to do
    ----------
    Use ``model.compile(..., steps_per_execution=20)``. The numbers stay the same; the progress bar
    and batch callbacks see every twentieth step. Instead of ``predict``, call the model in a
    ``tf.function``, on as many states as there are. Instead of ``fit``, call ``train_on_batch``.
    With several samples it is faster still, but takes one step for all of them.

    References
    ----------
    Keras, "Model.compile: steps_per_execution"; keras-team/keras#19953, #18648.
    """
    if any(active_share(facts, mode) for mode in EAGER):
        return None
    found = [_calls_that_set_up(facts, name, role) for name, role in SET_UP.items()]
    if proofs := [proof for proof in found if proof]:
        return max(proofs, key=lambda proof: proof.high)
    return _calls_of_fit(facts) if _is_fitted(facts) else None


def _calls_that_set_up(facts: Facts, name: str, role: Role) -> Proof | None:
    """Calls of ``predict`` or ``fit`` in most steps, without the traced function inside them."""
    host, scope, plays = facts.timeline.host, facts.steps_in_scope, facts.timeline.vocabulary.plays
    stacks = sampled_stacks(facts, facts.scope)
    lines = {_line_that_calls(stack, lambda frame: plays(role, frame)) for stack in stacks} - {""}
    called = sampled_where(facts, lambda stack: not lines.isdisjoint(stack.split(";")))
    fits, trained = role is Role.FIT_FRAME, facts.timeline.rows_of(Role.OPTIMIZER)
    own = np.append(np.flatnonzero((host.kind == HostKind.OP) & (host.detail < 0)), trained)
    model = union_of(host.start[own], host.end[own])
    spans = called - model
    steps = spans.length_inside(facts.steps.start[scope], facts.steps.end[scope])
    share, (least, _) = facts.share_of(spans), share_bounds(facts, spans)
    seldom = fits and 2 * facts.timeline.process.fits < len(trained)
    if seldom or np.count_nonzero(steps) < MOSTLY * max(len(steps), 1):
        return None
    small, usual, large = (cost / facts.step_s for cost in CALL_S)  # of a call that sets up nothing
    taken, inside = facts.share_of(called), facts.share_of(model & called)
    fewest, most = share_bounds(facts, called)
    waited = min(inside / 2, usual)  # for the data set, inside the traced function
    gains = (max(0.0, fewest - inside), share + waited, min(most, 2 * share))
    if fits:
        whole = share + inside - small
        gains = (max(0.0, least - large), max(0.0, share - usual), max(share - usual, whole))
    evidence = (
        make_evidence(f"calls of {name}, share of step", taken, "ratio"),
        make_evidence("without the model inside them", share, "ratio", source="samples"),
    )
    return _make_proof(
        facts,
        gains,
        f"Calls of {name} take {format_duration(share * facts.step_s)} of each step to set up "
        "data sets, not to run the model",
        method=f"the step without the set-up of {name}",
        evidence=evidence,
        told=HostFacts(called=name),
        spans=spans,
    )


def _line_that_calls(stack: str, is_called: Callable[[str], bool]) -> str:
    """The job's frame around the outermost such call in a stack, or an empty string. Objects that
    the call leaves behind are freed at that line, too."""
    frames = stack.split(";")
    at = [i for i, frame in enumerate(frames) if is_called(frame)]
    return own_frame(";".join(frames[at[-1] :])) if at else ""


def _calls_of_fit(facts: Facts) -> Proof | None:
    switches = facts.timeline.process.switches or Switches()
    if switches.steps_per_call != 1 or switches.batch_callbacks:
        return None
    rest = max(0.0, 1.0 - facts.bucket_share("input"))
    pipeline = training_pipeline(facts)
    batches = pipeline.batches if pipeline else None
    steps = min(STEPS, batches or STEPS)
    saved = 1.0 - 1.0 / max(steps, 1)
    costs = zip(CALL_S, MOST, strict=True)
    gains = [saved * min(cost / facts.step_s, most * rest) for cost, most in costs]
    evidence = (
        make_evidence("steps in a call", 1, None, source="settings"),
        make_evidence("step without its wait for the batch", rest * facts.step_s, "s"),
        make_evidence("usual cost of a call", CALL_S[1], "s", source="class figure"),
    )
    headline = "Each step of fit is a separate call, and takes only "
    headline += format_duration(rest * facts.step_s)
    method, told = f"class figure of a call, {steps} steps each", HostFacts(calls=steps)
    return _make_proof(facts, gains, headline, method=method, evidence=evidence, told=told)


def _make_proof(
    facts: Facts,
    gains: Sequence[float],
    headline: str,
    *,
    method: str,
    evidence: tuple[Evidence, ...],
    told: HostFacts,
    spans: Intervals | None = None,
) -> Proof | None:
    low, expected, high = gains
    if expected < LEAST:
        return None
    buckets: tuple[Bucket, ...] = ("host", "compute", "input")
    held = [facts.bucket_share(name) for name in buckets[:2]]
    if spans is not None:
        held = [facts.share_of(spans & facts.time_of(name)) for name in buckets]
    return Proof(
        headline=headline,
        predicted=from_gains((low, expected, high), method),
        evidence=evidence,
        confidence=0.8,
        where=own_lines(facts, spans or facts.scope)[:1],
        facts=told,
        bucket=buckets[held.index(max(held))],
    )


def _is_fitted(facts: Facts) -> bool:
    timeline = facts.timeline
    return FIT in {timeline.names[int(name)] for name in timeline.names_of(Role.OPTIMIZER)}
