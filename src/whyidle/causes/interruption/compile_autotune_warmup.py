"""The recording is mostly a cold start."""

from __future__ import annotations

import numpy as np

from whyidle.analysis.evidence import make_evidence
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals, union_of
from whyidle.analysis.partition import compilation
from whyidle.analysis.partition.idle_gaps import context_calls
from whyidle.analysis.steps.forecast import predict_removal
from whyidle.model.cause import LEAST_SHARE, Proof, cause
from whyidle.model.diagnosis import Predicted
from whyidle.model.number_text import format_duration
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.model.roles import Role

ONE_OFF = 0.8
"""least share of compilation in the first step for it to be warm-up; otherwise it recurs"""
LOADED = (0.4, 0.2, 0.0)
"""share of the compilation that remains with a cache on disk (low, expected, high gain): the model
is traced again, and the compiled code is loaded. A small transformer took 19.3 s without and 3.7 s
with a cache (PyTorch 2.13, inductor for CPUs)"""
LEAST_S = 5.0
"""one-off set-up below which a run is too short for its start to matter"""


@cause(
    "Cold start: compiling, loading kernels, autotuning",
    bucket="interruption",
    needs=("device_time",),
    direct=True,
)
def compile_autotune_warmup(facts: Facts) -> Proof | None:
    """What it means
    ----------------
    Much of the recorded time is spent once per start: kernels are compiled, loaded or tuned, and
    the device's context and memory pools are created.

    Why it costs
    ------------
    The GPU waits. A short or often restarted job pays this cost each time; a long one hardly
    notices.

    How it is detected
    ------------------
    The device is idle during compiler functions, module loading, slow launch calls, and delays in
    the first steps that later steps do not have. Compilation that recurs does not count.

    If at least six steady steps follow, the start is a note, or a warning if a watched run spent
    most of its time in it (at least 5 s). Otherwise the prediction is the recorded window without
    the set-up (P10). In the next start, only a cache on disk saves time; loading it is expected to
    take a fifth of the compilation.

    What looks alike
    ----------------
    New shapes that compile again and again are reported as ``recompilation-storm``. Allocation in
    steady steps is reported as ``allocator-thrash``.

    What to do
    ----------
    To diagnose steady steps, start the recording after the warm-up. If restarts are frequent, keep
    the compiler's cache on a disk that survives them. Compile the body of a loop once
    (``jax.lax.scan``, ``tf.while_loop``, one repeated block of a PyTorch model): compilers unroll
    Python loops. Measure whether steps become slower. Keep shapes constant, as each new one is
    compiled.

    References
    ----------
    PyTorch, "Compile Time Caching in torch.compile"; torch.profiler, ``schedule(wait, warmup)``.
    """
    setup = _setup_time(facts)
    recorded = setup.total / max(int((facts.steps.end - facts.steps.start).sum()), 1)
    seconds, share = setup.total / 1e9, facts.share_of(setup)
    if max(share, recorded if facts.slow_start else 0.0) < LEAST_SHARE:
        return None
    known = facts.share_of(setup & facts.time_of("compile"))
    low = min(known, share)
    excess = _cold_start_excess(facts)
    lengths_s = facts.steps.seconds
    steady = float(np.median(lengths_s)) if facts.slow_start and len(lengths_s) else None
    evidence = [
        make_evidence("one-off set-up, device idle", seconds, "s", samples=len(setup)),
        make_evidence("its share of the recording", recorded, "ratio"),
    ]
    host, created = facts.timeline.host, context_calls(facts.timeline)
    if len(created):
        spent = float((host.end[created] - host.start[created]).sum()) / 1e9
        evidence.append(make_evidence("creating the device's context", spent, "s"))
    if steady:
        evidence.append(make_evidence("a steady step", steady, "s", source="steps"))
        evidence.append(make_evidence("set-up in steady steps", seconds / steady, None))
    if compiler := compilation.compiler_facts(facts):
        number = compiler.functions
        evidence.append(make_evidence("functions compiled", number, None, source="torch._dynamo"))
    once = 0.0 if share else _share_of_run(facts, seconds)
    took = format_duration(seconds)
    return Proof(
        headline=f"Each run sets up and compiles for {took}, {once:.0%} of this one"
        if once
        else f"The recording {'is of' if share else 'begins with'} a cold start: "
        f"{took} of one-off set-up",
        low=low,
        high=share,
        predicted=predict_removal(
            low, max(share, excess), "P10: this window without one-off set-up", share
        ),
        evidence=tuple(evidence),
        confidence=0.9 if facts.steps.found_by else 0.7,
        where=compilation.compiled_functions(facts, again=False),
        once=once,
        facts=InterruptionFacts(
            compiler=len(facts.rows_of(Role.COMPILER)) > 0 and _generates_code(facts),
            cached=_predict_cached(share, known),
        ),
    )


def _generates_code(facts: Facts) -> bool:
    """Whether there is compiled code to cache: a backend of PyTorch such as ``aot_eager`` only runs
    operators."""
    plays = facts.timeline.vocabulary.plays
    watched = facts.timeline.framework == "pytorch" and facts.timeline.looks is not None
    stacks = (detail.stack for detail in facts.timeline.details)
    return not watched or any(plays(Role.CODE_WRITER, one) for s in stacks for one in s.split(";"))


def _share_of_run(facts: Facts, seconds: float) -> float:
    """Share of a watched run so far; 0 for recordings, which may begin anywhere, and short ones."""
    life = facts.timeline.phases.life_s
    return min(seconds / life, 1.0) if life and seconds >= LEAST_S else 0.0


def _predict_cached(share: float, compiling: float) -> Predicted:
    """With compiled code on disk; other set-up stays."""
    careful, expected, hopeful = (compiling * (1.0 - left) for left in LOADED)
    return predict_removal(
        careful, max(hopeful, share), "P10: a start with the cache on disk", expected
    )


def _setup_time(facts: Facts) -> Intervals:
    """Set-up in scope: all of it in the leading steps of a cold start, else compiling that lies
    almost entirely in the first step in scope."""
    recurring, _ = compilation.recompilations(facts)
    if facts.slow_start:
        parts = facts.partition.parts
        return ((parts["compile"] | parts["allocator"]) & facts.warm_up) - recurring
    spent = facts.time_of("compile") - recurring
    scope = facts.steps_in_scope
    leading = spent & union_of(facts.steps.start[scope][:1], facts.steps.end[scope][:1])
    return leading if leading.total >= ONE_OFF * max(spent.total, 1) else spent.clip_to(0, 0)


def _cold_start_excess(facts: Facts) -> float:
    """Share of the scope by which the leading steps exceed steady ones; 0 without a cold start."""
    length = facts.steps.end - facts.steps.start
    if not facts.cold_start or compilation.recompilations(facts)[1]:
        return 0.0
    first = len(facts.warm_up_s)
    extra = length[:first].sum() - first * length[facts.steps.steady].mean()
    return float(max(extra, 0.0) / max(facts.scope.total, 1))
