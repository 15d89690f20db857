"""Handle several elements of a tf.data pipeline at a time."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts


@fix("serial-map", consent="rounding")
def parallel_map(proof: Proof) -> Proposal | None:
    """Call the function of a tf.data stage for several elements at a time, in a thread pool with
    room for them where its calls wait. The order of the elements is preserved, but a function that
    uses random numbers will draw different ones. Declines where the function closes over an open
    file, a generator or a random generator."""
    facts = proof.get_facts(InputFacts)
    calls = facts.workers
    if calls is None:
        return None
    edits = []
    if not facts.parallel:
        maps = Edit(knob="tfdata.map_calls", value=calls, was=1)
        sources = Edit(knob="tfdata.interleave_calls", value=calls, was=1)
        edits.append(sources if facts.interleaved else maps)
    if facts.waits:
        edits.append(Edit(knob="tfdata.pool", value=calls, was=facts.was))
    return Proposal(
        edits=tuple(edits),
        risk="a Python function that is not safe in threads; while it runs in threads, the process "
        "does not end before the iterator is deleted, so a script should delete it at its end",
    )
