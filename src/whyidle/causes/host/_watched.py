"""The same causes on a watched job whose device is the CPU, from samples and settings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from whyidle.analysis.evidence import measured
from whyidle.analysis.facts import Facts
from whyidle.analysis.forecast import from_gains
from whyidle.analysis.intervals import Intervals, union
from whyidle.analysis.optimizers import FUSED
from whyidle.analysis.places import in_library
from whyidle.analysis.samples import busiest
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Evidence, Place

LEAST_SHARE = 0.03
"""share of the step below which Python between calls is ordinary"""
REMOVED = (0.5, 0.9, 1.0)
"""careful: half can go; expected: it runs in every tenth step only; hopeful: not at all"""
ANOMALY = (0.1, 0.4, 0.7)
"""share of forward and backward that anomaly mode costs: reports say 1.1 to 3 times slower"""
BYTES_PER_S = 5e9
"""memory traffic of one core, at least"""
TRAFFIC = {"Adam": 28, "AdamW": 28, "SGD": 20, "Adagrad": 20}
"""bytes per element that a fused update of 32-bit numbers moves"""
PER_TENSOR_S = 4e-6
"""what a fused update still costs per tensor"""
BROKEN = (0.0, 0.1, 0.4)
"""share of the work that an unbroken graph saves; eager code in between is not told apart"""
_FILE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)(, in (?P<function>\w+))?')
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)")


def python_overhead(facts: Facts) -> Proof | None:
    """Python between the calls of a step."""
    spans = facts.part("python")
    share = facts.share("python")
    if share < LEAST_SHARE:
        return None
    where = busiest(facts, spans)
    at = f" in {where[0].function}" if where and where[0].function else ""
    gains = (REMOVED[0] * share, REMOVED[1] * share, share)
    return Proof(
        headline=f"Python{at} takes {share * facts.step_s * 1e3:.3g} ms of each step",
        low=gains[0],
        high=share,
        predicted=from_gains(gains, "the step without half, nine tenths or all of it"),
        evidence=(
            measured("Python between calls, share of step", share, "ratio", source="samples"),
            measured("a step", facts.step_s, "s", samples=facts.step_count, source="steps"),
        ),
        confidence=0.85 if where else 0.5,
        where=where,
        facts={"every": 10},
    )


def _calls(facts: Facts, name: str) -> tuple[Intervals, tuple[Place, ...]]:
    """When calls of a name ran, and where the longest was made."""
    host = facts.timeline.host
    rows = facts.named(name)
    if not len(rows):
        return union(host.start[rows], host.end[rows]), ()
    longest = rows[np.argsort(host.start[rows] - host.end[rows])[:20]]
    places = (facts.places.within(int(row)) for row in longest)
    place = next((place for place in places if place), None)
    return union(host.start[rows], host.end[rows]), (place,) if place else ()


def debug_mode(facts: Facts) -> Proof | None:
    """Anomaly mode, as the process itself tells."""
    switches = facts.timeline.settings.get("switches", {})
    if not switches.get("anomaly_mode") and not switches.get("seen", {}).get("anomaly_mode"):
        return None
    spans, where = _calls(facts, r"^whyidle::backward$")
    share = facts.share("compute")
    backward = facts.share_of(spans)
    gains = (ANOMALY[0] * share, ANOMALY[1] * share, ANOMALY[2] * share)
    return Proof(
        headline="Autograd's anomaly mode is on: it searches every gradient for NaN and records "
        "where every operator was called",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "class figure on the step's work: 1.1 to 3 times slower"),
        evidence=(
            measured("anomaly mode", "on", None, source="torch.is_anomaly_enabled"),
            measured("backward passes, share of step", backward, "ratio", source="calls"),
        ),
        confidence=0.8,
        where=where,
        bucket="compute",
        facts={"mode": "anomaly_mode"},
    )


def optimizer_loop(facts: Facts) -> Proof | None:
    """A loop over many tensors where one fused call would do."""
    told = facts.timeline.settings.get("optimizer") or {}
    name, tensors = str(told.get("name")), int(told.get("tensors") or 0)
    if name not in FUSED or told.get("fused") or told.get("differentiable") or not tensors:
        return None
    spans, where = _calls(facts, r"^Optimizer\.step#")
    share = facts.share_of(spans)
    taken = share * facts.step_s
    floor = int(told.get("elements") or 0) * TRAFFIC[name] / BYTES_PER_S + tensors * PER_TENSOR_S
    lost = max(0.0, taken - floor) / max(facts.step_s, 1e-9)
    if lost < LEAST_SHARE:
        return None
    gains = (0.4 * lost, 0.8 * lost, lost)
    return Proof(
        headline=f"{name} updates {tensors} tensors one after the other: "
        f"{taken * 1e3:.3g} ms per step",
        low=gains[0],
        high=lost,
        predicted=from_gains(gains, "P4: a fused update at memory speed"),
        evidence=(
            measured("optimizer, share of step", share, "ratio", source="calls"),
            measured("tensors", tensors, None, source="param_groups"),
            measured("what a fused update needs, per step", floor, "s", source="model"),
        ),
        confidence=0.8,
        where=where,
        bucket="compute",
        facts={"optimizer": name, "implementation": "loop"},
    )


def graph_breaks(facts: Facts) -> Proof | None:
    """Breaks that Dynamo counted, with the lines at which it resumed."""
    told: Mapping[str, Any] = facts.timeline.settings.get("compile") or {}
    breaks = sum((told.get("graph_breaks") or {}).values())
    where = _broken_at(facts, told)
    if not breaks or not where:
        return None
    share = facts.share("compute")
    gains = (BROKEN[0] * share, BROKEN[1] * share, BROKEN[2] * share)
    reason = next(iter(told["graph_breaks"]), "").strip().splitlines()
    return Proof(
        headline=f"The compiled model is broken into pieces at {len(where)} "
        f"place{'s' if len(where) > 1 else ''}",
        low=gains[0],
        high=gains[2],
        predicted=from_gains(gains, "P4: what an unbroken graph may save of the work"),
        evidence=(
            measured("graph breaks while compiling", breaks, None, source="torch._dynamo"),
            measured("first reason", (reason or [""])[0][:200], None, source="torch._dynamo"),
        ),
        confidence=0.6,
        where=where,
        bucket="compute",
    )


def _broken_at(facts: Facts, told: Mapping[str, Any]) -> tuple[Place, ...]:
    found: dict[tuple[Any, Any], Place] = {}
    for one in told.get("compiles") or ():
        match = _RESUMED.match(str(one.get("function")))
        if match and one.get("file"):
            place = Place(
                file=one["file"],
                line=int(match["line"]),
                function=match["function"],
                rank=facts.rank,
            )
            found[place.file, place.line] = place
    for text in told.get("graph_breaks") or ():
        for match in _FILE.finditer(text):
            place = Place(
                file=match["file"],
                line=int(match["line"]),
                function=match["function"] or "",
                rank=facts.rank,
            )
            if not in_library(place):
                found.setdefault((place.file, place.line), place)
    return tuple(found.values())[:3]


def compiled(facts: Facts) -> tuple[Place, ...]:
    """The function that a watched process compiled most often."""
    told: Mapping[str, Any] = facts.timeline.settings.get("compile") or {}
    functions = Counter(
        (one.get("file"), one.get("line"), one.get("function"))
        for one in told.get("compiles") or ()
        if one.get("file")
    )
    return tuple(
        Place(file=file, line=line, function=function, rank=facts.rank)
        for (file, line, function), _ in functions.most_common(1)
    )


def reasons(facts: Facts) -> tuple[Evidence, ...]:
    """Why it compiled again, in the compiler's own words."""
    told: Mapping[str, Any] = facts.timeline.settings.get("compile") or {}
    texts = [one["reason"] for one in told.get("compiles") or () if one.get("reason")]
    if not texts:
        return ()
    return (
        measured(
            "last reason to compile again", texts[-1][:300], None, samples=len(texts),
            source="torch._dynamo",
        ),
    )  # fmt: skip
