"""DistributedDataParallel searches graphs and copies gradients needlessly."""

from __future__ import annotations

from typing import NamedTuple

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import HARMLESS, Proof, cause
from whyidle.model.diagnosis import Place, Predicted
from whyidle.model.process_facts import ExchangeFacts
from whyidle.model.proof_facts import DistributedFacts
from whyidle.model.roles import Role

LEAST_READINGS = 2
"""readings of DistributedDataParallel's log, 64 steps apart, with the same unused parameters"""


class Shares(NamedTuple):
    """Shares of the step: lower bound, expected, upper bound."""

    low: float
    likely: float
    high: float

    def predict_removal(self) -> Predicted:
        """The gain of removing them."""
        return predict_removal(self.low, self.high, "P4: host time that is saved", self.likely)


@cause(
    "DistributedDataParallel does unnecessary work on the host",
    bucket="host",
    needs=("device_time", "host_ops", "steps"),
)
def ddp_config_overhead(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    By default, DistributedDataParallel copies every gradient out of its bucket after the exchange.
    With ``find_unused_parameters=True`` it also searches the autograd graph in every step.

    Why it costs
    ------------
    The host does this between the backward pass and the optimizer, and the device waits for it.

    How it is detected
    ------------------
    The recording contains ``copy_bucket_to_grad`` once per parameter, or
    ``search_unused_parameters`` once per step. The lost time is the device's idle time during these
    calls (on a CPU: all of their time). It must be at least 0.5 % of the step. The lower bound is
    half, because recording lengthens small operators. The upper bound adds the device time of the
    copies.

    In a watched run on a CPU, only the search is timed.

    What looks alike
    ----------------
    ``mul_out`` (scaling a gradient into its bucket) remains with any settings. If the unused
    parameters differ from step to step, the search is necessary and nothing is reported.

    What to do
    ----------
    Set ``gradient_as_bucket_view=True``. Set ``find_unused_parameters=False``, or
    ``static_graph=True`` if the same parameters are unused in every step.

    References
    ----------
    PyTorch documentation of ``torch.nn.parallel.DistributedDataParallel``.
    huggingface/transformers#45519 (one detection instead of a walk per step).
    """
    walk, copy = _time_during(facts, Role.GRADIENT_SEARCH), _time_during(facts, Role.GRADIENT_COPY)
    idle = facts.scope if facts.on_cpu else facts.time_of("host")
    walked, copied = facts.share_of(walk & idle), facts.share_of(copy & idle)
    lost = facts.share_of((walk | copy) & idle)
    settings = _ddp_settings(facts)
    constant = settings.unused_readings >= LEAST_READINGS and not settings.unused_varies
    if lost < HARMLESS or (settings.unused_parameter_size and not constant):
        return None
    roles = (Role.GRADIENT_COPY, Role.GRADIENT_SEARCH, Role.GRADIENT_SCALE)
    copies, searches, scaled = (len(facts.rows_of(role)) for role in roles)
    steps, searching = facts.step_count, Shares(walked * 0.5, walked * 0.75, walked)
    copying = Shares(copied * 0.5, copied * 0.75, copied + _copying_share(facts, copy))
    both = Shares(lost * 0.5, copying.likely + searching.likely, copying.high + searching.high)
    costs = "takes" if facts.on_cpu else f"keeps the {facts.device_noun} waiting"
    return Proof(
        headline=f"DistributedDataParallel's {_describe_overhead(walked, copied)} "
        f"{costs} {lost:.1%} of the step",
        low=lost * 0.5,
        high=lost,
        predicted=both.predict_removal(),
        evidence=(
            make_evidence("gradient copies per step", copies / steps, "1", source="host spans"),
            make_evidence("device idle during copies, share of step", copied, "ratio"),
            make_evidence("searches per step", searches / steps, "1", source="host spans"),
            make_evidence("device idle during searches, share of step", walked, "ratio"),
            make_evidence("scaled gradients per step", scaled / steps, "1", source="host spans"),
        ),
        where=_wrapping_places(facts),
        bucket="compute" if facts.on_cpu else None,
        confidence=0.85,
        facts=DistributedFacts(
            walks=bool(searches),
            copies=bool(copies),
            all_used=settings.unused_parameter_size == 0,
            same_unused=bool(settings.unused_parameter_size) and constant,
            predicted_walks=searching.predict_removal(),
            predicted_copies=copying.predict_removal(),
        ),
    )


def _ddp_settings(facts: Facts) -> ExchangeFacts:
    return facts.timeline.process.ddp or ExchangeFacts()


def _wrapping_places(facts: Facts) -> tuple[Place, ...]:
    places = [frame_place(text, facts.rank) for text in _ddp_settings(facts).made.split(";")]
    known = [place for place in places if place is not None]
    own = [place for place in known if not in_library(place)]
    return tuple((own or known)[:1])


def _describe_overhead(walked: float, copied: float) -> str:
    if walked and copied:
        return "copying of gradients and search for unused parameters"
    return "search for unused parameters" if walked else "copying of gradients out of buckets"


def _copying_share(facts: Facts, spans: Intervals) -> float:
    """Share of the step in which the device runs kernels launched in these spans."""
    device, call = facts.device, facts.launches.call
    launched = spans.contains_times(pick_rows(facts.timeline.host.start, call, 0)) & (call >= 0)
    return facts.share_of(union_of(device.start[launched], device.end[launched]))


def _time_during(facts: Facts, role: Role) -> Intervals:
    rows = facts.rows_of(role)
    return union_of(facts.timeline.host.start[rows], facts.timeline.host.end[rows])
