"""Steps take longer as the run goes on."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.line_purposes import quote_line
from whyidle.analysis.sampling.share_error import share_bounds
from whyidle.analysis.steps.forecast import from_gains
from whyidle.analysis.steps.step_growth import StepGrowth, find_growth
from whyidle.model.buckets import Bucket
from whyidle.model.cause import Proof, cause
from whyidle.model.diagnosis import Evidence
from whyidle.model.number_text import format_digits, format_duration
from whyidle.model.proof_facts import HostFacts
from whyidle.model.purposes import MEANINGS

LEAST_READS = 3
"""least readings of the process's memory that show growth"""


@cause(
    "Steps get longer as the run goes on",
    bucket="host",
    needs=("own_settings", "steady_steps", "python_stacks"),
)
def growing_step(facts: Facts) -> Proof | None:
    """What it means
    -------------
    A step works on what earlier steps have left: a list of all outputs, a graph that is kept, a
    cache that fills, a file that is rewritten.

    Why it costs
    ------------
    The total time grows with the square of the number of steps, so short tests do not show it.

    How it is detected
    ------------------
    The median steps of six parts of the run increase from part to part, in total by at least 10 %
    of the mean step. Two of the 15 pairs of parts may be in the other order if the line is not part
    of training, because other programs can disturb a part. Stack samples show one line with at
    least half of the growth, which grows at least twice as fast as the rest of the step. The gain
    is the difference between the mean step and the first step of the linear trend. The lower bound
    is the growth of the line or, if it only reports, its whole time.

    What looks alike
    ----------------
    Longer sequences, or a slower machine, lengthen forward and backward pass alike. Other programs
    may take the cores: in the second half of the run they use more, while the job computes no more
    per step and no core is idle. Growing memory alone is ``memory-leak-growth``.

    What to do
    ----------
    Update totals as you go. Detach what outlives the step. Limit lists and caches. Append to files.

    References
    ----------
    PyTorch, FAQ, "Don't accumulate history across your training loop".
    """
    growth = find_growth(facts) if facts.on_cpu else None
    if growth is None:
        return None
    line, place = growth.line, growth.line.place
    least, most = share_bounds(facts, line.sampled_time)
    gone = 1.0 - growth.base_s / facts.step_s
    gains = (
        (least, max(gone, line.time / facts.scope.total), max(gone, most))
        if line.only_reports
        else (growth.part * gone, gone, max(gone, most))
    )
    at = f" at {(place.file or '').rpartition('/')[2]}:{place.line}" if place else ""
    return Proof(
        headline=f"Steps grow from {format_duration(growth.first_s)} to "
        f"{format_duration(growth.last_s)} in {growth.steps} steps: "
        f"{MEANINGS[line.purpose]}{at} processes more and more data",
        low=min(gains),
        high=max(gains),
        predicted=from_gains(gains, "the step at the beginning of the run, by its trend"),
        evidence=_growth_evidence(facts, growth),
        confidence=0.85,
        where=tuple(dict.fromkeys(p for p in (place, line.caller) if p is not None)),
        bucket=_bucket_of(facts, growth),
        facts=HostFacts(
            purpose=line.purpose.value,
            text=quote_line(facts.timeline.sources, place, line.purpose),
            reporting=line.only_reports,
        ),
    )


def _bucket_of(facts: Facts, growth: StepGrowth) -> Bucket:
    buckets: tuple[Bucket, ...] = ("compute", "host", "interruption", "input")
    return max(buckets, key=lambda name: (growth.line.sampled_time & facts.time_of(name)).total)


def _growth_evidence(facts: Facts, growth: StepGrowth) -> tuple[Evidence, ...]:
    listed: list[tuple[str, float | str, str | None]] = [
        ("median step in the first sixth of the run", growth.first_s, "s"),
        ("median step in the last sixth of the run", growth.last_s, "s"),
        ("part of the growth at this line", growth.part, "ratio"),
        ("step after twice as many steps", 2 * growth.last_s - growth.base_s, "s"),
    ]
    reads = np.array(facts.timeline.process.memory, dtype=np.float64).reshape(-1, 3)
    if len(reads) >= LEAST_READS and np.ptp(reads[:, 1]):
        slope = float(np.polyfit(reads[:, 1], reads[:, 2], 1)[0])
        listed.append(("growth of the process per step", f"{format_digits(slope / 1e3)} kB", None))
    return tuple(
        make_evidence(*row, samples=growth.steps, source="steps", window="whole run")
        for row in listed
    )
