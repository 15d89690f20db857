"""Keeps of the proposed fixes those whose object exists in what was recorded: no switch of PyTorch
is set in a job of JAX, no learning rate is scaled without training, and nothing is compiled that
runs as a CUDA graph already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import union_of
from whyidle.model.cause import MOSTLY, WORTH
from whyidle.model.diagnosis import Edit, Finding, ProposedFix
from whyidle.model.knobs import JAX, KERAS, LOADERS, PYTHON, TENSORFLOW, TORCH, Subject
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

LEARNING = ("optimizer.", "autocast.grad_scaler")
"""knobs of training alone"""
COMPUTES: Final[dict[str, frozenset[Subject]]] = {
    "pytorch": frozenset({TORCH, LOADERS}),
    "tensorflow": frozenset({TENSORFLOW, KERAS}),
    "jax": frozenset({JAX}),
}
"""name of the framework that computes -> what comes with it"""
LOADER_CALLS: Final = (Role.BATCH_INLINE, Role.BATCH_FROM_WORKERS)


def keep_applicable_fixes(findings: list[Finding], lead: Facts) -> list[Finding]:
    """Return the findings with the fixes that apply to the kind of recording."""
    subjects, kind = find_subjects(lead.timeline), lead.kind
    if subjects is not None:
        findings = [_keep(finding, lambda fix: fit_subjects(fix, subjects)) for finding in findings]
    if kind is None:
        return findings
    if kind.kind == "graph_capture":
        return []
    meant = {name for name, fix in catalog.load_fixes().items() if kind.kind in fix.kinds}
    findings = [_keep(one, lambda fix: fix if fix.fix in meant else None) for one in findings]
    return [_keep(finding, lambda fix: _applicable(fix, lead)) for finding in findings]


def fit_subjects(fix: ProposedFix, subjects: frozenset[Subject]) -> ProposedFix | None:
    """The fix with the edits whose subject a job with these has; None if it has that of none. It is
    advice where only people can set one of them in this job."""
    present: dict[Edit, frozenset[Subject]] = {}
    for edit in fix.edits:
        of = catalog.find_knob(edit.knob).subjects
        if not of or subjects & {*of}:
            present[edit] = subjects & {*of}
    if fix.edits and not present:
        return None
    by_hand = any(
        of and of <= {*catalog.find_knob(edit.knob).by_hand_in} for edit, of in present.items()
    )
    return msgspec.structs.replace(
        fix, edits=list(present), automatic=fix.automatic and not by_hand
    )


def _keep(finding: Finding, fit: Callable[[ProposedFix], ProposedFix | None]) -> Finding:
    """The finding with the fixes that fit; a remark where those with a worthwhile gain do not."""
    fixes = [kept for fix in finding.fixes if (kept := fit(fix))]
    gains = [1.0 - 1.0 / fix.predicted.speedup for fix in fixes if fix.predicted]
    if len(fixes) < len(finding.fixes) and gains and max(gains) < WORTH:
        finding = msgspec.structs.replace(finding, severity="info")
    return msgspec.structs.replace(finding, fixes=fixes)


def _compiled_share(lead: Facts) -> float:
    """Share of the host's time in scope that runs compiled graphs already."""
    host = lead.timeline.host
    roles = (Role.COMPILED_CALL, Role.COMPILED_REGION)
    rows = np.concatenate([lead.timeline.rows_of(role) for role in roles])
    compiled = union_of(host.start[rows], host.end[rows]) & lead.host_scope
    return compiled.total / max(lead.host_scope.total, 1)


def _applicable(fix: ProposedFix, lead: Facts) -> ProposedFix | None:
    assert lead.kind is not None
    knobs = [edit.knob for edit in fix.edits]
    if lead.graph_share > MOSTLY and any(knob.startswith("model.compile") for knob in knobs):
        return None
    if "model.compile" in knobs and _compiled_share(lead) > MOSTLY:
        return None
    if lead.kind.kind in ("training", "warm_up"):
        return fix
    edits = [edit for edit in fix.edits if not edit.knob.startswith(LEARNING)]
    if not fix.changes_batch:
        return msgspec.structs.replace(fix, edits=edits)
    if lead.kind.serves:
        return None  # a server batches requests, which has advice of its own
    has_loader = len(lead.host.rows_of(Role.LOADER)) > 0
    return msgspec.structs.replace(
        fix,
        summary=fix.summary.partition(";")[0],
        edits=edits,
        consent="none",
        automatic=fix.automatic and has_loader,
        risk="memory and the time until a result grow with the batch",
    )


def find_subjects(timeline: Timeline) -> frozenset[Subject] | None:
    """Return the subjects of a recorded process; None where its framework is unknown, so that any
    may be present."""
    computes = COMPUTES.get(timeline.framework or "")
    if computes is None:
        return None
    process, subjects = timeline.process, {*computes, PYTHON}
    if process.py_dataset is not None:
        subjects.add(KERAS)
    if process.pipelines:
        subjects.add(TENSORFLOW)
    if timeline.loading.loaders or any(len(timeline.rows_of(role)) for role in LOADER_CALLS):
        subjects.add(LOADERS)
    return frozenset(subjects)
