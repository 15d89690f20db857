"""Variables of the environment that the program itself sets."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import ENVIRONMENT, LISTS, as_python
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of

DEFAULT = Keyword("default", None, position=1)


@source_form(f"{ENVIRONMENT}*")
def environment(text: str, change: KnobChange) -> Rewrite:
    """``os.environ["NAME"] = "1"`` and ``os.environ.setdefault("NAME", "1")``: what the command
    exports has no say over the first. A program that sets nothing is left as it is."""
    name = change.knob.removeprefix(ENVIRONMENT)
    if name not in text:
        return Rewrite(text)
    source = source_of(text)
    setter = KeywordSetter(source, DEFAULT, change)
    for statement in source.all_nodes(cst.Assign):
        if any(_is_variable(source, each.target, name) for each in statement.targets):
            own = source.literal_value(statement.value)
            if name in LISTS and isinstance(own, str) and own:
                setter.edits.replace_expression(
                    statement.value, as_python(_behind(own, str(change.value)))
                )
                continue
            setter.change_value(statement, statement.value)
    defaults = [
        call for call in source.calls_of(["os.environ.setdefault"])
        if call.args and source.literal_value(call.args[0].value) == name
    ]  # fmt: skip
    plain = []
    for call in defaults:
        value = argument_value(call, DEFAULT)
        own = source.literal_value(value)
        if value is not None and name in LISTS and isinstance(own, str) and own:
            setter.edits.replace_expression(value, as_python(_behind(own, str(change.value))))
        else:
            plain.append(call)
    return setter.set_keyword(plain)


def _behind(own: str, value: str) -> str:
    """What a variable of several settings holds with one more, which may stand in it already."""
    return own if value in own.split(",") else f"{own},{value}"


def _is_variable(source: SourceTree, target: cst.BaseExpression, name: str) -> bool:
    if not isinstance(target, cst.Subscript) or source.qualified_names(target.value) != {
        "os.environ"
    }:
        return False
    (element, *more) = target.slice
    index = element.slice
    return not more and isinstance(index, cst.Index) and source.literal_value(index.value) == name
