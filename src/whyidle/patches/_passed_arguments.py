"""Arguments that a file passes to its functions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from whyidle.patches._source_tree import SourceTree

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
