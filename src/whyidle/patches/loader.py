"""Keywords of ``DataLoader(...)``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, Setter, argument, current
from whyidle.patches._source import NO_LITERAL, Source

DATA_LOADER = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
WORKERS = Keyword("num_workers", 0, position=5)
KEYWORDS = {
    "loader.workers": WORKERS,
    "loader.pin_memory": Keyword("pin_memory", False, position=7),
    "loader.persistent_workers": Keyword("persistent_workers", False),
    "loader.prefetch_factor": Keyword("prefetch_factor", None),
}
NEED_WORKERS = {
    "loader.persistent_workers": "{0} > 0",
    "loader.prefetch_factor": "{1} if {0} else None",
}
"""what is refused without workers -> what to write where their number depends on the run"""


@source_form(*KEYWORDS)
def loader(text: str, change: Change) -> Rewrite:
    """The loaders that the finding's lines mean, else all that have the old value."""
    if "DataLoader" not in text:
        return Rewrite(text)
    source = Source(text)
    keyword = KEYWORDS[change.knob]
    calls = meant(source, source.calls(DATA_LOADER), keyword, change)
    setter = Setter(source, keyword, change)
    if change.knob not in NEED_WORKERS or not change.value:
        return setter.set(calls)
    guarded = NEED_WORKERS[change.knob]
    served = [
        call for call in calls if current(source, call, WORKERS) != 0 or _varies(source, call)
    ]
    rewrite = setter.set(served, lambda call: _guarded(source, call, guarded, change.value))
    if calls and not served:
        return Rewrite(text, why=(f"line {source.line(calls[0])}: the DataLoader has no workers",))
    return rewrite


def _varies(source: Source, call: cst.Call) -> bool:
    value = argument(call, WORKERS)
    return value is not None and source.literal(value) is NO_LITERAL


def _guarded(source: Source, call: cst.Call, code: str, value: object) -> str:
    workers = argument(call, WORKERS)
    if workers is None or source.literal(workers) is not NO_LITERAL:
        return repr(value)
    return code.format(source.code(workers), repr(value))


def meant(
    source: Source, calls: list[cst.Call], keyword: Keyword, change: Change
) -> list[cst.Call]:
    """The calls that lines of the finding lie in or loop over; else those with the old value."""
    named = [call for call in calls if _loop_lines(source, call) & set(change.lines)]
    if named:
        return named
    values = {id(call): current(source, call, keyword) for call in calls}
    old = (change.was, change.value, NO_LITERAL) if change.was is not None else ()
    same = [call for call in calls if not old or values[id(call)] in old]
    return same or calls


def _loop_lines(source: Source, call: cst.Call) -> set[int]:
    """Lines of a call, and of the heads of loops over what it is assigned to."""
    lines = set(source.lines(call))
    assigned = source.parent(call)
    if not isinstance(assigned, cst.Assign) or len(assigned.targets) != 1:
        return lines
    target = source.code(assigned.targets[0].target)
    for loop in source.every(cst.For):
        passed = [loop.iter, *(_arguments(loop.iter))]
        if target in [source.code(each) for each in passed]:
            lines.add(source.line(loop))
    return lines


def _arguments(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [arg.value for arg in node.args] if isinstance(node, cst.Call) else []
