"""One line of the job, or a library function that it calls, takes much of the step."""

from __future__ import annotations

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.analysis.lines.costly_calls import CostlyCall, find_costly_call
from whyidle.analysis.sampling.share_error import share_bounds, share_evidence, unseen_python
from whyidle.analysis.steps.forecast import from_gains
from whyidle.causes.host._loop_proof import CAREFUL
from whyidle.model.buckets import BUCKETS
from whyidle.model.cause import MOST_PLACES, NOTICEABLE, Proof, cause
from whyidle.model.diagnosis import Place
from whyidle.model.proof_facts import HostFacts
from whyidle.model.roles import Role


@cause(
    "One call takes much of the step",
    bucket="host",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def costly_call(facts: Facts) -> Proof | None:
    """What it means
    -------------
    Most of the step is spent in or below one line of the job, outside the model, its backward pass
    and its update. Or a library function with a cheaper form takes much of the step.

    Why it costs
    ------------
    The training loop is a single thread, so the model waits until the call returns.

    How it is detected
    ------------------
    In a watched job on the CPU, stack samples show the time below each line of the job, in Python
    and in native code. The report names the innermost line below which the job's own code takes
    more than half of the step, or the library function whose cheaper form saves most. A line in the
    model includes its part of the backward pass. The gain is what the cheaper form saves. For the
    job's own code, only its author knows what is needed, so the bounds are 0 and 100 %.

    What looks alike
    ----------------
    Own code that makes batches is ``heavy-cpu-transform`` or ``dataloader-no-workers``. Lines that
    only report are ``work-beside-training``, loops over elements are ``short-operators-in-model``,
    and repeated results ``same-result-again``. An environment may need all of its time.

    What to do
    ----------
    Use the cheaper form. In your own code, compute on whole arrays and keep what stays the same.
    Update sums, trees and indices instead of going through all stored data.

    References
    ----------
    PyTorch, "torch.nn.utils.parametrize.cached"; pytorch/pytorch#57467; sfujim/TD7#3.
    """
    call = find_costly_call(facts)
    if call is None:
        return None
    share, (least, most) = facts.share_of(call.spans), share_bounds(facts, call.spans)
    most = min(1.0, most + (unseen_python(facts, share) if call.known else 0.0))
    rows, host = facts.timeline.rows_of(Role.BACKWARD), facts.timeline.host
    passes = call.part * facts.share_of(union_of(host.start[rows], host.end[rows]))
    times = (least + CAREFUL * passes, share + passes, min(1.0, most + passes))
    low, expected, high = ((1.0 - k) * time for k, time in zip(call.stays, times, strict=True))
    if min(times[0], expected) < NOTICEABLE:
        return None
    bucket = max(BUCKETS, key=lambda name: (call.spans & facts.time_of(str(name))).total)
    if bucket == "input" and not call.known:
        return None  # that of loading names the line, too, and what workers can do
    return Proof(
        headline=_describe_call(call, times[1]),
        low=low if call.known else times[0],
        high=high,
        predicted=from_gains((low, expected, high), "the step without what can go"),
        removal=None if call.known else from_gains(times, "the step without these lines"),
        evidence=(
            share_evidence(facts, "time below these lines, share of step", share),
            make_evidence("step time", facts.step_s, "s", samples=facts.step_count, source="steps"),
        ),
        confidence=0.85,
        where=call.places[:MOST_PLACES],
        bucket=bucket,
        facts=HostFacts(text=call.known.advice if call.known else ""),
    )


def _describe_call(call: CostlyCall, share: float) -> str:
    lines = _name_lines(call.places[:MOST_PLACES])
    if call.known is None:
        inner = [place for place in call.places[1:MOST_PLACES] if place != call.places[0]]
        lines = _name_lines(call.places[:1])
        lines += f", mostly {_name_lines(tuple(inner))}" if inner else ""
    backward = ", with its part of the backward pass," if call.part else ""
    if call.known is not None:
        return f"{share:.0%} of the step{backward} goes into {call.what} {lines}"
    return f"{share:.0%} of the step is {f'in {call.what}, called ' if call.what else ''}{lines}"


def _name_lines(places: tuple[Place, ...]) -> str:
    """Lines in a sentence: "at FILE:1, 2"."""
    if not places:
        return ""
    first = (places[0].file or "").rpartition("/")[2]
    numbers = dict.fromkeys(str(place.line) for place in places if place.file == places[0].file)
    return f"at {first}:{', '.join(numbers)}"
