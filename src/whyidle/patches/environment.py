"""Environment variables that the program itself sets."""

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
    """``os.environ["NAME"] = "1"``, which overrides what the command exports, and
    ``os.environ.setdefault("NAME", "1")``. A program that sets nothing is not changed."""
    name = change.knob.removeprefix(ENVIRONMENT)
    if name not in text:
        return Rewrite(text)
    source = source_of(text)
    setter = KeywordSetter(source, DEFAULT, change)
    for statement in source.all_nodes(cst.Assign):
        sets = any(_is_variable(source, each.target, name) for each in statement.targets)
        if sets and not _append_setting(source, setter, statement.value, name):
            setter.change_value(statement, statement.value)
    plain = []
    for call in source.calls_of(["os.environ.setdefault"]):
        value = argument_value(call, DEFAULT)
        named = call.args and source.literal_value(call.args[0].value) == name
        if named and (value is None or not _append_setting(source, setter, value, name)):
            plain.append(call)
    return setter.set_keyword(plain)


def _append_setting(
    source: SourceTree, setter: KeywordSetter, value: cst.BaseExpression, name: str
) -> bool:
    """Append the setting to the text of a variable that holds several."""
    own, new = source.literal_value(value), str(setter.change.value)
    if name not in LISTS or not isinstance(own, str) or not own:
        return False
    text = own if new in own.split(",") else f"{own},{new}"
    setter.edits.replace_expression(value, as_python(text))
    return True


def _is_variable(source: SourceTree, target: cst.BaseExpression, name: str) -> bool:
    if not isinstance(target, cst.Subscript) or source.qualified_names(target.value) != {
        "os.environ"
    }:
        return False
    (element, *more) = target.slice
    index = element.slice
    return not more and isinstance(index, cst.Index) and source.literal_value(index.value) == name
