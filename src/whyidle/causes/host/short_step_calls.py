"""Keras calls a function for each of many short steps."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.sampled_lines import lines_with_share
from whyidle.analysis.tfdata_pipelines import training_pipeline
from whyidle.causes.host._modes import EAGER, active_share
from whyidle.model.cause import Proof, cause
from whyidle.model.number_text import format_duration
from whyidle.model.process_facts import Switches
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role

FIT = "Model.fit"
CALL_S = (0.25e-3, 0.6e-3, 1.2e-3)
"""seconds of a call that are not spent in the step's operators: logs, callbacks, the start of the
function and its hand-over between threads. Small networks saved 0.4 to 1.5 ms a step with twenty
steps in a call (Keras 3.3 and 3.15, two cores)"""
MOST = (0.5, 0.75, 0.9)
"""largest part of a step that this can be: operators take the rest"""
LEAST = 0.1
"""least expected part of a step: a step of 6 ms. Longer ones gain too little to give up reports and
callbacks at every batch"""
STEPS = 20
"""steps in a call: a twentieth of its cost stays for each. More gain little, and the progress bar
moves once per call"""


@cause(
    "Each short step of fit is a call of its own",
    bucket="host",
    needs=("device_time", "own_settings", "steady_steps"),
)
def short_step_calls(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    ``model.fit`` calls its compiled function once per batch, and the operators of a step take no
    longer than the call.

    Why it costs
    ------------
    Before and after every call Keras asks its callbacks, collects logs and moves the progress bar,
    and TensorFlow hands the function to its threads and waits for them.

    How it is detected
    ------------------
    The model that is fitted runs one step per call (``steps_per_execution=1``), no callback looks
    at every batch, and a step without its wait for the batch is so short that the usual cost of a
    call, 0.25 to 1.2 ms, is expected to be a tenth of it. The gain is this cost with twenty steps
    in a call, at most nine tenths of the step.

    What looks alike
    ----------------
    ``run_eagerly=True`` is ``debug-mode-left-on``. Callbacks that take long after every batch are
    ``callback-overhead``; where a callback looks at every batch, several steps in a call would
    show it only the last, and this cause is silent. Small batches make any model's steps short: see
    ``batch-too-small``.

    What to do
    ----------
    ``model.compile(..., steps_per_execution=20)``. The numbers stay the same; the progress bar and
    callbacks for batches see every twentieth.

    References
    ----------
    Keras, "Model.compile: steps_per_execution"; keras-team/keras#19953, #18648.
    """
    switches = facts.timeline.process.switches or Switches()
    if switches.steps_per_call != 1 or switches.batch_callbacks or not _is_fitted(facts):
        return None
    if any(active_share(facts, mode) for mode in EAGER):
        return None
    waited = facts.bucket_share("input")
    rest = max(0.0, 1.0 - waited)
    pipeline = training_pipeline(facts)
    batches = pipeline.batches if pipeline else None
    steps = min(STEPS, batches or STEPS)
    saved = 1.0 - 1.0 / max(steps, 1)
    low, expected, high = (
        saved * min(cost / facts.step_s, most * rest)
        for cost, most in zip(CALL_S, MOST, strict=True)
    )
    if expected < LEAST:
        return None
    return Proof(
        headline=f"Each step of fit is a call of its own, and takes only "
        f"{format_duration(rest * facts.step_s)}",
        low=low,
        high=high,
        predicted=from_gains((low, expected, high), f"class figure of a call, {steps} steps each"),
        evidence=(
            make_evidence("steps in a call", 1, None, source="settings"),
            make_evidence("step without its wait for the batch", rest * facts.step_s, "s"),
            make_evidence("usual cost of a call", CALL_S[1], "s", source="class figure"),
        ),
        confidence=0.8,
        where=tuple(place for place, _ in lines_with_share(facts, facts.scope))[:1],
        facts=HostFacts(calls=steps),
        bucket="compute" if facts.bucket_share("compute") > facts.bucket_share("host") else "host",
    )


def _is_fitted(facts: Facts) -> bool:
    timeline = facts.timeline
    return FIT in {timeline.names[int(name)] for name in timeline.names_of(Role.OPTIMIZER)}
