"""Variables of the environment that the program itself sets."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import ENVIRONMENT, LISTS, as_python
from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, argument
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source, source_of

DEFAULT = Keyword("default", None, position=1)


@source_form(f"{ENVIRONMENT}*")
def environment(text: str, change: Change) -> Rewrite:
    """``os.environ["NAME"] = "1"`` and ``os.environ.setdefault("NAME", "1")``: what the command
    exports has no say over the first. A program that sets nothing is left as it is."""
    name = change.knob.removeprefix(ENVIRONMENT)
    if name not in text:
        return Rewrite(text)
    source = source_of(text)
    setter = Setter(source, DEFAULT, change)
    for statement in source.every(cst.Assign):
        if any(_is_variable(source, each.target, name) for each in statement.targets):
            own = source.literal(statement.value)
            if name in LISTS and isinstance(own, str) and own:
                setter.edits.replace(statement.value, as_python(_behind(own, str(change.value))))
                continue
            setter.change_value(statement, statement.value)
    defaults = [
        call for call in source.calls(["os.environ.setdefault"])
        if call.args and source.literal(call.args[0].value) == name
    ]  # fmt: skip
    plain = []
    for call in defaults:
        value = argument(call, DEFAULT)
        own = source.literal(value)
        if value is not None and name in LISTS and isinstance(own, str) and own:
            setter.edits.replace(value, as_python(_behind(own, str(change.value))))
        else:
            plain.append(call)
    return setter.set(plain)


def _behind(own: str, value: str) -> str:
    """What a variable of several settings holds with one more, which may stand in it already."""
    return own if value in own.split(",") else f"{own},{value}"


def _is_variable(source: Source, target: cst.BaseExpression, name: str) -> bool:
    if not isinstance(target, cst.Subscript) or source.names(target.value) != {"os.environ"}:
        return False
    (element, *more) = target.slice
    index = element.slice
    return not more and isinstance(index, cst.Index) and source.literal(index.value) == name
