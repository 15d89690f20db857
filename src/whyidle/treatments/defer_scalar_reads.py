"""Read numbers where they are shown, not in every step."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment

EDITS = (
    Edit(knob="log.deferred", value=True, was=False),
    Edit(knob="logging.asynchronous", value=True, was=False),
)
"""the second for numbers that go to a tracker: its thread waits for them"""


@treatment("per-step-host-sync", consent="none")
def defer_scalar_reads(proof: Proof) -> Plan:
    """Sum up losses and metrics on the device, read values where they are shown, or every k-th
    step. Applied to single numbers of which the script's text shows that only sums, comparisons and
    prints get to see them, or objects of its own that keep them (meters of losses), or
    TensorBoard's writer, MLflow's client, and bars of tqdm's, which are drawn ten times a second
    then: they are kept on the device until somebody looks at them, and are the same numbers.
    Elsewhere the program may depend on having them at once, so that declines."""
    every = int(proof.facts.get("every", 10))
    scalar = bool(proof.facts.get("scalar"))
    return Plan(
        summary="accumulate losses and metrics on the device, and read them where they are shown, "
        f"or every {every}th step; torch.where instead of boolean masks; no "
        "torch.cuda.synchronize() in the loop",
        edits=EDITS if scalar else (),
        risk="the device's own errors are told where a number is read, which is later",
        automatic=scalar,
    )
