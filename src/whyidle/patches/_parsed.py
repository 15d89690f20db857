"""Which names of a file hold what a parser has read of the command's options."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from whyidle.patches._source import Source

PARSES = ("parse_args", "parse_known_args", "parse_intermixed_args")
"""methods of a parser that give the options"""
Known = frozenset[str]


def parsed(source: Source, value: cst.BaseExpression, known: Known = frozenset()) -> bool:
    """Whether an expression gives the options: a call that reads them, or a name that holds nothing
    else in the file. ``known`` are names that are being asked for."""
    if isinstance(value, cst.Call):
        return _reads(source, value)
    name = source.code(value)
    bare = name.removeprefix("self.")
    if not bare.isidentifier() or name in known or bare in _looped(source):
        return False
    held = list(_held(source, name))
    if not held and name == bare:
        held = list(_passed(source, name))
    return bool(held) and all(parsed(source, each, known | {name}) for each in held)


def _reads(source: Source, call: cst.Call) -> bool:
    """Whether it reads the options itself, or calls a function of the file that does."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value in PARSES
    own = [f for f in source.every(cst.FunctionDef) if f.name.value == source.code(call.func)]
    inside = [each.func for f in own for each in source.inside(cst.Call, f)]
    return any(isinstance(each, cst.Attribute) and each.attr.value in PARSES for each in inside)


def _looped(source: Source) -> list[str]:
    loops = [each.target for each in source.every(cst.For)]
    return [source.code(each) for each in (*loops, *(c.target for c in source.every(cst.CompFor)))]


def _held(source: Source, name: str) -> Iterator[cst.BaseExpression]:
    """What is assigned to a name; of several at once the first, as of options and the rest."""
    for each in source.every(cst.Assign):
        targets = [target.target for target in each.targets]
        several = [one for one in targets if isinstance(one, cst.Tuple) and one.elements]
        if name in map(source.code, (*targets, *(one.elements[0].value for one in several))):
            yield each.value
    for other in source.every(cst.AnnAssign):
        if other.value is not None and source.code(other.target) == name:
            yield other.value


def _passed(source: Source, name: str) -> Iterator[cst.BaseExpression]:
    """What functions of the file that have a parameter of this name are given for it; the name
    itself, which nothing holds, where that is not plain to see."""
    for function in source.every(cst.FunctionDef):
        names = [each.name.value for each in function.params.params]
        if name not in names:
            continue
        place, owner = names.index(name), source.around(function, cst.ClassDef)
        called = function.name.value
        if isinstance(owner, cst.ClassDef):
            place -= 1  # itself
            called = owner.name.value if called == "__init__" else called
        for call in source.every(cst.Call):
            if source.code(call.func).rpartition(".")[2] == called:
                given = _given(call, name, place)
                if given is None or source.code(given) != name:  # else it is passed on
                    yield given or cst.Name(name)


def _given(call: cst.Call, name: str, place: int) -> cst.BaseExpression | None:
    if any(arg.star for arg in call.args):
        return None
    named = [arg.value for arg in call.args if arg.keyword and arg.keyword.value == name]
    plain = [arg.value for arg in call.args if arg.keyword is None]
    return named[0] if named else plain[place] if 0 <= place < len(plain) else None
