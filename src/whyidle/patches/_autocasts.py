"""Autocasts that a program has already: which of them are for training, and whether they are on."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from whyidle.model.patch import Change, Rewrite
from whyidle.patches._arguments import with_keyword
from whyidle.patches._keyword import Keyword, argument, current
from whyidle.patches._origin import origin
from whyidle.patches._setter import Setter
from whyidle.patches._source import NO_LITERAL, Source
from whyidle.patches._spread import spread
from whyidle.patches._statements import torch_name
from whyidle.patches._training import method

AUTOCAST = ("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast")
OLDER = ("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast")
KEPT_FULL = ("torch.nn.BCELoss", "torch.nn.functional.binary_cross_entropy")
"""what PyTorch refuses to compute under autocast, but on CPUs"""
DTYPE = Keyword("dtype", None, position=1)


def autocasts(source: Source) -> list[cst.Call]:
    """Those in a function, or in a loop, that has a backward pass, and those that are kept under a
    name for all of a script that trains. Whoever evaluates, or keeps a layer in full precision, has
    others; so has whoever leaves one for some lines."""
    calls = source.calls((*AUTOCAST, *OLDER))
    return [call for call in calls if _trains(source, call) and not _inner(source, call, calls)]


def _trains(source: Source, call: cst.Call) -> bool:
    scope = source.around(call, cst.For, cst.While, cst.FunctionDef) or source.module
    return any(method(each) == "backward" for each in source.inside(cst.Call, scope))


def _inner(source: Source, call: cst.Call, calls: list[cst.Call]) -> bool:
    statement = source.around(call, cst.With)
    while statement is not None:
        statement = source.around(statement, cst.With)
        items = statement.items if isinstance(statement, cst.With) else ()
        if any(item.item in calls for item in items):
            return True
    return False


def turned_on(source: Source, change: Change, calls: list[cst.Call]) -> Rewrite:
    """Autocasts that are plainly off go on, with the type of the change: their own, where they name
    none, may need a gradient scaler. One that is on has to have that type already."""
    on = Setter(source, Keyword("enabled", True), replace(change, value=True, was=None))
    for call in calls:
        older = source.names(call.func) <= set(OLDER)
        on.keyword = Keyword("enabled", True, position=0 if older else 2)
        value = current(source, call, on.keyword, change.options)
        known = spread(source, call)
        dtype = argument(call, DTYPE) or (known.keys.get(DTYPE.name) if known else None)
        has = dtype is not None and source.names(dtype) == {f"torch.{change.value}"}
        if value is True and has:
            on.edits.done = True
        elif value is True:
            on.leave(call, f"has {source.code(call)} already")
        elif value is NO_LITERAL:
            on.set([call])  # says what decides instead
        elif reason := unfit(source, change.device):
            on.edits.why.append(reason)
        elif torch := torch_name(source):
            _turn_on(source, on, call, dtype, f"{torch}.{change.value}")
        else:
            on.leave(call, "is in a file without `import torch`")
    return on.edits.rewrite(source)


def _turn_on(
    source: Source, on: Setter, call: cst.Call, dtype: cst.BaseExpression | None, code: str
) -> None:
    """A constant that decides over more than this, as over a gradient scaler, stays as it is."""
    value = argument(call, on.keyword)
    found = origin(source, value) if value is not None else None
    if value is not None and found is not None and found.others:
        on.edits.replace(value, "True")
    else:
        on.set([call])
    if dtype is None:
        on.edits.changes[call] = lambda new: with_keyword(new, DTYPE.name, code)
    else:
        on.edits.replace(dtype, code)


def unfit(source: Source, device: str) -> str:
    """Why nothing of a file may run under autocast; empty where nothing is seen."""
    calls = source.calls(KEPT_FULL) if device != "cpu" else []
    if not calls:
        return ""
    said = source.code(calls[0].func)
    return f"line {source.line(calls[0])} has {said}, which must not run under autocast"
