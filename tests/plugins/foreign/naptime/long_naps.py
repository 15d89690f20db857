"""The loop sleeps."""

import numpy as np

from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence, Predicted


@cause("The loop sleeps in every step", bucket="host", needs=("host_ops", "steps"))
def long_naps(facts):
    """The script sleeps between two steps.

    What it means
    -------------
    The loop calls `time.sleep`.

    Why it costs
    ------------
    Nothing is launched meanwhile.

    How it is detected
    ------------------
    Events called `nap` cover a tenth of the steps or more.

    What looks alike
    ----------------
    Waiting for a batch.

    What to do
    ----------
    Sleep less.

    References
    ----------
    None.
    """
    timeline = facts.timeline
    naps = np.array([name == "nap" for name in timeline.names])[timeline.host.name]
    begin, end = facts.steps.window
    slept = (timeline.host.end - timeline.host.start)[naps].sum() / (end - begin)
    if slept < 0.1:
        return None
    slept = min(float(slept), 0.99)
    return Proof(
        headline=f"The loop sleeps for {slept:.0%} of the step",
        low=0.9 * slept,
        high=slept,
        predicted=Predicted(
            speedup=1 / (1 - 0.95 * slept),
            low=1 / (1 - 0.9 * slept),
            high=1 / (1 - slept),
            method="no naps",
        ),
        evidence=(
            Evidence(
                quantity="asleep, share of step",
                value=slept,
                unit="ratio",
                window="steps",
                samples=int(naps.sum()),
                source="nap log",
            ),
        ),
    )
