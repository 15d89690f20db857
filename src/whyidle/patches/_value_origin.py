"""The origin of an argument's value: a literal in the call, a constant, or a command's option.

Only evident origins: a name that is bound once in the file, to a literal; an option of ``argparse``
that is declared once, with a literal default, and read from a name that holds parsed options.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst
from libcst import metadata

from whyidle.patches._source_tree import NO_LITERAL, SourceTree

SPAWN = ("torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn")
"""calls a given function with a number and ``args``"""


class PassedArguments:
    """Calls of a file by the called name, and its functions by the names of their parameters."""

    def __init__(self, source: SourceTree) -> None:
        self._source = source
        self._calls = _by_last((call.func, call) for call in source.all_nodes(cst.Call))
        started = ((_direct_value(call, "fn", 0), call) for call in source.calls_of(SPAWN))
        self._started = _by_last(started)
        self._functions: dict[str, list[tuple[cst.FunctionDef, int]]] = {}
        for function in source.all_nodes(cst.FunctionDef):
            for place, param in enumerate(positional_parameters(function)):
                self._functions.setdefault(param.name.value, []).append((function, place))

    def by_name(self, name: str) -> list[cst.BaseExpression | None]:
        """Values passed to functions for a parameter of this name; None where not evident."""
        found: list[cst.BaseExpression | None] = []
        for function, place in self._functions.get(name, []):
            owner = self._source.enclosing_node(function, cst.ClassDef, cst.FunctionDef)
            called, at = function.name.value, place
            static = any(
                last_part(each.decorator) == "staticmethod" for each in function.decorators
            )
            if isinstance(owner, cst.ClassDef) and not static:
                at -= 1  # itself
                called = owner.name.value if called == "__init__" else called
            found += [passed_value(call, name, at) for call in self._calls.get(called, [])]
            found += [_spawned_value(call, at) for call in self._started.get(called, [])]
        return found


def positional_parameters(function: cst.FunctionDef) -> list[cst.Param]:
    """Parameters that can be passed by position."""
    return [*function.params.posonly_params, *function.params.params]


def _by_last(
    calls: Iterator[tuple[cst.BaseExpression | None, cst.Call]],
) -> dict[str, list[cst.Call]]:
    found: dict[str, list[cst.Call]] = {}
    for called, call in calls:
        found.setdefault(last_part(called), []).append(call)
    return found


def passed_value(call: cst.Call, name: str, place: int) -> cst.BaseExpression | None:
    """The value that a call passes for a parameter of this name and position, if evident."""
    return None if any(arg.star for arg in call.args) else _direct_value(call, name, place)


def _direct_value(call: cst.Call, name: str, place: int) -> cst.BaseExpression | None:
    named = [arg.value for arg in call.args if arg.keyword and arg.keyword.value == name]
    plain = [arg.value for arg in call.args if arg.keyword is None]
    return named[0] if named else plain[place] if 0 <= place < len(plain) else None


def _spawned_value(call: cst.Call, place: int) -> cst.BaseExpression | None:
    args = passed_value(call, "args", 1)
    elements = args.elements if isinstance(args, cst.Tuple) else ()
    if not all(isinstance(each, cst.Element) for each in elements):
        return None
    return elements[place - 1].value if 1 <= place <= len(elements) else None


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
    """Whether an expression returns the options: a call that parses them, or a name that holds
    nothing else in the file."""
    return source.make_once(_OptionNames).holds_options(value)


class _OptionNames:
    """What the names of a file hold; cached, because a file may ask for each many times."""

    def __init__(self, source: SourceTree) -> None:
        self._source = source
        self._held = _values_by_name(source)
        self._passed = source.make_once(PassedArguments)
        self._reading = {
            function.name.value
            for call in source.all_nodes(cst.Call)
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in PARSES
            for function in source.all_around(call, cst.FunctionDef)
        }
        self._known: dict[str, bool] = {}

    def holds_options(self, value: cst.BaseExpression) -> bool:
        name = name_of(value)
        if name is None or self._is_another(value):
            return name is None and self._reaches_parser(value)
        if name not in self._known:
            self._known[name] = self._reaches_parser(value)
        return self._known[name]

    def _reaches_parser(self, value: cst.BaseExpression) -> bool:
        """Follow a value to all of its origins: a parser must be among them, and nothing else."""
        left: list[cst.BaseExpression | None] = [value]
        seen: set[str] = set()
        read = False
        while left:
            each = left.pop()
            name = name_of(each)
            if isinstance(each, cst.Call) and self._reads_options(each):
                read = True
            elif isinstance(each, cst.Call):
                left.append(self._given_back(each))
            elif name is None or self._is_another(each):
                return False
            elif name not in seen:
                seen.add(name)
                left += self._assigned_values(name) or [None]
        return read

    def _assigned_values(self, name: str) -> list[cst.BaseExpression | None]:
        """Values assigned to a name, or else passed for it to functions, None where not evident;
        not the name itself, which is passed on. Values passed by a loop always count."""
        held, passed = self._held.get(name, []), self._passed.by_name(name)
        looped = list(filter(self._is_loop_variable, passed))
        return [*(held or (each for each in passed if name_of(each) != name)), *looped]

    def _reads_options(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute):
            words = call.args[0].value if call.args else None
            fixed = isinstance(words, cst.List) and bool(words.elements)
            return call.func.attr.value in PARSES and not fixed
        return last_part(call.func) in self._reading

    def _is_another(self, value: cst.BaseExpression | None) -> bool:
        """Whether another object may have that name at this place."""
        if isinstance(value, cst.Attribute):
            return not self._set_here(value)
        return self._is_loop_variable(value)

    def _set_here(self, value: cst.Attribute) -> bool:
        """Whether an attribute of ``self`` is set in the surrounding class, or in one of its bases
        in the file: another class may have a different one of that name."""
        around = self._source.enclosing_node(value, cst.ClassDef)
        if not isinstance(around, cst.ClassDef):
            return False
        bases = {last_part(each.value) for each in around.bases}
        own = [one for one in self._source.all_nodes(cst.ClassDef) if one.name.value in bases]
        return any(
            name_of(target.target) == name_of(value)
            for each in (around, *own)
            for target in self._source.nodes_inside(cst.AssignTarget, each)
        )

    def _is_loop_variable(self, value: cst.BaseExpression | None) -> bool:
        bindings = self._source.assignments_of(value) if isinstance(value, cst.Name) else []
        nodes = [node for each in bindings if (node := getattr(each, "node", None)) is not None]
        return any(self._is_target(node) for node in nodes)

    def _is_target(self, node: cst.CSTNode) -> bool:
        above = self._source.parent_of(node)
        while isinstance(above, cst.Tuple | cst.List | cst.BaseElement):
            node, above = above, self._source.parent_of(above)
        return isinstance(above, cst.For | cst.CompFor) and above.target is node

    def _given_back(self, call: cst.Call) -> cst.BaseExpression | None:
        """The argument of a call of a function of the file that returns just that argument."""
        source = self._source
        bound = source.assignments_of(call.func) if isinstance(call.func, cst.Name) else []
        function = getattr(bound[0], "node", None) if len(bound) == 1 else None
        if not isinstance(function, cst.FunctionDef) or function.decorators:
            return None
        if function.asynchronous is not None or source.nodes_inside(cst.Yield, function):
            return None
        returns = source.nodes_inside(cst.Return, function)
        own = [each for each in returns if source.enclosing_node(each, cst.FunctionDef) is function]
        names = [each.value for each in own if isinstance(each.value, cst.Name)]
        params = [each.name.value for each in positional_parameters(function)]
        plain = len(names) == len(own) and len({each.value for each in names}) == 1
        if not plain or names[0].value not in params or len(source.assignments_of(names[0])) != 1:
            return None
        if not self._is_only_read(names[0].value, function):
            return None
        return passed_value(call, names[0].value, params.index(names[0].value))

    def _is_only_read(self, name: str, function: cst.FunctionDef) -> bool:
        """Whether a function uses only single attributes of a parameter before it returns it: a
        function that gets the whole object may replace options."""
        for each in self._source.nodes_inside(cst.Name, function.body):
            above = self._source.parent_of(each)
            other = isinstance(above, cst.Attribute) and above.attr is each
            if each.value != name or other or isinstance(above, cst.Return):
                continue
            if not isinstance(above, cst.Attribute) or above.attr.value == "__dict__":
                return False
        return True


def _values_by_name(source: SourceTree) -> dict[str, list[cst.BaseExpression | None]]:
    """Values assigned to each name; with several targets those of the first, as of options and the
    rest."""
    held: dict[str, list[cst.BaseExpression | None]] = {}
    for each in source.all_nodes(cst.Assign):
        for target in (target.target for target in each.targets):
            several = target.elements if isinstance(target, cst.Tuple) else ()
            first = several[0].value if several else target
            if (name := name_of(first)) is not None:
                held.setdefault(name, []).append(each.value)
    for other in source.all_nodes(cst.AnnAssign):
        if other.value is not None and (name := name_of(other.target)) is not None:
            held.setdefault(name, []).append(other.value)
    return held


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
    for each in source.all_nodes(cst.Attribute):
        if each.attr.value in uses and _is_one(source, each):
            uses[each.attr.value].append(each)
    return uses


def _is_one(source: SourceTree, value: cst.Attribute) -> bool:
    """Whether it may be an option, also where the options were passed on."""
    of = value.value
    passed_on = isinstance(of, cst.Attribute) and holds_options(source, cst.Name(of.attr.value))
    return holds_options(source, of) or passed_on


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
