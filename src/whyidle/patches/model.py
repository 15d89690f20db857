"""What is done to a model before its optimizer is made: compiled, laid out channels-last."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword
from whyidle.patches._setter import Edits, Setter
from whyidle.patches._source import Source, source_of
from whyidle.patches._statements import before, torch_name
from whyidle.patches._training import method, models, only

COMPILE = ("torch.compile",)
SETTINGS = {
    "model.compile_mode": Keyword("mode", None),
    "model.compile_dynamic": Keyword("dynamic", None),
}


@source_form("model.compile", "model.memory_format", *SETTINGS)
def model(text: str, change: Change) -> Rewrite:
    """A line before the one optimizer. ``model.compile()`` compiles in place, so that the names in
    checkpoints stay as they are. How an already compiled model is compiled is set at that call."""
    if not any(word in text for word in ("parameters(", "compile", "memory_format")):
        return Rewrite(text)
    source = source_of(text)
    if change.knob in SETTINGS:
        setter = Setter(source, SETTINGS[change.knob], change)
        return setter.set([*source.calls(COMPILE), *_compiled(source)])
    if not change.value:
        return Rewrite(text)
    if _already(source, change):
        return Rewrite(text, done=True)
    found = only(source)
    edits = Edits()
    if found is not None and (line := _line(source, found.name, change)):
        edits.changes[found.statement] = before(source, line)
        edits.done = True
    elif others := models(source):
        names = ", ".join(dict.fromkeys(each.name for each in others))
        edits.why.append(f"line {source.line(others[0].statement)} trains {names}")
    return edits.rewrite(source)


def _line(source: Source, name: str, change: Change) -> str:
    torch = torch_name(source)
    if change.knob == "model.compile":
        return f"{name}.compile()"
    return f"{name}.to(memory_format={torch}.{change.value})" if torch else ""


def _already(source: Source, change: Change) -> bool:
    if change.knob == "model.compile":
        decorators = [source.names(each.decorator) for each in source.every(cst.Decorator)]
        return bool(source.calls(COMPILE) or _compiled(source)) or set(COMPILE) in decorators
    wanted = f"torch.{change.value}"
    formats = [arg for arg in source.every(cst.Arg) if arg.keyword is not None]
    return any(
        arg.keyword is not None
        and arg.keyword.value == "memory_format"
        and source.names(arg.value) == {wanted}
        for arg in formats
    )


def _compiled(source: Source) -> list[cst.Call]:
    """``model.compile(...)`` of a model that an optimizer trains."""
    names = {each.name for each in models(source)}
    return [
        call
        for call in source.every(cst.Call)
        if method(call) == "compile"
        and isinstance(call.func, cst.Attribute)
        and source.code(call.func.value) in names
    ]
