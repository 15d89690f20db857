"""The origin of an argument's value: a literal in the call, a constant, or a command's option.

Only evident origins: a name that is bound once in the file, to a literal; an option of ``argparse``
that is declared once, with a literal default, and read from a name that the file gives nothing but
parsed options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst import metadata

from whyidle.patches._source_tree import NO_LITERAL, SourceTree


def name_of(value: cst.CSTNode | None) -> str | None:
    """A name, or an attribute of ``self``; None for everything else."""
    if isinstance(value, cst.Name):
        return value.value
    if isinstance(value, cst.Attribute) and name_of(value.value) == "self":
        return f"self.{value.attr.value}"
    return None


def last_part(value: cst.CSTNode | None) -> str:
    """The last part of a dotted name; empty for everything else."""
    if isinstance(value, cst.Attribute):
        return value.attr.value
    return value.value if isinstance(value, cst.Name) else ""


PARSES = ("parse_args", "parse_known_args", "parse_intermixed_args")
"""methods of a parser that return the options"""


def holds_options(source: SourceTree, value: cst.BaseExpression) -> bool:
    """Whether an expression returns the options: a call that parses them, or a name, or an
    attribute of ``self``, to which the file gives nothing else."""
    if isinstance(value, cst.Call):
        return _reads_options(source, value)
    return name_of(value) is not None and last_part(value) in source.make_once(_option_names)


def _option_names(source: SourceTree) -> set[str]:
    """Names that hold the options wherever the file assigns them; functions pass them on under the
    same name."""
    reading, others = set[str](), set[str]()
    for target, value in _assignments(source):
        name = last_part(target)
        if isinstance(value, cst.Call) and _reads_options(source, value):
            reading.add(name)
        elif last_part(value) != name:
            others.add(name)
    return reading - others


def _assignments(source: SourceTree) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Names and what they get; of several targets the first, as of options and the rest."""
    for each in source.all_nodes(cst.Assign):
        for target in (target.target for target in each.targets):
            several = target.elements if isinstance(target, cst.Tuple) else ()
            yield several[0].value if several else target, each.value
    for other in source.all_nodes(cst.AnnAssign):
        if other.value is not None:
            yield other.target, other.value
    kinds: tuple[type[Any], ...] = (cst.For, cst.CompFor)
    for kind in kinds:
        for loop in source.all_nodes(kind):
            names = source.nodes_inside(cst.Name, loop.target)
            yield from ((name, loop) for name in (loop.target, *names))


def _reads_options(source: SourceTree, call: cst.Call) -> bool:
    if isinstance(call.func, cst.Attribute):
        words = call.args[0].value if call.args else None
        fixed = isinstance(words, cst.List) and bool(words.elements)
        return call.func.attr.value in PARSES and not fixed
    return last_part(call.func) in source.make_once(_reading_functions)


def _reading_functions(source: SourceTree) -> set[str]:
    return {
        function.name.value
        for call in source.all_nodes(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in PARSES
        for function in source.all_around(call, cst.FunctionDef)
    }


CHANGED = re.compile(
    r"\bset_defaults\(|\bsetattr\(|(?:\bvars\([\w.]+\)|\.__dict__)\s*(?:\.update\(|\[.*\]\s*=[^=])"
)
"""ways of setting options without assignments: defaults may then have no effect"""


@dataclass(frozen=True, slots=True)
class Origin:
    """The literal that decides a value."""

    node: cst.BaseExpression
    value: Any
    options: tuple[str, ...] = ()  # of the command line that override it
    others: tuple[cst.CSTNode, ...] = ()  # uses elsewhere in the file


def find_origin(source: SourceTree, value: cst.BaseExpression) -> Origin | None:
    """The literal that an expression's value comes from, if evident."""
    literal = source.literal_value(value)
    if literal is not NO_LITERAL:
        return Origin(value, literal)
    if isinstance(value, cst.Name):
        return _constant_origin(source, value)
    if isinstance(value, cst.Attribute):
        return _option_origin(source, value)
    return None


def _constant_origin(source: SourceTree, name: cst.Name) -> Origin | None:
    bindings = source.assignments_of(name)
    if len(bindings) != 1 or not isinstance(bindings[0], metadata.Assignment):
        return None
    bound = bindings[0]
    target = source.parent_of(bound.node)
    statement = source.parent_of(target) if isinstance(target, cst.AssignTarget) else target
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        node: cst.BaseExpression | None = statement.value
    elif isinstance(statement, cst.AnnAssign) and statement.target is bound.node:
        node = statement.value
    else:
        return None
    literal = source.literal_value(node)
    if (
        node is None
        or literal is NO_LITERAL
        or source.enclosing_node(statement, cst.For, cst.While)
    ):
        return None
    others = tuple(use.node for use in bound.references if use.node is not name)
    return Origin(node, literal, others=others)


def _option_origin(source: SourceTree, value: cst.Attribute) -> Origin | None:
    declared = _option_declaration(source, value)
    args = declared.args if declared is not None else ()
    default = next((a for a in args if a.keyword and a.keyword.value == "default"), None)
    literal = source.literal_value(default.value) if default is not None else NO_LITERAL
    if declared is None or default is None or literal is NO_LITERAL:
        return None
    uses = source.make_once(_option_uses).get(value.attr.value, [])
    others = tuple(each for each in uses if each is not value)
    return Origin(default.value, literal, tuple(_option_flags(source, declared)), others)


def _option_declaration(source: SourceTree, value: cst.Attribute) -> cst.Call | None:
    name = value.attr.value
    declared = source.make_once(_option_declarations).get(name, [])
    if (
        len(declared) != 1
        or name in source.make_once(_assigned_attributes)
        or CHANGED.search(source.text)
    ):
        return None
    if source.qualified_names(value) - {""} or not holds_options(source, value.value):
        return None
    return declared[0]


def _option_uses(source: SourceTree) -> dict[str, list[cst.Attribute]]:
    uses: dict[str, list[cst.Attribute]] = {
        name: [] for name in source.make_once(_option_declarations)
    }
    names = source.make_once(_option_names)
    for each in source.all_nodes(cst.Attribute):
        if each.attr.value in uses and last_part(each.value) in names:
            uses[each.attr.value].append(each)
    return uses


def flags_of(source: SourceTree, value: cst.BaseExpression) -> list[str]:
    """The flags of the command's option that an expression reads, if evident."""
    declared = _option_declaration(source, value) if isinstance(value, cst.Attribute) else None
    return _option_flags(source, declared) if declared is not None else []


def _option_flags(source: SourceTree, call: cst.Call) -> list[str]:
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    return [text for text in map(source.literal_value, plain) if isinstance(text, str)]


def _option_declarations(source: SourceTree) -> dict[str, list[cst.Call]]:
    found: dict[str, list[cst.Call]] = {}
    for call in source.all_nodes(cst.Call):
        if (name := _declared_attribute(source, call)) is not None:
            found.setdefault(name, []).append(call)
    return found


def _declared_attribute(source: SourceTree, call: cst.Call) -> str | None:
    """The attribute that an ``add_argument`` call declares; None for other calls."""
    function = call.func
    if not isinstance(function, cst.Attribute) or function.attr.value != "add_argument":
        return None
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == "dest":
            return str(source.literal_value(arg.value))
    flags = [flag for flag in _option_flags(source, call) if flag.startswith("-")]
    long = [flag for flag in flags if flag.startswith("--")]
    chosen = (long or flags or [""])[0]
    return chosen.lstrip("-").replace("-", "_")


def _assigned_attributes(source: SourceTree) -> set[str]:
    kinds: tuple[type[Any], ...] = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)
    targets = [each.target for kind in kinds for each in source.all_nodes(kind)]
    return {target.attr.value for target in targets if isinstance(target, cst.Attribute)}


def given_option(options: tuple[str, ...], flags: tuple[str, ...]) -> str:
    """The word of a command line that sets an option with these flags, or an empty text.
    ``argparse`` accepts unambiguous prefixes of long flags."""
    for word in options:
        name = word.partition("=")[0]
        for flag in flags:
            short = not flag.startswith("--") and word.startswith(flag)
            prefix = len(name) > 2 and name[:2] == "--" and flag.startswith(name)
            if name == flag or short or prefix:
                return word
    return ""
