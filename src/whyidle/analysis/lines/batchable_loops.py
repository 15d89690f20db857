"""Loops of the user's source whose turns one call on whole tensors could replace, by the source.

A *batchable* loop handles one sample, word or element per turn, and no turn needs the result of the
one before it. A loop over modules runs a different layer each turn, what a dictionary holds, such
as parameters by name, has shapes of its own, a recurrence needs what it has computed, and the
training loop updates the model: none of them is one. A *recurrent layer* can take
the place of a loop that calls cells, if only their own states pass from turn to turn. A *rollout*
asks a policy for one action per turn, and gives it to an environment; several environments could go
together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from whyidle.analysis.lines.source_statements import (
    Statement,
    called_name,
    calls_in,
    describe_statement,
    is_training_call,
    names_in,
    parse_source,
    targets_of,
)

_VECTOR: Final = re.compile(r"envs$|vec", re.IGNORECASE)
"""names of several environments that go together already"""
LEAST_RESULTS: Final = 3
"""results of an environment's step: observation, reward, end, and more"""
_CHOICES: Final = frozenset({"sample", "argmax", "multinomial"})
"""methods and functions that choose an action"""
_CELL: Final = re.compile(r"(LSTM|GRU|RNN)Cell")
_TAKES: Final = re.compile(
    r"rand|perm(?!ut)|sampl|shuffl|choice|batch|next|get|load|data|gener|read"
)
"""functions that may give each step other samples"""
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class LoopLines(NamedTuple):
    """Lines of a file inside loops."""

    batchable: frozenset[int] = frozenset()
    rollout: frozenset[int] = frozenset()
    environment: frozenset[int] = frozenset()
    """lines of rollouts that give an action to the environment"""
    recurrent: Mapping[int, str] = {}
    """lines of loops over time steps -> the layer of PyTorch that could replace the loop"""


def find_loops(text: str) -> LoopLines:
    """Return the lines of a file inside such loops, by its text."""
    batchable: set[int] = set()
    rollout: set[int] = set()
    environment: set[int] = set()
    recurrent: dict[int, str] = {}
    tree = parse_source(text)
    cells = _find_cells(tree) if tree is not None and _CELL.search(text) else {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.For | ast.While):
            statements = list(_in_order(node.body, loops=False))
            chosen = _chosen_names(statements)
            steps = [one for one in statements if _gives_action(one) or _plays(one, chosen)]
            lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            if steps and not _trains(node):
                rollout.update(lines)
                environment.update(one.lineno for one in steps)
            elif isinstance(node, ast.For) and (layer := _replacing_layer(node, cells)):
                recurrent.update(dict.fromkeys(lines, layer))
            elif isinstance(node, ast.For) and _is_independent(node):
                batchable.update(lines)
        elif isinstance(node, _COMPREHENSIONS) and not _calls_its_variable(node, _variables(node)):
            batchable.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    batched, rolled, acting = map(frozenset, (batchable, rollout, environment))
    return LoopLines(batched, rolled, acting, recurrent)


def may_take_more(text: str) -> bool:
    """Return whether a training step could take more samples, by the text of the file that trains:
    a loop goes over something else than numbers, slices or indexes by its variable, or calls what
    may draw samples. One that does none of it trains on all data at once. Nor can a step take more
    where an environment gives samples one by one."""
    nodes = list(ast.walk(parse_source(text) or ast.Module([], [])))
    functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
    takes = []
    for loop in (node for node in nodes if isinstance(node, ast.For | ast.While)):
        reached, over, own = list(ast.walk(loop)), "count()", set[str]()
        if isinstance(loop, ast.For):
            over, own = ast.unparse(loop.iter), targets_of(loop.target)
        left = dict(functions)
        for node in reached:  # which grows by the functions that it calls
            name = called_name(node) if isinstance(node, ast.Call) else ""
            reached += ast.walk(left.pop(name)) if name in left else ()
        calls = [node for node in reached if isinstance(node, ast.Call)]
        if any(map(is_training_call, calls)):
            indexed = [names_in(node.slice) for node in reached if isinstance(node, ast.Subscript)]
            slices = any(isinstance(node, ast.Slice) and names_in(node) for node in reached)
            drawn = slices or any(_TAKES.search(called_name(call)) for call in calls)
            numbers = re.search(r"range\(|count\(", over) and not any(x & own for x in indexed)
            if any(map(_gives_action, reached)):
                return False
            takes.append(drawn or not numbers)
    return any(takes) or not takes


def _find_cells(tree: ast.AST) -> dict[str, str]:
    """Names that hold recurrent cells, alone or in lists, and their kinds."""
    cells = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            calls = (call for call in ast.walk(node.value) if isinstance(call, ast.Call))
            kinds = [kind[1] for call in calls if (kind := _CELL.fullmatch(called_name(call)))]
            held = {name for target in node.targets for name in targets_of(target)}
            cells.update(dict.fromkeys(held, kinds[0]) if kinds else {})
    return cells


def _replacing_layer(loop: ast.For, cells: dict[str, str]) -> str:
    """The layer that could replace a loop over time steps: of the turn before, each statement needs
    no more than a cell its own state. Else an empty text."""
    if not cells or _trains(loop):
        return ""
    cells, kinds = dict(cells), list[str]()
    statements = [Statement(node, ()) for node in _in_order(loop.body)]
    for one in statements:
        describe_statement(one)
    assigned = set().union(*(one.sets for one in statements))
    known, states = targets_of(loop.target), set[str]()
    for one in statements:
        if isinstance(one.node, ast.For):  # over the layers of a stack
            names = cells.keys() & names_in(one.node.iter)
            cells |= {name: cells[min(names)] for name in targets_of(one.node.target) if names}
        elif isinstance(one.node, ast.While | ast.Break | ast.Continue) or one.sets & states:
            return ""
        calls = [call for call in calls_in(one.node) if names_in(call.func) & cells.keys()]
        calls = [] if hasattr(one.node, "body") else calls
        reads = names_in(one.node.value) if isinstance(one.node, ast.Assign) else one.reads
        carried = (reads & assigned) - known - _names_appended_to(one.node)
        if calls:
            given = [*calls[0].args[1:], *(word.value for word in calls[0].keywords)]
            if not one.sets or one.sets - set().union(*map(names_in, given)):
                return ""
            states |= one.sets
            inputs = names_in(calls[0].args[0]) if calls[0].args else one.sets
            carried = (carried - one.sets) | (inputs & one.sets)
            kinds += [cells[name] for name in names_in(calls[0].func) & cells.keys()]
        if carried:
            return ""
        known |= one.sets
    return kinds[0] if kinds else ""


def _names_appended_to(node: ast.stmt) -> set[str]:
    """The list that a statement appends to."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and called_name(call) == "append":
        return names_in(call.func)
    return set()


def _gives_action(node: ast.AST) -> bool:
    """Whether a statement unpacks what an environment returns: observation, reward, end."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return False
    target = node.targets[0]
    several = isinstance(target, ast.Tuple) and len(target.elts) >= LEAST_RESULTS
    if not several or called_name(node.value) != "step":
        return False
    if not isinstance(node.value.func, ast.Attribute):
        return False  # a function of the user's: p, s, loss = step(p, s, x)
    if set().union(*map(names_in, node.value.args)) & targets_of(target):
        return False  # state that is handed on, as in a step of training without side effects
    return not any(_VECTOR.search(name) for name in names_in(node.value.func))


def _chosen_names(statements: list[ast.stmt]) -> set[str]:
    """Names that hold what a policy has chosen: drawn from a distribution, or its largest value."""
    names: set[str] = set()
    for node in statements:
        if isinstance(node, ast.Assign) and any(
            isinstance(call, ast.Call) and called_name(call) in _CHOICES
            for call in ast.walk(node.value)
        ):
            names |= set().union(*map(targets_of, node.targets))
    return names


def _plays(node: ast.stmt, chosen: set[str]) -> bool:
    """Whether a statement gives such a choice to an environment, whatever that returns."""
    return any(
        isinstance(call, ast.Call)
        and called_name(call) == "step"
        and bool(set().union(*map(names_in, call.args)) & chosen)
        and not any(_VECTOR.search(name) for name in names_in(call.func))
        for call in ast.walk(node)
    )


def _trains(loop: ast.For | ast.While) -> bool:
    return any(isinstance(node, ast.Call) and is_training_call(node) for node in ast.walk(loop))


def _variables(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> set[str]:
    return set().union(*(targets_of(part.target) for part in node.generators))


def _is_independent(loop: ast.For) -> bool:
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    if _trains(loop) or any(called_name(call) == "step" for call in calls):
        return False
    variables = targets_of(loop.target)
    apart = _calls_its_variable(loop, variables) or _is_over_keys(loop, variables)
    return not apart and not _has_recurrence(loop, variables)


def _is_over_keys(loop: ast.For, variables: set[str]) -> bool:
    """Whether a loop looks up what it loops over: ``for k in params`` and ``params[k]``."""
    looked_up = {ast.unparse(node) for node in ast.walk(loop) if isinstance(node, ast.Subscript)}
    return any(f"{ast.unparse(loop.iter)}[{name}]" in looked_up for name in variables)


def _calls_its_variable(node: ast.AST, variables: set[str]) -> bool:
    """Whether a loop calls what it loops over, as over a list of layers."""
    return any(
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name | ast.Subscript)
        and bool(names_in(call.func) & variables)
        for call in ast.walk(node)
    )


def _has_recurrence(loop: ast.For, variables: set[str]) -> bool:
    """Whether a turn computes with what the turn before has assigned: ``h = cell(x, h)``. A sum
    that is added to is none."""
    assigned, known = _assigned_in(loop), set(variables)
    for node in _in_order(loop.body):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and node.value is not None:
            if _names_but_sum(node.value) & (assigned - known):
                return True
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            known |= set().union(*map(targets_of, targets))
    return False


def _names_but_sum(value: ast.expr) -> set[str]:
    """Names in a value, without what it is added to."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        parts = [part for part in (value.left, value.right) if not isinstance(part, ast.Name)]
        return set().union(*map(names_in, parts))
    return names_in(value)


def _assigned_in(loop: ast.For) -> set[str]:
    """Names that a loop assigns anew; what it appends to is not among them."""
    targets: set[str] = set()
    for node in _in_order(loop.body):
        if isinstance(node, ast.Assign):
            plain = [t for t in node.targets if not isinstance(t, ast.Subscript | ast.Attribute)]
            targets |= set().union(*map(targets_of, plain))
    return targets


def _in_order(body: list[ast.stmt], *, loops: bool = True) -> Iterator[ast.stmt]:
    """Statements in order; without ``loops`` those in inner loops are left out."""
    for node in body:
        yield node
        if loops or not isinstance(node, ast.For | ast.While):
            for part in ("body", "orelse"):
                yield from _in_order(getattr(node, part, []), loops=loops)
