"""Have costly Python run less often, or elsewhere."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.treatment import Plan, treatment


@treatment("python-overhead-in-step", "python-between-operators", consent="rounding")
def amortise_python(proof: Proof) -> Plan:
    """Call what only logs, measures or shows something (metrics, progress bars, hooks) every k-th
    step, or after the next step has been launched. What training needs, as an environment's step,
    cannot be left out: vectorise it, move it to other processes, or make it ahead, while the model
    computes; numbers may then be rounded or drawn in another order. Advice: only the author knows
    which of the two it is."""
    every = int(proof.facts.get("every", 10))
    place = proof.where[0] if proof.where else None
    what = "this Python code"
    if place is not None and place.line and proof.facts.get("before"):
        what = f"the Python that runs before {place.file}:{place.line}"
    elif place is not None:
        named = not (place.function or "<").startswith("<")
        what += f" of {place.function}" if named else ""
        what += f" ({place.file}:{place.line})"
    return Plan(
        summary=f"vectorise {what}, move it to another process or make it ahead; or, if it only "
        f"logs or measures, do it every {every}th step",
        edits=(Edit(knob="callbacks.every", value=every, was=1),),
        risk="what training needs in every step must not be left out, as an environment's step; "
        "vectorised or moved, it may round or draw random numbers in another order",
        automatic=False,
    )
