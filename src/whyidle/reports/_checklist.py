"""The checklist: what guides tell people to check, each line answered from one diagnosis.

A line is answered by the findings of its causes, else by what was measured, else by the causes that
were checked without a finding. Where its causes lacked signals and nothing was measured, the answer
is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

from whyidle.model.diagnosis import Diagnosis, Finding
from whyidle.reports._next_steps import NextStep
from whyidle.reports._number_format import format_bytes, format_interval, format_percent
from whyidle.reports._sections import (
    Column,
    Commands,
    Folded,
    Headline,
    Line,
    Part,
    Section,
    Span,
    Table,
    Tone,
)
from whyidle.reports._text_page import Colours
from whyidle.reports._text_sections import render_text

Answer = Literal["yes", "no", "partly", "unknown"]
BUSY: Final = 0.7
"""utilization that guides ask for (Google Cloud, PyTorch: above 70 to 80 %)"""
MOST_SHARE: Final = 0.05
"""share of the step below which a kind of waiting is no issue"""
FREE: Final = 0.5
"""share of memory in use below which much is free (ICSE 2024: at most 50 % is too small a batch)"""


class Measure(NamedTuple):
    """An answer with what it rests on."""

    answer: Answer
    text: str


class Question(NamedTuple):
    """A line of the checklist, for which "yes" is good."""

    question: str
    causes: tuple[str, ...]
    measure: Callable[[Diagnosis], Measure | None] = lambda _: None


class Row(NamedTuple):
    """An answered line; ``cause`` is that of the finding behind it."""

    question: str
    answer: Answer
    text: str
    cause: str | None


def _busy(d: Diagnosis) -> Measure | None:
    if d.device.kind == "cpu":
        return Measure("no", "it trains on the CPU")
    busy = d.utilization.busy if d.utilization.busy is not None else d.utilization.gpu_util
    if busy is None:
        return None
    return Measure("yes" if busy >= BUSY else "no", f"busy {format_percent(busy)} of the time")


def _measure_filling(d: Diagnosis) -> Measure | None:
    shares = {"SMs active": d.utilization.sm_active, "model FLOPs": d.utilization.mfu}
    known = [f"{name} {format_percent(value)}" for name, value in shares.items() if value]
    return Measure("partly", ", ".join(known)) if known else None


def _memory(d: Diagnosis) -> Measure | None:
    peak, limit = d.utilization.memory_peak_bytes, d.device.memory_bytes
    if d.memory is not None and d.memory.peak and d.memory.limit:
        peak, limit = d.memory.peak, d.memory.limit
    if not peak or not limit:
        return None
    text = f"{format_bytes(peak)} of {format_bytes(limit)} at the peak"
    return Measure("yes" if peak >= FREE * limit else "partly", text)


def _share(buckets: tuple[str, ...], words: str) -> Callable[[Diagnosis], Measure | None]:
    def measure(d: Diagnosis) -> Measure | None:
        if d.attribution.unknown >= 1.0:
            return None
        share = sum(float(getattr(d.attribution, bucket)) for bucket in buckets)
        small = share < MOST_SHARE
        return Measure("yes" if small else "no", f"{words} {format_percent(share)} of the step")

    return measure


def _both_idle(d: Diagnosis) -> Measure | None:
    share = sum(r.share for r in d.detail.reasons if r.bucket in ("unknown", "interruption"))
    if d.attribution.unknown >= 1.0 or not d.detail.reasons:
        return None
    small = share < MOST_SHARE
    return Measure("yes" if small else "no", f"neither computes {format_percent(share)}")


def _ranks(d: Diagnosis) -> Measure | None:
    if d.run.ranks <= 1:
        return Measure("yes", "one rank")
    late = [r.lateness_s / r.step_s for r in d.detail.ranks if r.lateness_s and r.step_s]
    if not late:
        return None
    worst = max(late)
    answer: Answer = "yes" if worst < MOST_SHARE else "no"
    return Measure(answer, f"the latest by {format_percent(worst)} of a step")


LINES: Final = (
    Question("is the device busy?", ("training-on-cpu", "idle-allocated-gpu",
         "interactive-or-unreleased"), _busy),
    Question("is it busy with useful work?", ("needless-compute", "padding-waste",
         "naive-attention",
         "unfused-memory-bound-ops", "wrong-memory-format",
         "dense-indexing-gradients", "work-beside-training"), _measure_filling),
    Question("does the data arrive in time?", ("dataloader-no-workers",
         "dataloader-too-few-workers",
         "heavy-cpu-transform", "bursty-loader-shallow-prefetch", "worker-handoff-bottleneck",
         "worker-restart-per-epoch", "slow-input-pipeline", "remote-storage-fetch-stall",
         "small-file-random-io"), _share(("input",), "waiting for data")),
    Question("is the device free of waits for the CPU?", ("launch-bound-small-kernels",
         "python-overhead-in-step", "python-between-operators", "per-step-host-sync",
         "unfused-optimizer", "graph-breaks", "uncompiled-step"),
         _share(("host", "sync"), "host work and waits")),
    Question("is always one of the two at work?", ("sync-checkpoint", "heavy-evaluation",
         "blocking-logging-upload", "python-gc-pauses", "compile-autotune-warmup"), _both_idle),
    Question("do copies overlap with compute?", ("pageable-h2d-copy", "blocking-h2d-copy",
         "oversized-or-fragmented-h2d", "large-d2h-copy"), _share(("transfer",), "copies")),
    Question("is memory used?", ("memory-capacity-bound", "allocator-thrash", "memory-leak-growth",
         "host-memory-pressure"), _memory),
    Question("is the batch large enough?", ("batch-too-small",)),
    Question("is the precision reduced?",
         ("no-mixed-precision", "tf32-disabled", "double-precision")),
    Question("is communication hidden?", ("exposed-gradient-comm", "allreduce-every-microstep",
         "nccl-transport-fallback", "ddp-config-overhead"),
         _share(("communication",), "exposed communication")),
    Question("are the ranks even?", ("rank-workload-imbalance", "late-rank", "fail-slow-device"),
         _ranks),
    Question("are the CPU cores sufficient and well used?", ("cpu-starved-allocation",
         "cpu-oversubscription", "narrowed-cpu-affinity")),
    Question("does the hardware run at full speed, for this job alone?", ("thermal-throttle",
         "power-or-clock-cap", "gpu-contention")),
    Question("are debugging modes off?", ("debug-mode-left-on",)),
)  # fmt: skip


def answer_lines(diagnosis: Diagnosis) -> list[Row]:
    """Answer all lines of the checklist; a last one names findings that belong to no other."""
    known = {cause for line in LINES for cause in line.causes}
    rest = [f.cause for f in diagnosis.findings if f.cause not in known and f.severity != "info"]
    lines = [*LINES, Question("is there nothing else?", tuple(rest))] if rest else LINES
    return [_answer(diagnosis, line) for line in lines]


TONES: Final[dict[Answer, Tone]] = {
    "yes": "good", "no": "bad", "partly": "caution", "unknown": "dim",
}  # fmt: skip


def checklist_section(diagnosis: Diagnosis) -> Section | None:
    """What guides tell people to check, answered from this run, folded; None after a failure."""
    if diagnosis.command_failed:
        return None
    rows = answer_lines(diagnosis)
    bad = sum(row.answer == "no" for row in rows)
    dark = sum(row.answer == "unknown" for row in rows)
    summary = f"{len(rows)} lines: {bad} need attention, {dark} unknown"
    return Section("Checklist", [Folded(summary, [_checklist_table(rows)])], "checklist")


def _line(row: Row) -> Line:
    cause = f" ({row.cause})" if row.cause else ""
    return [f"{row.question} ", Span(f"{row.text}{cause}", "dim")]


def _checklist_table(rows: Sequence[Row]) -> Table:
    cells = [[Span(row.answer, TONES[row.answer]), _line(row)] for row in rows]
    return Table([Column(""), Column("")], cells)


def render_checklist(
    diagnosis: Diagnosis,
    *,
    width: int = 80,
    colours: Colours | None = None,
    next_steps: Sequence[NextStep] = (),
) -> str:
    """Render the checklist for a terminal."""
    table = _checklist_table(answer_lines(diagnosis))
    parts: list[Part] = [
        Headline(diagnosis.verdict.headline),
        Section("", [table]),
        Commands(next_steps),
    ]
    return render_text(parts, width=width, colours=colours)


def _answer(diagnosis: Diagnosis, line: Question) -> Row:
    found = [f for f in diagnosis.findings if f.cause in line.causes]
    found.sort(key=lambda finding: (finding.severity == "info", -finding.expected_loss))
    measured = line.measure(diagnosis)
    if found:
        serious = found[0].severity != "info"
        answer: Answer = "no" if serious else measured.answer if measured else "partly"
        return Row(line.question, answer, _found_text(found[0], measured), found[0].cause)
    if measured:
        return Row(line.question, measured.answer, measured.text, None)
    missing = {one.cause for one in diagnosis.abstentions}
    checked = [cause for cause in line.causes if cause not in missing]
    if not checked or diagnosis.saw_nothing or not diagnosis.coverage.signals:  # such as a log
        return Row(line.question, "unknown", "not recorded", None)
    if len(checked) < len(line.causes):
        text = f"nothing found, {len(checked)} of {len(line.causes)} causes checked"
        return Row(line.question, "partly", text, None)
    return Row(line.question, "yes", "checked, nothing found", None)


def _found_text(finding: Finding, measured: Measure | None) -> str:
    cost = f"costs {format_interval(finding.lost)} of the step"
    return f"{measured.text}; {cost}" if measured else cost
