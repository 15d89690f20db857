"""Have costly Python run less often, or elsewhere."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Place
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import HostFacts

FRAMEWORK = "torch"
"""what is called of it trains the model: it can neither be left out nor moved"""
RISK = (
    "what training needs in every step must not be left out, as an environment's step; "
    "vectorised or moved, it may round or draw random numbers in another order"
)


@fix("python-overhead-in-step", "python-between-operators", consent="rounding")
def amortise_python(proof: Proof) -> Proposal:
    """Call what only logs, measures or shows something (metrics, progress bars, hooks) every k-th
    step, or after the next step has been launched. What training needs, as an environment's step,
    cannot be left out: vectorise it, move it to other processes, or make it ahead, while the model
    computes; numbers may then be rounded or drawn in another order. Short operators that are called
    one after the other become one call for all, and Python of a library can only be called less.
    Advice: only the author knows which it is."""
    facts = proof.get_facts(HostFacts)
    place, library = proof.where[0] if proof.where else None, facts.library
    if place is not None and (calls := facts.calls):
        return _one_for_all(place, int(calls))
    if place is not None and library == FRAMEWORK:
        return Proposal(
            summary=f"make fewer, larger calls of {library} at {place.file}:{place.line}: what it "
            "calls there has Python of its own",
            risk=RISK,
            automatic=False,
        )
    every = facts.every
    return Proposal(
        summary=f"{_spared(proof, place, library)}; or, if it only logs or measures, do it every "
        f"{every}th step",
        edits=(Edit(knob="callbacks.every", value=every, was=1),),
        risk=RISK,
        automatic=False,
    )


def _spared(proof: Proof, place: Place | None, library: str | None) -> str:
    """How the loop is spared it, where training needs it."""
    if place is None or not library:
        return f"vectorise {_what(proof, place)}, move it to another process or make it ahead"
    at = f"{place.file}:{place.line}"
    return f"call {library} less often at {at}, once for all, in another process or ahead"


def _what(proof: Proof, place: Place | None) -> str:
    """The Python in question."""
    if place is not None and place.line and proof.get_facts(HostFacts).before:
        return f"the Python that runs before {place.file}:{place.line}"
    if place is None:
        return "this Python code"
    named = not (place.function or "<").startswith("<")
    of = f" of {place.function}" if named else ""
    return f"this Python code{of} ({place.file}:{place.line})"


def _one_for_all(place: Place, calls: int) -> Proposal:
    """Instead of short calls that a line makes one after the other."""
    return Proposal(
        summary=f"make one call on whole tensors of the short ones at {place.file}:{place.line} "
        f"({calls} or more in each step): not one element or sample at a time",
        risk="sums of one call may round otherwise, and random numbers come in another order",
        automatic=False,
    )
